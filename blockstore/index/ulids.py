"""Sorted arrays of ULIDs: how the state keeps a million of them and finds one in a microsecond.

A ULID is 26 ASCII characters, so an array of them is one buffer of fixed width (numpy ``S26``)
whose byte order is the ULIDs' own order; an Arrow string column without nulls becomes one without
copying.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UlidArray = npt.NDArray[np.bytes_]

_WIDTH = 26
EMPTY: UlidArray = np.empty(0, dtype=f"S{_WIDTH}")


def from_texts(ulids: Iterable[str]) -> UlidArray:
    """An array in the order given."""
    return np.frombuffer("".join(ulids).encode("ascii"), dtype=EMPTY.dtype)


def from_arrow(column: pa.ChunkedArray | pa.Array) -> UlidArray:
    """An array of a string column without nulls.

    Raises ValueError if an item is not 26 bytes long.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(array) == 0:
        return EMPTY
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    if array.null_count or not (np.diff(offsets) == _WIDTH).all():
        raise ValueError("a ULID is not 26 characters long")
    return np.frombuffer(data, dtype=EMPTY.dtype, count=len(array), offset=int(offsets[0]))


def to_arrow(array: UlidArray) -> pa.Array:
    """The ULIDs as a string column, not copied; at most 82 million."""
    ends = np.arange(0, _WIDTH * len(array) + 1, _WIDTH, dtype=np.int32)
    held = pa.py_buffer(np.ascontiguousarray(array).view(np.uint8))
    return pa.Array.from_buffers(pa.string(), len(array), [None, pa.py_buffer(ends), held])


def to_texts(array: UlidArray) -> list[str]:
    """The ULIDs as Python strings."""
    text = np.ascontiguousarray(array).tobytes().decode("ascii")
    return [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]


def unique(*arrays: UlidArray) -> UlidArray:
    """The union, sorted, each once."""
    both = np.concatenate(arrays)
    if len(both) < 2 or (both[:-1] < both[1:]).all():
        return both  # as it is stored: a comparison costs a hundredth of a sort
    return np.unique(both)


def position(array: UlidArray, ulid: str) -> int | None:
    """Where a ULID is in a sorted array, or None."""
    key = ulid.encode("ascii", "replace")
    place = int(array.searchsorted(key))
    return place if place < len(array) and array[place] == key else None


def holds(array: UlidArray, ulids: UlidArray) -> npt.NDArray[np.bool_]:
    """For each of ``ulids``, whether the sorted array holds it."""
    if len(array) == 0:
        return np.zeros(len(ulids), dtype=bool)
    places = np.minimum(array.searchsorted(ulids), len(array) - 1)
    return np.asarray(array[places] == ulids)

"""Columns of Arrow, made and read without pandas: ``pa.array``, ``to_numpy`` and Python values in a
call of its functions import it where it is installed, for half a second and 35 MB. Commands keep it
out by themselves (``cli/lean.py``); a program that uses the library cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_INT64 = pa.int64()


def numbers(values: npt.ArrayLike, kind: pa.DataType = _INT64) -> pa.Array:
    """The numbers as Arrow's, of a type of integers; not copied where they have it."""
    held = np.ascontiguousarray(values, dtype=f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(held), [None, pa.py_buffer(held)])


def flags(values: npt.ArrayLike) -> pa.Array:
    """The truths as Arrow's."""
    held = np.asarray(values, dtype=bool)
    bits = pa.py_buffer(np.packbits(held, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(held), [None, bits])


def texts(values: Sequence[str]) -> pa.Array:
    """The texts as Arrow's; together less than 2 GiB."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)])
    assert ends[-1] < 1 << 31, "Arrow counts the bytes of texts in 32 bits"
    held = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, *held])


def integers(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """The numbers of an Arrow column of integers without nulls, not copied where they are 64 bits
    in one piece."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    width = column.type.bit_width // 8
    held = [
        np.frombuffer(chunk.buffers()[1], f"i{width}", len(chunk), width * chunk.offset)
        for chunk in chunks
        if len(chunk)
    ]
    found = held[0] if len(held) == 1 else np.concatenate([np.zeros(0, f"i{width}"), *held])
    return found.astype(np.int64, copy=False)

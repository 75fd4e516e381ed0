"""Which rows may have one of many values, found cheaply: most others are left out before the exact
comparison, which looks each row up in a table larger than the processor's caches.

Rules:
- No row that has one of the values is left out. Some that have none stay in.
- Integers and times are mixed to some bits; texts by their first and last eight bytes and their
  length. Of another type, or of one that is not the values', every row may have one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.scan.identities import ticks

_PLACES_A_VALUE = 8
"""So at most one row of eight stays in that has none of the values."""
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
_WORD = 8

Words = npt.NDArray[np.uint64]


class Likely:
    """Some values of one type."""

    def __init__(self, values: pa.Array) -> None:
        self._type = values.type
        self._known: npt.NDArray[np.bool_] | None = None
        words = _words(values.drop_null())
        if words is not None:
            bits = (len(words) * _PLACES_A_VALUE).bit_length() or 1
            self._shift = np.uint64(64 - bits)
            self._known = np.zeros(1 << bits, dtype=np.bool_)
            self._known[self._places(words)] = True

    def among(self, rows: pa.Array) -> pa.Array:
        """Return which of these values may be one of the known; a null may."""
        if self._known is None or rows.type != self._type:
            return pa.repeat(pa.scalar(True), len(rows))
        words = _words(rows)
        assert words is not None, "there are words of the type"
        found = pa.array(self._known[self._places(words)])
        return pc.or_(found, rows.is_null()) if rows.null_count else found

    def _places(self, words: Words) -> npt.NDArray[np.int64]:
        mixed = words * _MIX
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX
        return (mixed >> self._shift).view(np.int64)


def _words(values: pa.Array) -> Words | None:
    """64 bits of each value, equal where values are, and any of a null; None for other types."""
    kind = values.type
    if pt.is_integer(kind) or pt.is_temporal(kind):
        whole = ticks(values) if pt.is_temporal(kind) else values.cast(pa.int64(), safe=False)
        return np.asarray(whole.fill_null(0).to_numpy()).view(np.uint64)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind):
        return _words_of_texts(values.cast(pa.large_binary()))
    return None


def _words_of_texts(texts: pa.Array) -> Words:
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(len(texts), dtype=np.uint64)
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(last - first + 2 * _WORD, dtype=np.uint8)
    padded[_WORD:-_WORD] = np.frombuffer(data, dtype=np.uint8)[first:last]
    # Eight bytes from any place on, as one little-endian number.
    at = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    starts, ends = bounds[:-1] - first, bounds[1:] - first
    lengths = (ends - starts).astype(np.uint64)
    # What is read of the neighbours of a short text is shifted out.
    others = (_WORD - np.minimum(lengths, np.uint64(_WORD))) * np.uint64(8)
    head, tail = at[starts + _WORD] << others, at[ends] >> others
    return np.asarray((head * _MIX ^ tail) * _MIX + lengths, dtype=np.uint64)

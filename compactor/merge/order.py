"""The order of rows: how keys compare, within one batch and between batches of different files.

Rules:
- Ascending by the columns of the sort key, from left to right; values by their type's own order
  (strings and binary by bytes, false before true, -0.0 equal to 0.0), NaN after every number, null
  after everything.
- Two representations, which agree on every pair of rows (a test checks it): a *key*, a tuple of
  Python values that compares across files, for the few rows that decide a merge; and *words*,
  unsigned 64-bit integers computed for a complete window, for sorting it. Words of different
  windows do not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

KeyPart: TypeAlias = tuple[int, Any]
"""``(0, value)``, ``(1, 0)`` for NaN or ``(2, 0)`` for null."""

Key: TypeAlias = tuple[KeyPart, ...]
Words: TypeAlias = list[npt.NDArray[np.uint64]]

_NAN: KeyPart = (1, 0)
_NULL: KeyPart = (2, 0)
_SIGN = np.uint64(1 << 63)
_DIGIT_BITS, _MOST_DIGITS = 16, 2


@total_ordering
@dataclass(frozen=True, slots=True)
class RawText:
    """Text that is not UTF-8, written by another program, as a value of a key.

    Ordered by its bytes, also against Python's strings: code points order as their UTF-8 does.
    """

    data: bytes

    def __lt__(self, other: object) -> bool:
        if isinstance(other, RawText):
            return self.data < other.data
        if isinstance(other, str):
            return self.data < other.encode()
        return NotImplemented


class RowOrder:
    """The order that ``sort_by`` gives to tables of one schema."""

    def __init__(self, sort_by: Sequence[str]) -> None:
        self.sort_by = tuple(sort_by)

    def key(self, table: pa.Table, row: int) -> Key:
        """The key of one row, comparable with every other key of this order."""
        return tuple(key_part(table.column(name)[row]) for name in self.sort_by)

    def position(self, table: pa.Table, key: Key, *, after: bool) -> int:
        """How many leading rows of a sorted table are less than ``key``; with ``after``, at most
        ``key``."""
        columns = [table.column(name) for name in self.sort_by]
        low, high = _equal_rows(columns[0], key[0])
        while low < high:
            middle = (low + high) // 2
            order = _compare(columns, middle, key)
            if order < 0 or (after and order == 0):
                low = middle + 1
            else:
                high = middle
        return low

    def words(self, table: pa.Table) -> Words:
        """The rows' keys as unsigned integers, most significant first; columns share words where
        they fit."""
        words: Words = []
        free = 0
        for name in self.sort_by:
            values, bits = _ranks(_whole(table.column(name)))
            if words and bits <= free:
                # A shift by all 64 bits is undefined; a word with 64 free bits holds only zeros
                # anyway.
                words[-1] = values if free == 64 else (words[-1] << np.uint64(bits)) | values
                free -= bits
            else:
                words.append(values)
                free = 64 - bits
        return words


def arrange(words: Words) -> npt.NDArray[np.int64]:
    """The stable sorting permutation.

    Digit by digit, the least significant first, each time stably. numpy counts digits of 16 bits
    instead of comparing them: for a window's keys, which are close together, this takes half of the
    time of merging its sorted runs, which takes half of the time of sorting keys and places in one
    word. For wide words merging the runs is faster.
    """
    places: npt.NDArray[np.int64] | None = None
    for word in reversed(words):
        for digit in _digits(word):
            if places is None:
                places = np.argsort(digit, kind="stable")
            else:
                places = places[np.argsort(digit[places], kind="stable")]
    assert places is not None, "a sort key has at least one column"
    return places


def descents(words: Words) -> npt.NDArray[np.int64]:
    """The rows that are less than the row before them; none in a sorted table."""
    less = np.zeros(max(len(words[0]) - 1, 0), dtype=bool)
    equal = ~less
    for word in words:
        less |= equal & (word[1:] < word[:-1])
        equal &= word[1:] == word[:-1]
    return np.flatnonzero(less) + 1


def key_part(scalar: pa.Scalar) -> KeyPart:
    """One value of a key."""
    if not scalar.is_valid:
        return _NULL
    try:
        value = scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
    except UnicodeDecodeError as error:
        # Another program wrote it; it must not keep its block out of merges.
        return (0, RawText(bytes(error.object)))
    if value is None:  # a dictionary's own null
        return _NULL
    return _NAN if value != value else (0, value)


def _equal_rows(column: pa.ChunkedArray, part: KeyPart) -> tuple[int, int]:
    """The range of rows of a sorted column that are equal to ``part``; all rows if that is slow to
    find.

    A merge needs this of every open run at every window, while nothing else runs: numpy takes a
    hundredth of the time of comparing scalars.
    """
    kind = column.type
    quick = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    if not quick or column.num_chunks != 1 or column.null_count or part[0]:
        return 0, len(column)
    array = column.chunk(0)
    if pa.types.is_temporal(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    values = array.to_numpy()
    sought = values.dtype.type(part[1])
    return int(np.searchsorted(values, sought, "left")), int(
        np.searchsorted(values, sought, "right")
    )


def _compare(columns: list[pa.ChunkedArray], row: int, key: Key) -> int:
    for column, part in zip(columns, key, strict=True):
        mine = key_part(column[row])
        if mine != part:
            return -1 if mine < part else 1
    return 0


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _digits(word: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[Any]]:
    """A word as digits, the least significant first; the word itself if they would be too many."""
    bits = int(word.max()).bit_length() if len(word) else 0
    if bits > _MOST_DIGITS * _DIGIT_BITS:
        yield word
        return
    yield word.astype(np.uint16)
    for shift in range(_DIGIT_BITS, bits, _DIGIT_BITS):
        yield (word >> np.uint64(shift)).astype(np.uint16)


def _ranks(column: pa.Array) -> tuple[npt.NDArray[np.uint64], int]:
    """An order-preserving integer per row, from 0, and the number of bits of the greatest."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = _float_ranks(column)
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        values = _integer_ranks(column)
    else:
        values = _dictionary_ranks(column)
    return values, (int(values.max()).bit_length() if len(values) else 0)


def _integer_ranks(column: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    bounds = pc.min_max(column)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None:
        return np.zeros(len(column), dtype=np.uint64)
    if column.null_count and greatest - least == (1 << 64) - 1:
        return _dictionary_ranks(column)
    wide = column.type if pa.types.is_uint64(column.type) else pa.int64()
    filled = pc.fill_null(column, least) if column.null_count else column
    values = filled.cast(wide).to_numpy(zero_copy_only=False).view(np.uint64)
    values = values - np.uint64(
        least & ((1 << 64) - 1)
    )  # wraps: the distance from the least is exact
    if column.null_count:
        values[_nulls(column)] = greatest - least + 1
    return values


def _float_ranks(column: pa.Array) -> npt.NDArray[np.uint64]:
    values = (
        pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
    )  # -0.0 becomes 0.0
    bits = values.view(np.uint64)
    # Positive floats order as their bits, negative ones backwards and below (IEEE 754 total order).
    ranks = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    ranks[np.isnan(values)] = (1 << 64) - 2
    if column.null_count:
        ranks[_nulls(column)] = (1 << 64) - 1
    return ranks - ranks.min() if len(ranks) else ranks


def _dictionary_ranks(column: pa.Array) -> npt.NDArray[np.uint64]:
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    distinct = encoded.dictionary
    ranks = np.empty(len(distinct) + 1, dtype=np.uint64)
    ranks[pc.sort_indices(distinct).to_numpy()] = np.arange(len(distinct), dtype=np.uint64)
    ranks[-1] = len(distinct)  # null comes last
    return ranks[pc.fill_null(encoded.indices, len(distinct)).to_numpy(zero_copy_only=False)]


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return column.is_null().to_numpy(zero_copy_only=False)

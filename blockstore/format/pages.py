"""The pages of a Parquet file, as pyarrow does not return them: where each begins, how many bytes
of text it has, and the bounds of its values.

The source is the file's page index, which the footer points to, in Thrift's compact protocol
(https://github.com/apache/parquet-format/blob/master/PageIndex.md and its ``parquet.thrift``, whose
field numbers are used here).

Rules:
- A file without a valid page index has no pages here, and is otherwise read like any other.
- pyarrow has opened the file before, so its footer can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any, Protocol

from blockstore.format.footer import Footer
from blockstore.format.thrift import MALFORMED, struct_at

_TAIL_BYTES = 8
_MOST_INDEX_BYTES = 16 << 20
_MOST_BYTES = 1 << 62

_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS, _ROWS = 1, 3  # of RowGroup
_OFFSET_INDEX, _COLUMN_INDEX = (4, 5), (6, 7)  # of ColumnChunk: where each begins, and its length
_LOCATIONS, _TEXTS = 1, 2  # of OffsetIndex
_OFFSET, _COMPRESSED, _FIRST_ROW = 1, 2, 3  # of PageLocation
_ONLY_NULLS, _LOWS, _HIGHS = 1, 2, 3  # of ColumnIndex

_HEADER_BYTES = 128
_PAGE_BYTES, _DICTIONARY = (
    2,
    7,
)  # of PageHeader: its bytes, decompressed, and what only a dictionary page has

_TRUE = 1

_At = tuple[int, int]
"""A row group, and a column's place in it."""


PageBounds = tuple[bytes, bytes] | None
"""Lower and upper bound of a page's values, as the file's own type stores them; None: only
nulls."""


class Readable(Protocol):
    """A file, or the bytes of its end: ``pa.NativeFile``, ``Footer``."""

    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPages:
    """The data pages of one column of one row group, at least one."""

    first_rows: tuple[int, ...]
    """Counted from the row group's first; ascending, from 0."""
    offsets: tuple[int, ...]
    """Where each begins in the file; ascending, and no page reaches into the next one."""
    compressed: tuple[int, ...]
    """The bytes of each in the file, with its header."""
    texts: tuple[int, ...] | None
    """The bytes of the texts or binaries in each page, decoded; None if unknown."""
    bounds: tuple[PageBounds, ...] | None = None
    """None if they were not requested, or are unknown."""


def dictionary_bytes(file: Readable, offset: int) -> int | None:
    """Return the decompressed size of the dictionary page at ``offset``; None if it is invalid."""
    try:
        header = struct_at(file.read_at(_HEADER_BYTES, offset), 0)
        size = int(header[_PAGE_BYTES])
    except MALFORMED:
        return None
    return size if _DICTIONARY in header and 0 <= size < _MOST_BYTES else None


def column_pages(
    file: Readable, groups: Collection[int], places: Collection[int], *, bounds: bool = False
) -> dict[_At, ColumnPages]:
    """Return the pages of the columns at these places of these row groups, if the file has them;
    with ``bounds``, theirs too."""
    if not isinstance(file, Footer):
        return _pages_at(file, groups, places, bounds)
    found: dict[_At, ColumnPages] = {}
    for at in product(groups, places):
        found |= file.once((at, bounds), partial(_pages_at, file, at[:1], at[1:], bounds))
    return found


def _pages_at(
    file: Readable, groups: Collection[int], places: Collection[int], bounds: bool
) -> dict[_At, ColumnPages]:
    if not groups or not places:
        return {}
    try:
        listed = _footer(file)[_ROW_GROUPS]
        columns = {
            (group, place): listed[group][_COLUMNS][place] for group in groups for place in places
        }
        located = _indexes(file, columns, _OFFSET_INDEX)
        bounded = _indexes(file, columns, _COLUMN_INDEX) if bounds else {}
        found = {
            at: _pages(index, listed[at[0]][_ROWS], bounded.get(at))
            for at, index in located.items()
        }
    except MALFORMED:
        return {}
    return {at: pages for at, pages in found.items() if pages is not None}


def _indexes(
    file: Readable, columns: Mapping[_At, dict[int, Any]], which: tuple[int, int]
) -> dict[_At, dict[int, Any]]:
    """Return one of the two indexes of each of the columns that have it, by one read."""
    offset, length = which
    indexed = {at: column for at, column in columns.items() if length in column}
    if not indexed:
        return {}
    start = min(column[offset] for column in indexed.values())
    end = max(column[offset] + column[length] for column in indexed.values())
    if not 0 <= start <= end <= file.size() or end - start > _MOST_INDEX_BYTES:
        return {}
    data = file.read_at(end - start, start)
    return {at: struct_at(data, column[offset] - start) for at, column in indexed.items()}


def _footer(file: Readable) -> dict[int, Any]:
    if isinstance(file, Footer):
        return file.fields
    size = file.size()
    (length,) = struct.unpack_from("<I", file.read_at(_TAIL_BYTES, size - _TAIL_BYTES))
    return struct_at(file.read_at(length, size - _TAIL_BYTES - length), 0)


def _pages(index: dict[int, Any], rows: int, bounds: dict[int, Any] | None) -> ColumnPages | None:
    """Return the pages of one column, if they are valid."""
    locations = index[_LOCATIONS]
    first_rows = tuple(one[_FIRST_ROW] for one in locations)
    offsets = tuple(one[_OFFSET] for one in locations)
    compressed = tuple(one[_COMPRESSED] for one in locations)
    texts = tuple(index[_TEXTS]) if _TEXTS in index else None
    ascending = all(one < other for one, other in pairwise((*first_rows, rows)))
    ends = map(sum, zip(offsets, compressed, strict=True))
    apart = all(end <= start for end, start in zip(ends, offsets[1:], strict=False))
    sizes = (*compressed, *(texts or ()))
    if (
        not first_rows
        or first_rows[0] != 0
        or not ascending
        or not apart
        or offsets[0] < 0
        or min(sizes) < 0
        or sum(sizes) > _MOST_BYTES
    ):
        return None
    if texts is not None and len(texts) != len(first_rows):
        return None
    return ColumnPages(
        first_rows=first_rows,
        offsets=offsets,
        compressed=compressed,
        texts=texts,
        bounds=None if bounds is None else _bounds(bounds, len(first_rows)),
    )


def _bounds(index: dict[int, Any], pages: int) -> tuple[PageBounds, ...] | None:
    """Return the bounds of ``pages`` pages."""
    only_nulls, lows, highs = index[_ONLY_NULLS], index[_LOWS], index[_HIGHS]
    if not len(only_nulls) == len(lows) == len(highs) == pages:
        return None
    return tuple(
        None if nulls == _TRUE else (low, high)
        for nulls, low, high in zip(only_nulls, lows, highs, strict=True)
    )

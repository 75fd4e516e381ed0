"""What a Parquet file tells of its pages, and pyarrow does not hand on: where each begins, and how many bytes of text it holds.

Both stand in the file's page index, which the footer points to, as Thrift's compact protocol
(https://github.com/apache/parquet-format/blob/master/PageIndex.md and its ``parquet.thrift``, whose field numbers are used here).

Rules:
- What is read is only counted on for the sizes of buffers: a file without a page index, or with nonsense in one, has no pages
  here and is as good as any other.
- A file was opened by pyarrow before it is looked at here, so that its footer can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

__all__ = ["ColumnPages", "column_pages"]

_TAIL_BYTES = 8
_MOST_INDEX_BYTES = 16 << 20
_MOST_BYTES = 1 << 62
_MOST_BITS = 70

_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS, _ROWS = 1, 3  # of RowGroup
_INDEX_OFFSET, _INDEX_LENGTH = 4, 5  # of ColumnChunk
_LOCATIONS, _TEXTS = 1, 2  # of OffsetIndex
_COMPRESSED, _FIRST_ROW = 2, 3  # of PageLocation

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPages:
    """The data pages of one column of one row group, at least one."""

    first_rows: tuple[int, ...]
    """Counted from the row group's first; ascending, from 0."""
    compressed: tuple[int, ...]
    texts: tuple[int, ...] | None
    """The bytes of the texts or binaries in each page, however they are encoded; None where that is not told."""


def column_pages(
    file: pa.NativeFile, groups: Collection[int], places: Collection[int]
) -> dict[tuple[int, int], ColumnPages]:
    """The pages of the columns at these places of these row groups, as far as the file tells."""
    if not groups or not places:
        return {}
    try:
        listed = _footer(file)[_ROW_GROUPS]
        columns = {(group, place): listed[group][_COLUMNS][place] for group in groups for place in places}
        told = {at: column for at, column in columns.items() if _INDEX_LENGTH in column}
        start = min(column[_INDEX_OFFSET] for column in told.values())
        end = max(column[_INDEX_OFFSET] + column[_INDEX_LENGTH] for column in told.values())
        if not 0 <= start <= end <= file.size() or end - start > _MOST_INDEX_BYTES:
            return {}
        indexes = file.read_at(end - start, start)
        found = {
            at: _pages(_struct(indexes, column[_INDEX_OFFSET] - start)[0], listed[at[0]][_ROWS])
            for at, column in told.items()
        }
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, struct.error):
        return {}
    return {at: pages for at, pages in found.items() if pages is not None}


def _footer(file: pa.NativeFile) -> dict[int, Any]:
    size = file.size()
    (length,) = struct.unpack_from("<I", file.read_at(_TAIL_BYTES, size - _TAIL_BYTES))
    return _struct(file.read_at(length, size - _TAIL_BYTES - length), 0)[0]


def _pages(index: dict[int, Any], rows: int) -> ColumnPages | None:
    """The pages of one column, if they make sense."""
    locations = index[_LOCATIONS]
    first_rows = tuple(one[_FIRST_ROW] for one in locations)
    compressed = tuple(one[_COMPRESSED] for one in locations)
    texts = tuple(index[_TEXTS]) if _TEXTS in index else None
    ascending = all(one < other for one, other in pairwise((*first_rows, rows)))
    sizes = (*compressed, *(texts or ()))
    if not first_rows or first_rows[0] != 0 or not ascending or min(sizes) < 0 or sum(sizes) > _MOST_BYTES:
        return None
    if texts is not None and len(texts) != len(first_rows):
        return None
    return ColumnPages(first_rows=first_rows, compressed=compressed, texts=texts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 127
    shift = 7
    while data[at] > 127:
        at += 1
        value |= (data[at] & 127) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number of more than 64 bits")
    return value, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _number(data, at + 1)
        fields[number], at = _value(data, at, head & 15)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if _BYTE < kind <= _I64:
        return _number(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_LIST, _SET):
        return _list(data, at)
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    raise ValueError(f"no type of the format has the number {kind}")


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    head = data[at]
    length, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    kind = _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15
    values = []
    for _ in range(length):
        value, at = _value(data, at, kind)
        values.append(value)
    return values, at

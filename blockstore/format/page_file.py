"""Some pages of a column, read without the rest of it: as a Parquet file of their own.

Arrow reads complete column chunks only. A query of a few rows needs a page of each column, which is
a small part of that. So the pages are put behind a footer that describes them and nothing else: the
columns whose pages hold the same rows, one row group, as many rows as the pages have. Arrow decodes
that file like any other.

Rules:
- Only columns that are neither nested nor repeated: a row is one value there, so the page index
  says which rows a page has.
- The header of each page says how many values it has. If the page index says something else of a
  page that is read, it is not believed: NoPages.
- The schema element, the codec and the encodings are those of the file; the Arrow type is the one
  that a read of the complete file gives, or NoPages is raised.
- A caller that gets NoPages reads the complete column chunk: that is always right.
"""

from __future__ import annotations

import base64
import struct as packed
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.footer import Footer
from blockstore.format.pages import ColumnPages, Readable, column_pages
from blockstore.format.thrift import MALFORMED, struct_at
from blockstore.format.thrift_writer import (
    Value,
    array,
    beginning,
    binary,
    encoded,
    fields,
    i32,
    i64,
    struct,
)
from blockstore.format.unreadable import UNREADABLE

_MAGIC = b"PAR1"
_ROW_GROUPS, _CREATED_BY = 4, 6  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_FILE_PATH, _META, _CRYPTO = 1, 3, (8, 9)  # of ColumnChunk
_TYPE, _ENCODINGS, _PATH, _CODEC, _COUNT = 1, 2, 3, 4, 5  # of ColumnMetaData
_DATA, _DICTIONARY = 9, 11  # of the same
_PAGE_TYPE, _PLAIN_BYTES, _STORED_BYTES, _V1, _V2 = 1, 2, 3, 5, 8  # of PageHeader
_VALUES, _V2_ROWS = 1, 3  # of the headers of data pages
_IS_DATA, _IS_DICTIONARY, _IS_V2 = 0, 2, 3

_MOST_COLUMNS = 500
"""In all row groups together: the footer of more is not parsed in Python, some 40 µs each."""


_Run = tuple[int, int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], dict[int, Any]]
"""The place of the first page, its first row, the ranges, each page with its rows, and the
ColumnMetaData."""


class NoPages(Exception):
    """The pages cannot be read without the rest of their column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """Neighboring pages of one column of one row group."""

    field: pa.Field
    rows: range
    """The rows that the pages hold, counted from the row group's first."""
    ranges: tuple[tuple[int, int], ...]
    """Where they are in the file, after the dictionary page if there is one: start and length."""
    pages: tuple[tuple[int, int], ...]
    """Where each page begins in the file, and how many rows it has."""
    texts: tuple[int, ...] | None
    """The bytes of the texts in each page, decoded; None if unknown."""
    has_dictionary: bool
    element: bytes
    described: bytes
    """The first fields of the column's ColumnMetaData, which do not depend on the pages."""
    created_by: bytes

    @property
    def bytes(self) -> int:
        return sum(length for _, length in self.ranges)


def page_runs(
    footer: Footer, group: int, columns: Iterable[pa.Field], rows: range
) -> dict[str, PageRun]:
    """Return the pages of those of the columns that can be read by pages, by name.

    Args:
        footer: With the page index.
        group: The row group.
        columns: As the footer's schema has them.
        rows: The rows of the row group that are needed; not empty.
    """
    metadata = footer.metadata
    if metadata.num_row_groups * metadata.num_columns > _MOST_COLUMNS:
        return {}
    try:
        flat = footer.flat
        wanted = {field.name: field for field in columns if field.name in flat}
        known = column_pages(footer, [group], [flat[name][0] for name in wanted])
        listed = footer.fields[_ROW_GROUPS][group][_COLUMNS]
        created_by = footer.fields.get(_CREATED_BY, b"")
        total = metadata.row_group(group).num_rows
        found = {}
        for name, field in wanted.items():
            place, element = flat[name]
            pages = known.get((group, place))
            run = None if pages is None else _run(listed[place], pages, rows, total)
            if run is not None:
                at, first, ranges, located, meta = run
                assert pages is not None
                found[name] = PageRun(
                    field=field,
                    rows=range(first, first + sum(count for _, count in located)),
                    ranges=ranges,
                    pages=located,
                    texts=None if pages.texts is None else pages.texts[at : at + len(located)],
                    has_dictionary=len(ranges) > 1,
                    element=element,
                    described=footer.once(("described", group, place), partial(_described, meta)),
                    created_by=created_by,
                )
    except MALFORMED:
        return {}
    return found


def _run(chunk: dict[int, Any], pages: ColumnPages, rows: range, total: int) -> _Run | None:
    """Return the pages that hold the rows; None if they do not follow one another in the file."""
    if _FILE_PATH in chunk or any(field in chunk for field in _CRYPTO):
        return None
    meta = chunk[_META]
    first = bisect_right(pages.first_rows, rows.start) - 1
    last = bisect_left(pages.first_rows, rows.stop)
    ends = pages.first_rows[first + 1 : last + 1]
    if last == len(pages.first_rows):
        ends = (*ends, total)
    located = tuple(
        (pages.offsets[at], end - pages.first_rows[at])
        for at, end in zip(range(first, last), ends, strict=True)
    )
    end = pages.offsets[last - 1] + pages.compressed[last - 1]
    bounds = (*pages.offsets[first:last], end)
    if any(
        start + pages.compressed[first + at] != following
        for at, (start, following) in enumerate(pairwise(bounds))
    ):
        return None
    data = (bounds[0], end - bounds[0])
    if meta[_DATA] != pages.offsets[0]:
        return None
    start = meta.get(_DICTIONARY, 0)
    if not start:
        return first, pages.first_rows[first], (data,), located, meta
    if start >= pages.offsets[0]:
        return None
    ranges = ((start, pages.offsets[0] - start), data)
    return first, pages.first_rows[first], ranges, located, meta


def read_runs(runs: Iterable[PageRun], held: Readable) -> dict[str, pa.ChunkedArray]:
    """Return the values of the rows ``rows`` of each run, by the name of its column.

    Columns whose pages hold the same rows are decoded together: to open a file takes longer than to
    decode a page. ``held`` has the bytes of their ``ranges``. Raises NoPages.
    """
    alike: dict[range, list[PageRun]] = {}
    for run in runs:
        alike.setdefault(run.rows, []).append(run)
    found: dict[str, pa.ChunkedArray] = {}
    for some in alike.values():
        found |= _read(some, held)
    return found


def _read(runs: Sequence[PageRun], held: Readable) -> dict[str, pa.ChunkedArray]:
    names = ", ".join(repr(run.field.name) for run in runs)
    try:
        parts = [[held.read_at(length, start) for start, length in run.ranges] for run in runs]
        for run, own in zip(runs, parts, strict=True):
            check_headers(run, own)
        file = _file(runs, parts)
        with pq.ParquetFile(pa.BufferReader(file), pre_buffer=False) as parquet:
            table = parquet.read(use_threads=False)
    except (*MALFORMED, *UNREADABLE) as error:
        raise NoPages(f"the pages of columns {names} cannot be read: {error}") from error
    found = {}
    for run, column in zip(runs, table.columns, strict=True):
        if len(column) != len(run.rows) or not column.type.equals(run.field.type):
            raise NoPages(
                f"the pages of column {run.field.name!r} have {len(column):,} values of type "
                f"{column.type}, expected {len(run.rows):,} of type {run.field.type}"
            )
        found[run.field.name] = column
    return found


def check_headers(run: PageRun, parts: Sequence[bytes]) -> int:
    """Return how many bytes the pages have decompressed, with their headers.

    Raises NoPages unless each page has as many rows as the page index says, or one of
    ``thrift.MALFORMED``.
    """
    data, begin = parts[-1], run.ranges[-1][0]
    size = sum(map(len, parts))
    if run.has_dictionary:
        header = struct_at(parts[0], 0)
        size += header[_PLAIN_BYTES] - header[_STORED_BYTES]
        if header[_PAGE_TYPE] != _IS_DICTIONARY:
            raise NoPages(f"column {run.field.name!r} does not begin with its dictionary")
    for start, rows in run.pages:
        header = struct_at(data, start - begin)
        kind = header[_PAGE_TYPE]
        own = header[_V2 if kind == _IS_V2 else _V1]
        counts = {own[_VALUES], own[_V2_ROWS] if kind == _IS_V2 else rows}
        if kind not in (_IS_DATA, _IS_V2) or counts != {rows}:
            raise NoPages(
                f"a page of column {run.field.name!r} has {own[_VALUES]:,} values, expected "
                f"{rows:,} as the page index says"
            )
        size += header[_PLAIN_BYTES] - header[_STORED_BYTES]
    return int(size)


def _file(runs: Sequence[PageRun], parts: Sequence[Sequence[bytes]]) -> bytes:
    """Return the file: of each column the dictionary and the pages, and a footer for them."""
    rows = len(runs[0].rows)
    at = len(_MAGIC)
    columns: list[Value] = []
    for run, own in zip(runs, parts, strict=True):
        columns.append(struct({2: i64(at), _META: column_of(run, own, at)}))
        at += sum(map(len, own))
    group = struct({_COLUMNS: array(columns), 2: i64(at - len(_MAGIC)), 3: i64(rows)})
    end = footer_of(
        [run.element for run in runs],
        pa.schema([run.field for run in runs]),
        [group],
        rows,
        runs[0].created_by,
    )
    data = [part for own in parts for part in own]
    return b"".join((_MAGIC, *data, end))


def _described(meta: Mapping[int, Any]) -> bytes:
    """Return the first fields of a ColumnMetaData: those that any of its pages have."""
    return beginning(
        {
            _TYPE: i32(meta[_TYPE]),
            _ENCODINGS: array(i32(encoding) for encoding in meta[_ENCODINGS]),
            _PATH: array(binary(part) for part in meta[_PATH]),
            _CODEC: i32(meta[_CODEC]),
        }
    )


def footer_of(
    elements: Iterable[bytes], schema: pa.Schema, groups: Sequence[Value], rows: int, writer: bytes
) -> bytes:
    """Return the end of a file: its FileMetaData, their length and the magic.

    Args:
        elements: The encoded SchemaElement of each column, none of them nested.
        schema: What Arrow makes of them.
        groups: The RowGroups, at least one.
        rows: The rows of all of them.
        writer: The program that wrote the pages.
    """
    listed = list(elements)
    stored = base64.b64encode(schema.serialize())
    root = struct({4: binary(b"schema"), 5: i32(len(listed))})
    data = fields(
        {
            1: i32(2),
            2: array([root, *map(encoded, listed)]),
            3: i64(rows),
            _ROW_GROUPS: array(groups),
            5: array([struct({1: binary(b"ARROW:schema"), 2: binary(stored)})]),
            _CREATED_BY: binary(writer),
        }
    )
    return b"".join((data, packed.pack("<I", len(data)), _MAGIC))


def column_of(
    run: PageRun, parts: Sequence[bytes], first: int, plain_bytes: int | None = None
) -> Value:
    """Return the ColumnMetaData of pages that begin at byte ``first``; ``plain_bytes`` is their
    size decompressed, if a reader needs it."""
    size = sum(map(len, parts))
    own: dict[int, Value] = {
        _COUNT: i64(len(run.rows)),
        6: i64(size if plain_bytes is None else plain_bytes),
        7: i64(size),
        _DATA: i64(first + (len(parts[0]) if run.has_dictionary else 0)),
    }
    if run.has_dictionary:
        own[_DICTIONARY] = i64(first)
    return encoded(run.described + fields(own, after=_CODEC))

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
- What follows from the page index alone is made once for the pages (``PageLayout``), which a caller
  may keep and use for others of their bytes, as long as these are those of the same file.
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
from blockstore.format.thrift import MALFORMED, numbers_at
from blockstore.format.thrift_writer import (
    Value,
    array,
    beginning,
    binary,
    encoded,
    fields,
    i32,
    i64,
    integers,
    struct,
)
from blockstore.format.unreadable import UNREADABLE
from blockstore.lazy import once

_MAGIC = b"PAR1"
_ROW_GROUPS, _CREATED_BY = 4, 6  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_FILE_PATH, _META, _CRYPTO = 1, 3, (8, 9)  # of ColumnChunk
_TYPE, _ENCODINGS, _PATH, _CODEC, _COUNT = 1, 2, 3, 4, 5  # of ColumnMetaData
_DATA, _DICTIONARY = 9, 11  # of the same
_PAGE_TYPE, _PLAIN_BYTES, _STORED_BYTES, _V1, _V2 = 1, 2, 3, 5, 8  # of PageHeader
_VALUES, _V2_ROWS = 1, 3  # of the headers of data pages
_OWN_DICTIONARY = 7
_IS_DATA, _IS_DICTIONARY, _IS_V2 = 0, 2, 3
_OWN_HEADERS = {_IS_DATA: _V1, _IS_V2: _V2}

_MOST_COLUMNS = 500
"""In all row groups together: the footer of more is not parsed in Python, some 40 µs each."""


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
        found = {}
        for field in columns:
            if field.name in flat:
                paged = footer.once(
                    ("paged", group, flat[field.name]), partial(_paged, footer, group, field.name)
                )
                run = None if paged is None else paged.run(field, rows)
                if run is not None:
                    found[field.name] = run
    except MALFORMED:
        return {}
    return found


def _paged(footer: Footer, group: int, name: str) -> _Paged | None:
    """Return what is known of the pages of a column; None if they cannot be read alone."""
    place, element = footer.flat[name]
    pages = column_pages(footer, [group], [place]).get((group, place))
    chunk = footer.fields[_ROW_GROUPS][group][_COLUMNS][place]
    if pages is None or _FILE_PATH in chunk or any(field in chunk for field in _CRYPTO):
        return None
    meta = chunk[_META]
    if meta[_DATA] != pages.offsets[0]:
        return None
    dictionary = None
    start = meta.get(_DICTIONARY, 0)
    if start:
        if start >= pages.offsets[0]:
            return None
        dictionary = (start, pages.offsets[0] - start)
    ends = map(sum, zip(pages.offsets, pages.compressed, strict=True))
    followed = zip(ends, pages.offsets[1:], strict=False)
    return _Paged(
        pages=pages,
        rows=footer.metadata.row_group(group).num_rows,
        gaps=tuple(at for at, (end, following) in enumerate(followed) if end != following),
        dictionary=dictionary,
        element=element,
        described=_described(meta),
        created_by=footer.fields.get(_CREATED_BY, b""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paged:
    """One column of a row group, whichever of its pages are read."""

    pages: ColumnPages
    rows: int
    gaps: tuple[int, ...]
    """The places of the pages which the next one does not follow immediately."""
    dictionary: tuple[int, int] | None
    element: bytes
    described: bytes
    created_by: bytes

    def run(self, field: pa.Field, rows: range) -> PageRun | None:
        """Return the pages that hold the rows; None if they do not follow one another in the
        file."""
        pages = self.pages
        first = bisect_right(pages.first_rows, rows.start) - 1
        last = bisect_left(pages.first_rows, rows.stop)
        if self.gaps and bisect_left(self.gaps, first) < bisect_left(self.gaps, last - 1):
            return None
        firsts = (*pages.first_rows[first : last + 1], self.rows)[: last - first + 1]
        start = pages.offsets[first]
        data = (start, pages.offsets[last - 1] + pages.compressed[last - 1] - start)
        return PageRun(
            field=field,
            rows=range(firsts[0], firsts[-1]),
            ranges=(data,) if self.dictionary is None else (self.dictionary, data),
            pages=tuple(
                (offset, end - begin)
                for offset, (begin, end) in zip(
                    pages.offsets[first:last], pairwise(firsts), strict=True
                )
            ),
            texts=None if pages.texts is None else pages.texts[first:last],
            has_dictionary=self.dictionary is not None,
            element=self.element,
            described=self.described,
            created_by=self.created_by,
        )


class PageLayout:
    """Pages of some columns with rows of one row group, and how they are read. Threads may share
    it."""

    def __init__(self, runs: Mapping[str, PageRun]) -> None:
        """``runs`` are those of one row group, by name."""
        self.runs = runs
        self._are_checked = False
        """Whether the headers of all pages were found to be as the page index says."""

    @once
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The bytes that ``read`` reads: where each range begins, and its length."""
        return tuple(one for run in self.runs.values() for one in run.ranges)

    @once
    def _files(self) -> Sequence[tuple[Sequence[PageRun], bytes]]:
        """Columns whose pages hold the same rows, and the end of the file that they make: they are
        decoded together, since to open a file takes longer than to decode a page."""
        alike: dict[range, list[PageRun]] = {}
        for run in self.runs.values():
            alike.setdefault(run.rows, []).append(run)
        return [(runs, _end(runs)) for runs in alike.values()]

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        runs = self.runs.values()
        return 1_000 + sum(1_500 + 2 * len(run.element) + 200 * len(run.pages) for run in runs)

    def read(self, held: Readable) -> dict[str, pa.ChunkedArray]:
        """Return the values of the rows ``rows`` of each run, by the name of its column.

        ``held`` has the bytes of ``ranges``, the same ones at each call. Raises NoPages.
        """
        found: dict[str, pa.ChunkedArray] = {}
        for runs, end in self._files:
            found |= _read(runs, end, held, check=not self._are_checked)
        self._are_checked = True
        return found


def _read(
    runs: Sequence[PageRun], end: bytes, held: Readable, *, check: bool
) -> dict[str, pa.ChunkedArray]:
    names = ", ".join(repr(run.field.name) for run in runs)
    try:
        parts = [[held.read_at(length, start) for start, length in run.ranges] for run in runs]
        if check:
            for run, own in zip(runs, parts, strict=True):
                check_headers(run, own)
        file = b"".join((_MAGIC, *(part for own in parts for part in own), end))
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
        header, which, _ = numbers_at(parts[0], 0)
        size += header[_PLAIN_BYTES] - header[_STORED_BYTES]
        if header[_PAGE_TYPE] != _IS_DICTIONARY or which != _OWN_DICTIONARY:
            raise NoPages(f"column {run.field.name!r} does not begin with its dictionary")
    for start, rows in run.pages:
        header, which, at = numbers_at(data, start - begin)
        kind = header[_PAGE_TYPE]
        own, _, _ = numbers_at(data, at)
        counts = {own[_VALUES], own[_V2_ROWS] if kind == _IS_V2 else rows}
        if _OWN_HEADERS.get(kind) != which or counts != {rows}:
            raise NoPages(
                f"a page of column {run.field.name!r} has {own[_VALUES]:,} values, expected "
                f"{rows:,} as the page index says"
            )
        size += header[_PLAIN_BYTES] - header[_STORED_BYTES]
    return int(size)


def _end(runs: Sequence[PageRun]) -> bytes:
    """Return the end of the file that begins with the dictionary and the pages of each column."""
    rows = len(runs[0].rows)
    at = len(_MAGIC)
    columns: list[Value] = []
    for run in runs:
        columns.append(struct({2: i64(at), _META: column_of(run, at)}))
        at += run.bytes
    group = struct({_COLUMNS: array(columns), 2: i64(at - len(_MAGIC)), 3: i64(rows)})
    return footer_of(
        [run.element for run in runs],
        pa.schema([run.field for run in runs]),
        [group],
        rows,
        runs[0].created_by,
    )


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


def column_of(run: PageRun, first: int, plain_bytes: int | None = None) -> Value:
    """Return the ColumnMetaData of pages that begin at byte ``first``; ``plain_bytes`` is their
    size decompressed, if a reader needs it."""
    size = run.bytes
    own = {
        _COUNT: len(run.rows),
        6: size if plain_bytes is None else plain_bytes,
        7: size,
        _DATA: first + (run.ranges[0][1] if run.has_dictionary else 0),
    }
    if run.has_dictionary:
        own[_DICTIONARY] = first
    return encoded(run.described + integers(own, after=_CODEC))

"""Some rows of a Parquet file as a file of its own: what a worker reads that merges a range of
keys.

Whole pages are copied, none is decoded (``page_file.py``). Other than there the file has several
row groups and a page index, so that a reader in batches knows what its rows weigh.

Rules:
- All columns of a row group have the same rows: the range is widened until each begins and ends
  with a page.
- A file with nested columns, without a page index, or with gaps between its columns has no parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blockstore.format.footer import Footer
from blockstore.format.page_file import (
    NoPages,
    PageRun,
    check_headers,
    column_of,
    footer_of,
    page_runs,
)
from blockstore.format.pages import Readable
from blockstore.format.thrift import MALFORMED
from blockstore.format.thrift_writer import Value, array, fields, i32, i64, struct

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Which pages of a file are copied."""

    footer: Footer
    groups: tuple[tuple[PageRun, ...], ...]
    """Of each row group with rows of the part: the pages of every column, which hold the same
    rows."""

    @property
    def rows(self) -> int:
        return sum(len(runs[0].rows) for runs in self.groups)

    @property
    def size(self) -> int:
        """The bytes of the pages in the file."""
        return sum(run.bytes for runs in self.groups for run in runs)

    def write(self, held: Readable, sink: Callable[[bytes], object]) -> None:
        """Write the file, a column after the other; of ``held`` only the pages are read, in the
        order in which they are stored.

        Raises NoPages if they are not what the page index says.
        """
        try:
            _write(self, held, sink)
        except MALFORMED as error:
            raise NoPages(f"a page has no readable header: {error}") from error


def file_part(footer: Footer, wanted: Mapping[int, range]) -> FilePart | None:
    """Return the part of a file with at least these rows of these row groups, counted from the
    first of each and none of them empty; None if it cannot be read by pages."""
    metadata = footer.metadata
    try:
        if len(footer.flat) != metadata.num_columns or footer.has_gaps or not wanted:
            return None
    except MALFORMED:
        return None
    groups = [_aligned(footer, group, wanted[group]) for group in sorted(wanted)]
    found = tuple(runs for runs in groups if runs)
    return FilePart(footer=footer, groups=found) if len(found) == len(wanted) else None


def _aligned(footer: Footer, group: int, rows: range) -> tuple[PageRun, ...]:
    """Return the pages of each column with at least these rows; none if a column has no pages."""
    while True:
        runs = page_runs(footer, group, footer.schema, rows)
        if len(runs) != len(footer.schema):
            return ()
        met = {run.rows for run in runs.values()}
        if len(met) == 1:
            return tuple(runs[name] for name in footer.schema.names)
        rows = range(min(one.start for one in met), max(one.stop for one in met))


def _write(part: FilePart, held: Readable, sink: Callable[[bytes], object]) -> None:
    sink(_MAGIC)
    at = len(_MAGIC)
    described: list[tuple[list[tuple[PageRun, int, Value]], int, int]] = []
    for runs in part.groups:
        begin = at
        columns = []
        for run in runs:
            parts = [held.read_at(length, start) for start, length in run.ranges]
            plain = check_headers(run, parts)
            columns.append((run, at, column_of(run, at, plain)))
            for data in parts:
                sink(data)
                at += len(data)
        described.append((columns, at - begin, len(runs[0].rows)))
    groups = []
    for columns, size, rows in described:
        listed = []
        for run, first, meta in columns:
            index = _offset_index(run, first)
            sink(index)
            listed.append(struct({2: i64(first), 3: meta, 4: i64(at), 5: i32(len(index))}))
            at += len(index)
        groups.append(struct({1: array(listed), 2: i64(size), 3: i64(rows)}))
    runs = part.groups[0]
    elements = [run.element for run in runs]
    sink(footer_of(elements, part.footer.schema, groups, part.rows, runs[0].created_by))


def _offset_index(run: PageRun, first: int) -> bytes:
    """Return the OffsetIndex of a column whose bytes now begin at ``first``."""
    begin, length = run.ranges[-1]
    moved = first + run.bytes - length - begin
    ends = [start for start, _ in run.pages[1:]] + [begin + length]
    locations, row = [], 0
    for (start, rows), end in zip(run.pages, ends, strict=True):
        locations.append(struct({1: i64(start + moved), 2: i32(end - start), 3: i64(row)}))
        row += rows
    index = {1: array(locations)}
    if run.texts is not None:
        index[2] = array(map(i64, run.texts))
    return fields(index)

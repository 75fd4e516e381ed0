"""Parts of a chunk that are fetched and decoded as one: runs of row groups, or pages of one.

Rules:
- A part knows its ranges of bytes before one of them is fetched, and reads no others.
- Pages are read alone where they are less than half of their column chunks.
- A part returns at least the rows that it was made for, each with its position in the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.chunk_reader import (
    BATCH_ROWS,
    MANY_ROWS,
    column_ranges,
    group_batches,
    group_starts,
)
from blockstore.format.coded import coded_texts
from blockstore.format.footer import Footer, column_parts
from blockstore.format.page_file import NoPages, PageLayout, page_runs
from blockstore.scan.fetch.held import Held, HeldFile
from blockstore.scan.fetch.pieces import Range

UNIT_BYTES = 8 << 20
"""Row groups are read together up to about this size."""

_TEXT_BYTES = 16
"""A text takes at least about this many bytes in memory, with its offset."""

_LESS = 2

Batches = Iterator[tuple[int, pa.RecordBatch]]
"""Batches of a chunk, each with the position of its first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """Complete row groups of a chunk."""

    key: str
    footer: Footer
    columns: tuple[str, ...]
    groups: tuple[int, ...]

    def ranges(self) -> list[Range]:
        """Return the bytes that ``batches`` reads."""
        return list(column_ranges(self.footer.metadata, self.columns, self.groups))

    def weight(self) -> int:
        """Return about how many bytes of memory the part takes, fetched and decoded."""
        metadata = self.footer.metadata
        rows = sum(metadata.row_group(group).num_rows for group in self.groups)
        parts = list(column_parts(metadata, self.columns, self.groups))
        fetched = sum(part.total_compressed_size for part in parts)
        decoded = sum(part.total_uncompressed_size + _hidden_bytes(part) for part in parts)
        return fetched + max(2 * fetched, decoded, rows * _row_bytes(self.footer, self.columns))

    def batches(self, held: Held) -> Batches:
        """Yield all rows. Raises Corrupt or what Arrow raises."""
        metadata = self.footer.metadata
        coded = (
            coded_texts(self.footer.parquet, self.columns, self.groups)
            if metadata.num_rows >= MANY_ROWS
            else []
        )
        with _file(held, metadata, coded) as parquet:
            yield from group_batches(self.key, parquet, self.groups, self.columns, coded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Some rows of one row group, by the pages that hold them."""

    key: str
    footer: Footer
    columns: tuple[str, ...]
    group: int
    rows: range
    """Counted from the row group's first."""
    layout: PageLayout
    """The pages of each column; a column that is not here is read as a whole."""

    def ranges(self) -> list[Range]:
        """Return the bytes that ``batches`` reads."""
        return [*self.layout.ranges, *self.footer.ranges(self._others, self.group)]

    def weight(self) -> int:
        """Return about how many bytes of memory the part takes, fetched and decoded."""
        return 4 * sum(length for _, length in self.ranges())

    def batches(self, held: Held) -> Batches:
        """Yield the rows. Raises NoPages, and then ``complete()`` must be read; Corrupt, or what
        Arrow raises."""
        found = {
            name: self._cut(column, self.layout.runs[name].rows)
            for name, column in self.layout.read(held).items()
        }
        if self._others:
            with _file(held, self.footer.metadata, ()) as parquet:
                read = parquet.read_row_group(
                    self.group, columns=list(self._others), use_threads=False
                )
            every = range(self.footer.metadata.row_group(self.group).num_rows)
            found |= {name: self._cut(read.column(name), every) for name in self._others}
        schema = self.footer.schema
        table = pa.table(
            [found[name] for name in self.columns],
            schema=pa.schema([schema.field(name) for name in self.columns]),
        )
        position = group_starts(self.footer.metadata)[self.group] + self.rows.start
        for batch in table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
            yield position, batch
            position += batch.num_rows

    def complete(self) -> RowGroups:
        """Return the complete row group."""
        return RowGroups(
            key=self.key, footer=self.footer, columns=self.columns, groups=(self.group,)
        )

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.layout.runs)

    def _cut(self, column: pa.ChunkedArray, rows: range) -> pa.ChunkedArray:
        """Return the values of the part's rows, out of those of more rows."""
        values = column.slice(self.rows.start - rows.start, len(self.rows))
        if len(values) != len(self.rows):
            raise NoPages(f"found {len(values):,} values, expected {len(self.rows):,}")
        return values


Part = RowGroups | Pages

LayoutKey = tuple[int, tuple[str, ...], range]
"""A row group, columns, and rows of it."""

Keep = Callable[[LayoutKey, Callable[[], PageLayout]], PageLayout]
"""Returns what was made of the same file under this key before, or else makes it."""


def _make(_: LayoutKey, make: Callable[[], PageLayout]) -> PageLayout:
    return make()


def parts_of(
    key: str,
    footer: Footer,
    columns: Sequence[str],
    groups: Iterable[int],
    rows: range | None = None,
    keep: Keep = _make,
) -> list[Part]:
    """Return the parts with the rows of these row groups, in their order.

    Args:
        key: The chunk, for errors.
        footer: Its footer.
        columns: Names that the file has.
        groups: Numbers of row groups, ascending.
        rows: Only these rows of the chunk are needed; None if pages are not to be read alone.
        keep: What keeps the layouts of pages of this file.
    """
    starts = group_starts(footer.metadata)
    parts: list[Part] = []
    run: list[int] = []
    size = 0

    def complete() -> None:
        if run:
            parts.append(
                RowGroups(key=key, footer=footer, columns=tuple(columns), groups=tuple(run))
            )
            run.clear()

    for group in groups:
        first, end = starts[group], starts[group + 1]
        needed = range(first, end)
        if rows is not None:
            needed = range(max(rows.start, first), min(rows.stop, end))
        if not needed and first < end:
            continue
        weight = sum(length for _, length in footer.ranges(columns, group))
        pages = None
        if rows is not None:
            pages = _pages(key, footer, columns, group, needed, starts, keep)
        if pages is not None and _LESS * sum(n for _, n in pages.ranges()) < weight:
            complete()
            parts.append(pages)
            continue
        if size + weight > UNIT_BYTES:
            complete()
        size = weight + (size if run else 0)
        run.append(group)
    complete()
    return parts


def _pages(
    key: str,
    footer: Footer,
    columns: Sequence[str],
    group: int,
    rows: range,
    starts: Sequence[int],
    keep: Keep,
) -> Pages | None:
    if len(rows) == starts[group + 1] - starts[group]:
        return None
    some = range(rows.start - starts[group], rows.stop - starts[group])
    names = tuple(columns)

    def make() -> PageLayout:
        fields = [footer.schema.field(name) for name in names]
        return PageLayout(page_runs(footer, group, fields, some))

    layout = keep((group, names, some), make)
    if not layout.runs:
        return None
    return Pages(key=key, footer=footer, columns=names, group=group, rows=some, layout=layout)


def _file(held: Held, metadata: pq.FileMetaData, coded: Sequence[str]) -> pq.ParquetFile:
    """Return the fetched bytes as a file; the caller's thread alone reads it."""
    return pq.ParquetFile(
        pa.PythonFile(HeldFile(held), mode="r"),
        metadata=metadata,
        read_dictionary=list(coded),
        pre_buffer=False,
    )


def _hidden_bytes(part: pq.ColumnChunkMetaData) -> int:
    """About how many bytes of texts a dictionary saves, by the lengths of the bounds."""
    if part.physical_type != "BYTE_ARRAY" or not part.has_dictionary_page:
        return 0
    known = part.statistics
    if known is None or not known.has_min_max:
        return 0
    return int(part.num_values * (len(known.min_raw) + len(known.max_raw)) // 2)


def _row_bytes(footer: Footer, columns: Sequence[str]) -> int:
    schema = footer.schema
    return sum(_width(schema.field(name).type) for name in columns)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:
        return _TEXT_BYTES

"""How DuckDB gets the rows of a remote table: the columns that a query reads, as local files; or
the few rows that can match, as one file.

Rules:
- The files have every column that the view reads, in every row group that it reads, before DuckDB
  starts (``reader/cache/columns.py``). The view reads no other column (``sql/views.py``); the row
  groups outside its window are left out by DuckDB, by their row numbers.
- Where the page index leaves few rows of few chunks, and their columns are not in the cache, the
  pages with those rows are read, and the rows are written to a file that only this query has. Its
  rows are those of ``read_plan``: the condition of the plan was applied, which keeps all rows that
  the query can use. A chunk of which pages were read again and again is fetched after all: DuckDB
  then finds the next rows without a request.
- Chunks that nothing can check in parts are fetched as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.chunk_reader import group_starts
from blockstore.format.footer import Footer
from blockstore.reader.query.files import Placed, which
from blockstore.reader.query.sql.reading import Named
from blockstore.reader.query.sql.views import (
    Part,
    contains,
    numbered,
    parts_of,
    view,
    view_of_rows,
)
from blockstore.reader.query.sql.windows import Windows, may_help, pages_in
from blockstore.reader.query.task import Step
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.fetch.course import side_by_side
from blockstore.scan.fetch.fetcher import Fetcher, Opened
from blockstore.scan.fetch.pieces import Range
from blockstore.scan.fetch.remote import Remote, Way
from blockstore.scan.parts import parts_of as pages_of_chunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.remote_rows import remote_rows

if TYPE_CHECKING:
    from blockstore.reader.cache import ChunkCache, Wanted
    from blockstore.reader.query.fences import Fence
    from blockstore.scan.page_rows import PagedColumn

_LESS = 4
"""Rows are read alone if that is so many times fewer bytes than their columns."""
_MOST_BYTES = 8 << 20
_MOST_ROWS_BYTES = 64 << 20
"""Of rows that are read alone: as pages, and decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a query reads of a remote table by one view."""

    name: str
    """The name of the view."""
    bucket: ReadBucket
    plan: ScanPlan
    hidden: Sequence[str]
    named: Named | None
    """The columns that the query names; None: all."""
    fence: Fence | None = None
    """Around the table, if policies restrict it."""
    complete: bool = False
    """Whether complete chunks are placed, whatever is needed."""

    def place(self, cache: ChunkCache, windows: Windows) -> tuple[Placed, list[Step]]:
        """Make everything available that DuckDB can read, and return the statements that create the
        view.

        Raises Corrupt, ObjectMissing and the like, with the block's name.
        """
        try:
            return self._placed(cache, windows)
        except (ObjectMissing, Corrupt) as error:
            raise which(self.bucket, self.plan.chunks, error) from error

    def _placed(self, cache: ChunkCache, windows: Windows) -> tuple[Placed, list[Step]]:
        plan = self.plan
        opened = self._opened(cache.fetcher) if may_help(plan) and not self.complete else {}
        known = windows.of(plan, partial(_read_pages, opened)) if opened else {}
        if known and self._is_small(cache, opened, known):
            table = self._rows(cache.fetcher)
            if table is not None:
                made = cache.hold_made(_as_file(table))
                step = view_of_rows(
                    self.name, plan, made.paths, table.schema, self.hidden, self.fence
                )
                return Placed(bucket=self.bucket, chunks=(), paths={}, hold=made), [step]
        parts = tuple(parts_of(plan, self.hidden, known))
        wanted = [self._wanted(chunk, part) for part in parts for chunk in part.chunks]
        chunks = tuple(chunk for part in parts for chunk in part.chunks)
        hold = cache.hold(wanted) if wanted else None
        paths = (
            {} if hold is None else dict(zip((one.key for one in chunks), hold.paths, strict=True))
        )
        steps = view(self.name, plan, parts, paths, self.hidden, self.named, self.fence)
        return Placed(bucket=self.bucket, chunks=chunks, paths=paths, hold=hold), steps

    def _opened(self, fetcher: Fetcher) -> dict[str, Opened]:
        """The chunks that can be read by ranges, by key, with their footers."""
        remotes = [
            remote
            for chunk in self.plan.chunks
            if (remote := self._remote(chunk)).way is Way.SEGMENTS
        ]
        opened = side_by_side(fetcher.pool, map(fetcher.opening, remotes))
        return {one.remote.key: one for one in opened if one is not None and one.can_be_filled}

    def _is_small(
        self, cache: ChunkCache, opened: Mapping[str, Opened], windows: Mapping[str, range]
    ) -> bool:
        """Whether few pages have all rows of the plan, and fetching them saves much: also compared
        with all pages that were read of these chunks before."""
        complete = before = 0
        pages: dict[str, int] = {}
        for chunk in self.plan.chunks:
            columns = self._stored(chunk)
            if chunk.key not in opened:
                if self._remote(chunk).way is not Way.WHOLE:
                    return False
                continue
            footer = opened[chunk.key].footer
            ranges = self._columns(chunk, None, footer)
            if cache.lacks(self._wanted(chunk, None), ranges):
                complete += sum(length for _, length in ranges)
            before += cache.read_alone.get(chunk.file.sha256) or 0
            groups = range(footer.metadata.num_row_groups)
            there = set(footer.schema.names)
            present = [column for column in columns if column in there]
            parts = pages_of_chunk(chunk.key, footer, present, groups, windows.get(chunk.key))
            pages[chunk.file.sha256] = sum(n for part in parts for _, n in part.ranges())
        now = sum(pages.values())
        if now > _MOST_BYTES or (before + now) * _LESS > complete:
            return False
        for sha256, size in pages.items():
            cache.read_alone.put(sha256, size + (cache.read_alone.get(sha256) or 0), 1)
        return True

    def _rows(self, fetcher: Fetcher) -> pa.Table | None:
        """All rows of the plan, with the columns that the view has; None if they are too many."""
        plan = self.plan
        names = [
            field.name
            for field in plan.columns.visible
            if self.named is None or self.named.has(field.name)
        ]
        columns = [*names, *self.hidden]
        if not columns:
            return None
        narrow = replace(plan, output_schema=plan.columns.select(columns))
        batches: list[pa.RecordBatch] = []
        size = 0
        for _, rows in remote_rows(self.bucket, narrow, fetcher):
            for batch in rows:
                size += batch.nbytes
                if size > _MOST_ROWS_BYTES:
                    return None
                batches.append(batch)
        return pa.Table.from_batches(batches, schema=narrow.output_schema)

    def _wanted(self, chunk: ScanChunk, part: Part | None) -> Wanted:
        from blockstore.reader.cache import Some, Wanted

        return Wanted(
            bucket=self.bucket,
            key=chunk.key,
            bytes=chunk.file.bytes,
            sha256=chunk.file.sha256,
            some=None
            if self.complete
            else Some(remote=self._remote(chunk), columns=partial(self._columns, chunk, part)),
        )

    def _remote(self, chunk: ScanChunk) -> Remote:
        return Remote(
            bucket=self.bucket,
            block=chunk.block,
            key=chunk.key,
            file=chunk.file,
            segments=chunk.segments,
        )

    def _columns(self, chunk: ScanChunk, part: Part | None, footer: Footer) -> list[Range]:
        """The bytes of a chunk that the view can read."""
        metadata = footer.metadata
        groups: Sequence[int] = range(metadata.num_row_groups)
        if part is not None and part.window is not None:
            starts = group_starts(metadata)
            window = part.window
            groups = [
                group
                for group in groups
                if starts[group] < window.stop and window.start < starts[group + 1]
            ]
        from blockstore.reader.cache.columns import column_chunks

        return column_chunks(metadata, self._stored(chunk), groups)

    def _stored(self, chunk: ScanChunk) -> list[str]:
        """The columns of the chunk's file that the view reads."""
        return list(dict.fromkeys(self._all_stored(chunk)))

    def _all_stored(self, chunk: ScanChunk) -> Iterator[str]:
        for name, read in self.plan.reads(chunk.schema_id).items():
            if read.stored_as is not None and (self.named is None or self.named.has(name)):
                yield read.stored_as
        yield from (column for column in self.hidden if contains(chunk, column))
        if chunk.filtered:
            yield "_source"


def _read_pages(
    opened: Mapping[str, Opened], chunk: ScanChunk, column: pa.Field
) -> PagedColumn | None:
    if chunk.key not in opened:
        return None
    footer = opened[chunk.key].footer
    return pages_in(footer.parquet, footer, column)


def _as_file(table: pa.Table) -> bytes:
    """Rows as a file that DuckDB reads at once."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.rename_columns([numbered(place) for place in range(table.num_columns)]),
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )
    return sink.getvalue().to_pybytes()

"""Rows of remote chunks: which bytes of each the plan needs, fetched ahead and decoded in order.

Rules:
- Only what the plan needs is read: of the row groups that its condition leaves, the column chunks
  of its columns; and where the condition leaves few rows of a row group, only the pages with them.
- Every row group is read once, and rows come in the order of the plan.
- R11: a chunk that cannot be read fails the scan with the block's name.
- A chunk of which no part can be checked, and that is too large to be read as a whole, is read as
  ``format.chunk_reader`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.format.chunk_reader import part_of_groups, present, read_part
from blockstore.format.footer import Footer
from blockstore.format.page_file import NoPages
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.failures import named, readable
from blockstore.scan.fetch.course import Computing, Course
from blockstore.scan.fetch.fetcher import Fetcher, Opened
from blockstore.scan.fetch.flow import Unit, flow
from blockstore.scan.fetch.held import Held
from blockstore.scan.fetch.remote import Remote
from blockstore.scan.page_rows import PagedColumn, matching_rows, read_pages
from blockstore.scan.parts import Batches, Pages, Part, parts_of
from blockstore.scan.plan import ScanPlan
from blockstore.scan.rows import RowReader
from blockstore.world import Pool

_STREAMED_BYTES = 48 << 20
"""The rows of a heavier part are decoded as they are used, batch by batch."""

Rows = tuple[int, Iterable[pa.RecordBatch]]
"""The place of a chunk in the plan, and some of its rows."""


def remote_rows(
    bucket: ReadBucket,
    plan: ScanPlan,
    fetcher: Fetcher,
    *,
    part: int = 0,
    parts: int = 1,
    verify: bool = False,
    pool: Pool | None = None,
) -> Iterator[Rows]:
    """Yield the rows of the plan's chunks, in order.

    Args:
        bucket: Where the chunks are.
        plan: What to read.
        fetcher: It fetches and keeps their bytes.
        part: Read this run of each chunk's row groups only,
        parts: of so many runs.
        verify: Compare chunks that are not checked otherwise with their SHA-256.
        pool: Its threads fetch and decode; those of the fetcher by default.

    Raises:
        Corrupt: A chunk is damaged.
        ObjectMissing: A chunk is missing.
    """
    reader = RowReader(plan)
    keep = plan.bytes <= fetcher.store.limit_bytes
    chunks = (
        _Chunk(
            bucket=bucket,
            plan=plan,
            fetcher=fetcher,
            part=part,
            parts=parts,
            verify=verify,
            reader=reader,
            keep=keep,
            place=place,
            chunk=chunk,
        )
        for place, chunk in enumerate(plan.chunks)
    )
    return flow(pool or fetcher.pool, (chunk.opening for chunk in chunks), cores=pa.cpu_count())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """One chunk of the plan."""

    bucket: ReadBucket
    plan: ScanPlan
    fetcher: Fetcher
    part: int
    parts: int
    verify: bool
    reader: RowReader
    keep: bool
    """Whether the store may keep complete column chunks; pages are always kept."""
    place: int
    chunk: ScanChunk

    def opening(self) -> Course[Sequence[Unit[Rows]]]:
        """Return the chunk's units."""
        chunk = self.chunk
        stored = self.reader.stored_columns(chunk)
        if not stored:
            constant = self.reader.constant_batches(chunk) if self.part == 0 else iter(())
            return [Unit(weight=0, course=partial(self._given, constant))]
        remote = Remote(
            bucket=self.bucket,
            block=chunk.block,
            key=chunk.key,
            file=chunk.file,
            segments=chunk.segments,
        )
        with named(chunk):
            opened = yield from self.fetcher.opening(remote, keep=self.keep)
            if opened is None:
                plain = self._scanned(self._plain(stored))
                return [Unit(weight=_STREAMED_BYTES, course=partial(self._given, plain))]
            with readable(chunk.key):
                parts = self._parts(opened, stored)
        return [Unit(weight=one.weight(), course=partial(self._read, opened, one)) for one in parts]

    def _parts(self, opened: Opened, stored: Sequence[str]) -> list[Part]:
        footer = opened.footer
        columns = present(footer.schema, stored) or []
        groups = list(part_of_groups(footer.metadata.num_row_groups, self.part, self.parts))
        rows = None
        # A chunk's only group was judged with the chunk, by its meta.json.
        may = self.reader.judge_groups(self.chunk) if footer.metadata.num_row_groups > 1 else None
        if may is not None and groups:
            judged = may(footer.parquet)
            groups = [group for group in groups if judged[group]]
        if groups and opened.whole is None and not self.chunk.certain:
            rows = matching_rows(self.plan, self.chunk, partial(_pages_of, footer))
        keep = partial(self.fetcher.layout, opened)
        return parts_of(self.chunk.key, footer, columns, groups, rows, keep)

    def _read(self, opened: Opened, part: Part) -> Course[Rows]:
        """Fetch a part and decode it; a heavy one is decoded when its rows are used."""
        if isinstance(part, Pages):
            held = yield from self._filled(opened, part, keep=True)
            try:
                return (yield from self._decoded(part, held))
            except NoPages:
                part = part.complete()
        held = yield from self._filled(opened, part, keep=self.keep)
        if part.weight() > _STREAMED_BYTES:
            return self.place, self._scanned(part.batches(held))
        return (yield from self._decoded(part, held))

    def _decoded(self, part: Part, held: Held) -> Course[Rows]:
        (rows,) = yield Computing(lambda: list(self._scanned(part.batches(held))))
        return self.place, rows

    def _filled(self, opened: Opened, part: Part, *, keep: bool) -> Course[Held]:
        with named(self.chunk):
            return (yield from self.fetcher.filling(opened, part.ranges(), keep=keep))

    def _scanned(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the scan in these batches."""
        with named(self.chunk), readable(self.chunk.key):
            for position, batch in batches:
                rows = self.reader.rows(self.chunk, batch, position)
                if rows.num_rows:
                    yield rows

    def _plain(self, stored: Sequence[str]) -> Batches:
        return read_part(
            self.bucket,
            self.chunk.key,
            self.chunk.file,
            stored,
            part=self.part,
            parts=self.parts,
            may=self.reader.judge_groups(self.chunk),
            verify=self.verify,
        )

    def _given(self, rows: Iterable[pa.RecordBatch]) -> Course[Rows]:
        yield ()
        return self.place, rows


def _pages_of(footer: Footer, _: ScanChunk, column: pa.Field) -> PagedColumn | None:
    return footer.once(
        (column.name, column.type), partial(read_pages, footer.parquet, footer, column)
    )

"""Reading a plan with pyarrow: the reference executor, whose rows every other engine must return.

Rules:
- R11: a chunk that cannot be read fails the scan with the block's name; rows are never missing.
- Chunks that are local files are read as files. Memory is bounded by one window of small chunks, or
  one row group of a large one.
- Remote chunks are read by ranges (``remote_rows.py``), in memory that ``fetch/flow.py`` bounds.
- Rows come in the plan's order: by block, chunk and position.
- A row that the condition names by its identity is read by ranges too (``named_row.py``): its pages
  are a small part of a row group.
- Of a chunk that may hold matching rows, row groups whose bounds in the footer exclude them are not
  read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.format.chunk_reader import read_part as read_chunk_part
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.failures import named
from blockstore.scan.named_row import named_row, rows_of
from blockstore.scan.plan import ScanPlan
from blockstore.scan.reads import Reads
from blockstore.scan.rows import RowReader
from blockstore.world import Serial, World

_SMALL_BYTES = 16 * 1024 * 1024
_WINDOW_BYTES = 64 * 1024 * 1024
_WINDOW_CHUNKS = 64


def read_plan(
    bucket: ReadBucket,
    plan: ScanPlan,
    world: World,
    *,
    verify: bool = False,
    reads: Reads | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of the plan, batch by batch.

    Args:
        bucket: Where the chunks are.
        plan: What to read.
        world: Its pool fetches and decodes.
        verify: Compare each chunk's SHA-256 that is not checked otherwise.
        reads: What keeps bytes and hidden rows between plans; None to keep nothing.
    """
    return pa.RecordBatchReader.from_batches(
        plan.output_schema, _batches(bucket, plan, world, reads, verify)
    )


def read_part(
    bucket: ReadBucket, plan: ScanPlan, world: World, *, part: int, parts: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one of ``parts`` runs of row groups of the plan's only chunk, so that
    several processes can share a large one."""
    plan = resolve(bucket, plan, world)
    if not plan.chunks:
        return
    (chunk,) = plan.chunks
    if _is_remote(bucket, plan):
        for _, batches in _remote_rows(bucket, plan, world, part=part, parts=parts):
            yield from batches
        return
    reader = RowReader(plan)
    stored = reader.stored_columns(chunk)
    if not stored:
        yield from reader.constant_batches(chunk) if part == 0 else ()
        return
    with named(chunk):
        pieces = read_chunk_part(
            bucket,
            chunk.key,
            chunk.file,
            stored,
            part=part,
            parts=parts,
            may=reader.judge_groups(chunk),
        )
        for position, batch in pieces:
            rows = reader.rows(chunk, batch, position)
            if rows.num_rows:
                yield rows


def count_rows(
    bucket: ReadBucket, plan: ScanPlan, world: World, *, reads: Reads | None = None
) -> int:
    """Return how many rows the plan has; read only chunks whose metadata does not say."""
    plan = resolve(bucket, plan, world, reads)
    known, unknown = 0, []
    for chunk in plan.chunks:
        if chunk.certain and not chunk.filtered:
            known += chunk.rows
        else:
            unknown.append(chunk)
    if not unknown:
        return known
    narrow = replace(plan, chunks=tuple(unknown), output_schema=plan.columns.select(["_source"]))
    return known + sum(batch.num_rows for batch in _batches(bucket, narrow, world, reads))


def count_each(bucket: ReadBucket, plan: ScanPlan, world: World) -> list[int]:
    """Return how many rows each chunk of the plan has; read only chunks whose metadata does not
    say."""
    if plan.changes:
        shown = resolve(bucket, plan, world)
        counts = dict(
            zip(
                [chunk.key for chunk in shown.chunks], count_each(bucket, shown, world), strict=True
            )
        )
        return [counts.get(chunk.key, 0) for chunk in plan.chunks]
    narrow = replace(plan, output_schema=plan.columns.select(["_source"]))
    if _is_remote(bucket, plan):
        return _count_each_remote(bucket, narrow, world)
    reader = RowReader(narrow)

    def count(chunk: ScanChunk) -> int:
        if chunk.certain and not chunk.filtered:
            return chunk.rows
        return sum(batch.num_rows for batch in _chunk_batches(bucket, reader, chunk))

    return [rows for window in _windows(plan.chunks) for rows in world.pool.map(count, window)]


def _count_each_remote(bucket: ReadBucket, plan: ScanPlan, world: World) -> list[int]:
    counts: list[int] = []
    unknown: dict[int, ScanChunk] = {}
    for place, chunk in enumerate(plan.chunks):
        known = chunk.certain and not chunk.filtered
        counts.append(chunk.rows if known else 0)
        if not known:
            unknown[place] = chunk
    places = list(unknown)
    narrow = replace(plan, chunks=tuple(unknown.values()))
    for at, rows in _remote_rows(bucket, narrow, world):
        counts[places[at]] += sum(batch.num_rows for batch in rows)
    return counts


def resolve(
    bucket: ReadBucket, plan: ScanPlan, world: World, reads: Reads | None = None
) -> ScanPlan:
    """Return the plan with what newer versions hide of its chunks."""
    if not plan.changes:
        return plan
    from blockstore.scan.resolve import resolved

    cache = None if reads is None else reads.hidden
    return resolved(plan, lambda columns: _batches(bucket, columns, world, reads), cache)


def _is_remote(bucket: ReadBucket, plan: ScanPlan) -> bool:
    """Whether no program on this machine can open the chunks as files."""
    return bool(plan.chunks) and bucket.path_of(plan.chunks[0].key) is None


def _remote_rows(
    bucket: ReadBucket,
    plan: ScanPlan,
    world: World,
    reads: Reads | None = None,
    *,
    part: int = 0,
    parts: int = 1,
    verify: bool = False,
) -> Iterator[tuple[int, Iterable[pa.RecordBatch]]]:
    """As ``remote_rows``, loaded only where chunks are read by ranges: a query of files starts
    sooner. Few ranges of files are read sooner than another thread begins."""
    from blockstore.scan.fetch.fetcher import Fetcher
    from blockstore.scan.remote_rows import remote_rows

    fetcher = Fetcher(world.pool) if reads is None else reads.fetcher
    pool = None if _is_remote(bucket, plan) else Serial()
    return remote_rows(bucket, plan, fetcher, part=part, parts=parts, verify=verify, pool=pool)


def _batches(
    bucket: ReadBucket,
    plan: ScanPlan,
    world: World,
    reads: Reads | None = None,
    verify: bool = False,
) -> Iterator[pa.RecordBatch]:
    row = named_row(plan)
    if row is not None:
        yield from rows_of(
            plan, row, lambda some: _remote_rows(bucket, some, world, reads, verify=verify)
        )
        return
    plan = resolve(bucket, plan, world, reads)
    if _is_remote(bucket, plan):
        for _, rows in _remote_rows(bucket, plan, world, reads, verify=verify):
            yield from rows
        return
    reader = RowReader(plan)
    for window in _windows(plan.chunks):
        if len(window) == 1:
            yield from _chunk_batches(bucket, reader, window[0], verify)
        else:
            for batches in world.pool.map(
                lambda chunk: list(_chunk_batches(bucket, reader, chunk, verify)), window
            ):
                yield from batches


def _windows(chunks: Iterable[ScanChunk]) -> Iterator[list[ScanChunk]]:
    """Yield runs of small chunks to be read in parallel, and each large chunk alone."""
    window: list[ScanChunk] = []
    size = 0
    for chunk in chunks:
        large = chunk.file.bytes > _SMALL_BYTES
        full = len(window) == _WINDOW_CHUNKS or size + chunk.file.bytes > _WINDOW_BYTES
        if window and (large or full):
            yield window
            window, size = [], 0
        if large:
            yield [chunk]
        else:
            window.append(chunk)
            size += chunk.file.bytes
    if window:
        yield window


def _chunk_batches(
    bucket: ReadBucket, reader: RowReader, chunk: ScanChunk, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    stored = reader.stored_columns(chunk)
    if not stored:
        yield from reader.constant_batches(chunk)
        return
    may = reader.judge_groups(chunk)
    with named(chunk):
        for position, batch in read_chunk_part(
            bucket, chunk.key, chunk.file, stored, may=may, verify=verify
        ):
            rows = reader.rows(chunk, batch, position)
            if rows.num_rows:
                yield rows

"""Reading a plan with pyarrow: the reference executor, whose rows every other engine must return.

Rules:
- R11: a chunk that cannot be read fails the scan with the block's name; rows are never missing.
- Memory is bounded by one window of small chunks, or one row group of a large one.
- Rows come in the plan's order: by block, chunk and position.
- Of a chunk that may hold matching rows, row groups whose bounds in the footer exclude them are not
  read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.chunk_reader import read_part as read_chunk_part
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.rows import RowReader
from blockstore.world import World

_SMALL_BYTES = 16 * 1024 * 1024
_WINDOW_BYTES = 64 * 1024 * 1024
_WINDOW_CHUNKS = 64


def read_plan(
    bucket: ReadBucket, plan: ScanPlan, world: World, *, verify: bool = False
) -> pa.RecordBatchReader:
    """Return the rows of the plan, batch by batch.

    ``verify`` compares each chunk's SHA-256, for which the complete chunk is held.
    """
    return pa.RecordBatchReader.from_batches(
        plan.output_schema, _batches(bucket, plan, world, verify)
    )


def read_part(
    bucket: ReadBucket, plan: ScanPlan, *, part: int, parts: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one of ``parts`` runs of row groups of the plan's only chunk, so that
    several processes can share a large one."""
    (chunk,) = plan.chunks
    reader = RowReader(plan)
    stored = reader.stored_columns(chunk)
    if not stored:
        yield from reader.constant_batches(chunk) if part == 0 else ()
        return
    with _named(chunk):
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


def count_rows(bucket: ReadBucket, plan: ScanPlan, world: World) -> int:
    """Return how many rows the plan has; read only chunks whose metadata does not say."""
    known = sum(chunk.file.rows for chunk in plan.chunks if chunk.certain and not chunk.filtered)
    unknown = tuple(chunk for chunk in plan.chunks if not chunk.certain or chunk.filtered)
    if not unknown:
        return known
    narrow = replace(plan, chunks=unknown, output_schema=plan.columns.select(["_source"]))
    return known + sum(batch.num_rows for batch in _batches(bucket, narrow, world))


def count_each(bucket: ReadBucket, plan: ScanPlan, world: World) -> list[int]:
    """Return how many rows each chunk of the plan has; read only chunks whose metadata does not
    say."""
    reader = RowReader(replace(plan, output_schema=plan.columns.select(["_source"])))

    def count(chunk: ScanChunk) -> int:
        if chunk.certain and not chunk.filtered:
            return chunk.file.rows
        return sum(batch.num_rows for batch in _chunk_batches(bucket, reader, chunk))

    return [rows for window in _windows(plan.chunks) for rows in world.pool.map(count, window)]


def _batches(
    bucket: ReadBucket, plan: ScanPlan, world: World, verify: bool = False
) -> Iterator[pa.RecordBatch]:
    reader = RowReader(plan)
    for window in _windows(plan.chunks):
        if len(window) == 1:
            yield from _chunk_batches(bucket, reader, window[0], verify)
        else:
            for batches in world.pool.map(
                lambda chunk: list(_chunk_batches(bucket, reader, chunk, verify)), window
            ):
                yield from batches


def _windows(chunks: tuple[ScanChunk, ...]) -> Iterator[list[ScanChunk]]:
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
    with _named(chunk):
        for position, batch in read_chunk_part(
            bucket, chunk.key, chunk.file, stored, may=may, verify=verify
        ):
            rows = reader.rows(chunk, batch, position)
            if rows.num_rows:
                yield rows


@contextmanager
def _named(chunk: ScanChunk) -> Iterator[None]:
    """Name the block of a chunk that cannot be read (R11)."""
    try:
        yield
    except ObjectMissing as error:
        raise ObjectMissing(
            f"block {chunk.block} cannot be read: {chunk.file.path} is missing ({error}); take a "
            "newer snapshot; if that names the block too, open the table again (it may have been "
            "put back from a copy) and run blockstore verify"
        ) from error
    except Corrupt as error:
        raise Corrupt(f"block {chunk.block} cannot be read: {error}") from error

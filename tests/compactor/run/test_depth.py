"""How many requests of a compactor's pass must follow one another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket import s3_writer
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.s3_writer import IN_FLIGHT
from blockstore.compactor.merge import local
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format import block_writer, sink
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from tests.support.depth import DepthBucket, Seen, Time
from tests.support.multipart import Multipart

BLOCKS, ROWS = 45, 5_000
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64())])
LANES = 16


def pass_over(tmp_path: Path, *, overlapping: bool) -> tuple[Seen, Multipart]:
    """A pass over blocks of one chunk each, that are too large to be held in memory."""
    time = Time(workers=LANES)
    world = time.world()
    memory = MemoryBucket(time)
    index_log.create(memory, world, Definition.create(SCHEMA, sort_by=["id"]))
    writer = Table.open_bucket(memory, world)
    rng = np.random.default_rng(7)
    for number in range(BLOCKS):
        first, last = (0, BLOCKS * ROWS) if overlapping else (number * ROWS, (number + 1) * ROWS)
        ids = np.sort(rng.integers(first, last, ROWS))
        writer.append(pa.table([ids, rng.random(ROWS)], schema=SCHEMA))
    bucket = DepthBucket(memory, time)
    store = Multipart(bucket, time)
    table = Table.open_bucket(store, world)
    with bucket.watch() as seen:
        report = compact_once(table, Settings(memory_bytes=256 << 20, work_dir=tmp_path))
    assert [result.problem for result in report.results] == [""]
    assert table.snapshot().count() == BLOCKS * ROWS
    assert store.open == {}
    return seen, store


BEFORE = "listing, boundary and poll, 45 meta.json in 3 turns, 16 chunks"
AFTER = "segments, meta.json, entry, boundary, poll and its boundary"


def test_a_merge_of_blocks_that_overlap(tmp_path: Path) -> None:
    seen, _ = pass_over(tmp_path, overlapping=True)
    assert sum(one.what == "RANGE" for one in seen.requests) == BLOCKS, "each chunk is read once"
    seen.expect(6 + 2 + 1 + 6, f"{BEFORE}, the others in 2, a chunk, {AFTER}")


def test_a_merge_of_blocks_that_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_BUFFERS", 512)  # a buffer has room for a few blocks
    seen, _ = pass_over(tmp_path, overlapping=False)
    assert sum(one.what == "RANGE" for one in seen.requests) == BLOCKS, "each chunk is read once"
    seen.expect(6 + 5 + 1 + 6, f"{BEFORE}, what each step needs and 8 more, a chunk, {AFTER}")


def test_the_parts_of_a_merged_chunk_are_sent_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_writer, "_SMALL", 0)
    monkeypatch.setattr(sink, "_PIECE", 1 << 14)
    monkeypatch.setattr(s3_writer, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(s3_writer, "SMALL_BYTES", 1 << 17)
    seen, store = pass_over(tmp_path, overlapping=True)
    parts = sum(one.what.startswith("PART") for one in seen.requests)
    assert parts > 20
    assert store.most_parts == IN_FLIGHT
    turns = -(-parts // IN_FLIGHT)
    seen.expect(6 + 2 + 1 + turns + 1 + 6, f"{BEFORE}, the others in 2, an upload, {AFTER}")

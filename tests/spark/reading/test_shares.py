"""Chunks divided among tasks: each row once, in order, no share much larger than the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.format import ChunkFile
from blockstore.format.block_writer import BlockWriter
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.execute import read_part
from blockstore.scan.view import Scan
from blockstore.spark.reading.shares import LEAST_BYTES, MOST_BYTES, share_bytes, shares
from blockstore.world import World


def chunks(sizes: list[int]) -> list[ScanChunk]:
    return [
        ScanChunk(
            block="B",
            key=str(number),
            file=ChunkFile(path=f"chunks/{number}.parquet", bytes=size, rows=1, sha256=""),
            schema_id=1,
            labels={},
            source=None,
        )
        for number, size in enumerate(sizes)
    ]


@given(hs.lists(hs.integers(1, 250)), hs.integers(1, 100))
def test_every_part_of_every_chunk_is_in_one_run_in_order(sizes: list[int], limit: int) -> None:
    given_chunks = [replace(chunk, file=replace(chunk.file, rows=10**6)) for chunk in chunks(sizes)]
    runs = shares(given_chunks, limit)
    listed = [share for run in runs for share in run]
    whole = [share.chunk for share in listed if share.part == 0]
    assert whole == given_chunks
    for chunk in given_chunks:
        parts = [share for share in listed if share.chunk == chunk]
        assert [share.part for share in parts] == list(range(parts[0].parts))
    for run in runs:
        if len(run) > 1:
            assert sum(share.chunk.file.bytes for share in run) <= limit
        for share in run:
            assert share.chunk.file.bytes / share.parts <= 1.5 * limit
            assert share.parts == 1 or len(run) == 1
    assert len(runs) >= 1


def test_a_chunk_of_few_rows_is_not_cut_into_more_parts_than_rows() -> None:
    (large,) = chunks([1000])
    assert [len(run) for run in shares([replace(large, file=replace(large.file, rows=2))], 10)] == [
        1,
        1,
    ]


@given(hs.lists(hs.integers(1, 2**30), min_size=1, max_size=30))
def test_shares_of_no_stated_size_are_about_sixteen_within_bounds(sizes: list[int]) -> None:
    given_chunks = [replace(chunk, file=replace(chunk.file, rows=10**6)) for chunk in chunks(sizes)]
    size = share_bytes(given_chunks)
    assert LEAST_BYTES <= size <= MOST_BYTES
    assert size in (LEAST_BYTES, MOST_BYTES) or 15 * size < sum(sizes) <= 16 * size
    assert shares(given_chunks) == shares(given_chunks, size)


def test_four_chunks_of_forty_mebibytes_are_four_tasks_and_not_three_chunks_and_one() -> None:
    assert [len(run) for run in shares(chunks([40 * 2**20] * 4))] == [1, 1, 1, 1]
    assert [len(run) for run in shares(chunks([2**20] * 4))] == [4]


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scan:
    """One chunk of seven row groups of a hundred rows."""
    make = BlockWriter.__init__
    monkeypatch.setattr(
        BlockWriter, "__init__", lambda *a, **o: make(*a, **{**o, "row_group_rows": 100})
    )
    schema = pa.schema([("id", pa.int64())])
    table = bs.create(str(tmp_path / "numbers"), schema=schema)
    table.append(pa.table({"id": list(range(700))}, schema=schema))
    return table.snapshot().scan(columns=["id", "_row_id"], where="id <> 350")


@pytest.mark.parametrize("parts", [2, 3, 7, 10])
def test_the_parts_of_a_chunk_hold_each_row_once_at_its_position(scan: Scan, parts: int) -> None:
    bucket, found = open_bucket(scan.bucket.url, World.real()), []
    for part in range(parts):
        batches = list(read_part(bucket, scan.plan, World.real(), part=part, parts=parts))
        rows = [(row["id"], row["_row_id"]) for batch in batches for row in batch.to_pylist()]
        assert len(rows) < 700 / parts + 100
        found += rows
    assert found == [(number, number) for number in range(700) if number != 350]


def test_parts_of_which_the_file_is_not_needed_count_once(scan: Scan) -> None:
    bucket = open_bucket(scan.bucket.url, World.real())
    hidden = Scan(
        bucket=scan.bucket, world=scan.world, snapshot=scan.snapshot, columns=["_source"]
    ).plan
    rows = [
        sum(batch.num_rows for batch in read_part(bucket, hidden, World.real(), part=part, parts=3))
        for part in range(3)
    ]
    assert rows == [700, 0, 0]


def test_a_damaged_chunk_is_named_with_its_block(scan: Scan) -> None:
    (chunk,) = scan.plan.chunks
    path = scan.bucket.path_of(chunk.key)
    assert path is not None
    Path(path).unlink()
    world = World.real()
    with pytest.raises(bs.NotFound, match=chunk.block):
        list(read_part(open_bucket(scan.bucket.url, world), scan.plan, world, part=0, parts=2))

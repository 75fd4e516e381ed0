"""Rows of remote chunks are those of local ones, by few bytes and few requests in turn; damage ends
the scan with the block's name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.bucket.api import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Corrupt
from blockstore.format import segments as format_segments
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.scan.fetch import remote
from blockstore.scan.fetch.pieces import LANES
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.scan.fetch.chunks import DAMAGES, Altered
from tests.support.depth import DepthBucket, Time

BLOCKS = 20
ROWS = 100_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("value", pa.float64()),
        ("name", pa.string()),
        ("other", pa.float64()),
        ("parts", pa.list_(pa.int32())),
    ]
)
NAMES = pa.array([f"n{n}" for n in range(10)])
VALUE_BYTES = 8 * ROWS


def rows(block: int, count: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(block)
    ids = np.arange(block * count, (block + 1) * count)
    return pa.table(
        {
            "id": ids,
            "value": rng.random(count),
            "name": NAMES.take(pa.array(np.arange(count) % 10)),
            "other": rng.random(count),
            "parts": pa.array([[1]] * 3 + [None] * (count - 3), pa.list_(pa.int32())),
        },
        schema=SCHEMA,
    )


def fill(bucket: Bucket, world: World, blocks: int = BLOCKS, count: int = ROWS) -> None:
    """A table of blocks of one chunk each, in the order of ``id``."""
    log = index_log.create(bucket, world, Definition.create(SCHEMA, sort_by=["id"]))
    table = Table(bucket, world, log)
    for block in range(blocks):
        table.append(rows(block, count))
        world.clock.sleep(0.002)  # blocks of one millisecond are in the order of chance


@pytest.fixture(scope="module")
def stored() -> MemoryBucket:
    """A table in memory; no test changes it."""
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    fill(bucket, world)
    return bucket


def opened(stored: MemoryBucket, workers: int = LANES) -> tuple[DepthBucket, bs.Table]:
    time = Time(workers=workers)
    bucket = DepthBucket(stored, time)
    return bucket, Table.open_bucket(bucket, time.world())


POINT = "id BETWEEN 250000 AND 250999"


def test_a_cold_point_reads_the_footer_beside_the_hashes_and_then_its_pages(
    stored: MemoryBucket,
) -> None:
    bucket, table = opened(stored)
    snapshot = table.snapshot()
    with bucket.watch() as seen:
        found = snapshot.scan(where=POINT).to_table()
    assert found["id"].to_pylist() == list(range(250_000, 251_000))
    assert found.equals(rows(2).slice(50_000, 1_000))
    seen.expect(2, "footer beside hashes, pages")
    assert seen.bytes <= 1 << 20
    with bucket.watch() as again:
        assert table.snapshot().scan(where=POINT).to_table().equals(found)
    assert [one for one in again.requests if "chunks" in one.key or "segments" in one.key] == []


def test_another_point_of_a_known_chunk_reads_its_pages_only(stored: MemoryBucket) -> None:
    bucket, table = opened(stored)
    snapshot = table.snapshot()
    snapshot.scan(where=POINT).to_table()
    with bucket.watch() as seen:
        found = snapshot.scan(where="id = 299999").to_table()
    assert found.equals(rows(2).slice(99_999))
    seen.expect(1, "pages")


def test_a_group_by_over_twenty_chunks_reads_its_columns_and_fills_the_lanes(
    stored: MemoryBucket,
) -> None:
    bucket, table = opened(stored)
    snapshot = table.snapshot()
    with bucket.watch() as seen:
        found = snapshot.scan(columns=["value"]).to_table()
    assert found["value"].equals(
        pa.chunked_array([rows(block)["value"].chunk(0) for block in range(BLOCKS)])
    )
    least = math.ceil(len(seen.requests) / LANES)
    assert seen.depth <= least + 2, "\n".join(map(str, seen.waves()))
    columns = BLOCKS * VALUE_BYTES
    # Of so small chunks, the segments at both ends of a column weigh as much as a tenth of it.
    assert seen.bytes <= 1.25 * columns + BLOCKS * 2 * 64 * 1024


def test_a_full_scan_keeps_the_order_and_fills_the_lanes(stored: MemoryBucket) -> None:
    bucket, table = opened(stored)
    snapshot = table.snapshot()
    with bucket.watch() as seen:
        found = snapshot.scan().to_table()
    assert found["id"].to_pylist() == list(range(BLOCKS * ROWS))
    assert found.slice(5 * ROWS, ROWS).equals(rows(5))
    assert seen.depth <= math.ceil(len(seen.requests) / LANES) + 2, "\n".join(
        map(str, seen.waves())
    )


def test_with_enough_lanes_a_scan_of_eight_chunks_is_two_rounds(stored: MemoryBucket) -> None:
    bucket, table = opened(stored, workers=64)
    snapshot = table.snapshot()
    with bucket.watch() as seen:
        found = snapshot.scan(columns=["name"], where=f"id < {8 * ROWS}").to_table()
    assert found.num_rows == 8 * ROWS
    seen.expect(2, "footers beside hashes, columns")


CONDITIONS = [
    None,
    "id < 70",
    "id BETWEEN 1490 AND 1510",
    "id = 2999 OR id = 10",
    "name = 'n3' AND id > 1700",
    "value > 0.5",
    "other < 0.001",
    "parts IS NOT NULL",
    "id > 100000",
]
COLUMNS = [None, ["id"], ["name", "value"], ["parts"], ["_row_id", "id"], ["_source", "name"]]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bs.Table, bs.Table]]:
    """The same small table as files and in memory, there with segments of everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(format_segments, "WHOLE_BYTES", 100)
        patch.setattr(remote, "WHOLE_BYTES", 100)
        folder = Path(tmp_path_factory.mktemp("table"))
        world = World.real()
        local = LocalBucket(str(folder), world.clock, durable=False)
        fill(local, world, blocks=3, count=1_000)
        memory = MemoryBucket(world.clock)
        for found in list(local.list()):
            memory.put(found.key, local.get(found.key).data)
        yield Table.open_bucket(local, world), Table.open_bucket(memory, world)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(CONDITIONS), columns=st.sampled_from(COLUMNS))
def test_remote_rows_are_those_of_local_files(
    twice: tuple[bs.Table, bs.Table], where: str | None, columns: list[str] | None
) -> None:
    local, memory = twice
    expected = local.snapshot().scan(columns=columns, where=where).to_table()
    found = memory.snapshot().scan(columns=columns, where=where).to_table()
    assert found.equals(expected)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("where", [None, POINT])
def test_a_damaged_range_is_read_once_more_or_the_block_is_named(
    stored: MemoryBucket, damage: Callable[[bytes], bytes], where: str | None
) -> None:
    world = World.real()
    whole = Table.open_bucket(stored, world)
    expected = whole.snapshot().scan(columns=["value"], where=where).to_table()
    altered = Altered(stored, damage, times=0)
    altered.only = "chunks/"
    for times in (1, 3):
        snapshot = Table.open_bucket(altered, world).snapshot()
        altered.left = times
        found = rows_or_error(snapshot, where)
        if isinstance(found, Corrupt):
            assert times > 1
            assert any(block.meta.ulid in str(found) for block in whole.snapshot().blocks)
        else:
            assert found.equals(expected)
    altered.left = 10**9
    snapshot = Table.open_bucket(altered, world).snapshot()
    assert isinstance(rows_or_error(snapshot, where), Corrupt)


def rows_or_error(snapshot: Any, where: str | None) -> pa.Table | Corrupt:
    try:
        return snapshot.scan(columns=["value"], where=where).to_table()
    except Corrupt as error:
        return error


def test_the_pool_of_one_process_reads_the_same(stored: MemoryBucket) -> None:
    for world in (World.manual(), World.real(workers=1), World.real(workers=5)):
        found = Table.open_bucket(stored, world).snapshot().scan(columns=["id"]).to_table()
        assert found["id"].to_pylist() == list(range(BLOCKS * ROWS))

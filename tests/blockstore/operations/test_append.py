"""What an append answers where publishing is hindered."""

from __future__ import annotations

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import AccessDenied, BlockCondemned, Invalid
from blockstore.format.definition import Definition
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.names import entry_key
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import Planned

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)
JOB = bs.Job(app="load", batch=1)


@pytest.fixture
def world() -> World:
    return World.manual()


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    return bucket


def test_a_durable_block_that_may_not_be_published_is_no_refusal(bucket: MemoryBucket, world: World) -> None:
    """Its rows will be discovered: told "refused", the caller would write them twice."""
    faulty = FaultyBucket(bucket)

    def deny(call: Call) -> None:
        if call.key == entry_key(2) and call.writes:
            raise AccessDenied("no permission to write the index")

    faulty.before.append(deny)
    table = Table.open_bucket(faulty, world)
    answer = table.append(ROWS)
    assert (answer.published, answer.version, answer.rows) == (False, None, 1)
    with pytest.raises(AccessDenied):
        table.append(ROWS, job=JOB)
    faulty.before.clear()
    assert table.append(ROWS, resume=answer.ulid).published
    assert table.snapshot().scan().to_table().num_rows == 1


def test_a_condemned_block_is_not_uploaded_again_without_end(bucket: MemoryBucket, world: World) -> None:
    table = Table.open_bucket(bucket, world)
    horizon = ulid_at(world.clock.now_ms() + 5 * 86_400_000)
    table.log.commit(
        Planned(operation=Operation.HORIZON, commit=world.ids.ulid(), plan=Draft(horizon=horizon))
    )
    with pytest.raises(BlockCondemned, match="clock"):
        table.append(ROWS, job=JOB)
    assert table.snapshot().scan().to_table().num_rows == 0
    answer = table.append(ROWS)
    assert (answer.published, answer.version) == (False, None)


def test_a_write_that_failed_is_over_although_its_error_was_caught(
    bucket: MemoryBucket, world: World
) -> None:
    table = Table.open_bucket(bucket, world)
    writer = table.writer()
    writer.write(ROWS)
    with pytest.raises(Invalid, match="columns"):
        writer.write(pa.table({"m": ["x"]}))
    with pytest.raises(Invalid, match="new writer"):
        writer.finish()
    assert table.snapshot().scan().to_table().num_rows == 0

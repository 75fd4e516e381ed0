"""A replica that has only begun: it can be written to as a table, and copied on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.replicate.replicator import Replicator
from blockstore.clock import ManualClock
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.log import create
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.table import Table
from blockstore.world import Serial, World

ROWS = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def world(clock: ManualClock) -> World:
    return World(clock=clock, ids=Ids.seeded(clock, 1), pool=Serial())


@pytest.fixture
def begun(clock: ManualClock, world: World) -> MemoryBucket:
    """The replica of a table all of whose entries but the newest were collected."""
    bucket = MemoryBucket(clock)
    create(bucket, world, Definition.create(ROWS.schema))
    table = Table.open_bucket(bucket, world)
    table.append(ROWS)
    table.append(ROWS)
    ensure_checkpoint(bucket, table.log.at(2))
    table.log.boundary.advance(2)
    bucket.delete([entry_key(1), entry_key(2)])
    replica = MemoryBucket(clock, "memory://replica")
    Replicator(bucket, replica, world).once()
    index = [info.key for info in replica.list("index/")] + [
        info.key for info in replica.list("gc/")
    ]
    assert index == [checkpoint_key(3), BOUNDARY]
    return replica


def test_it_takes_writes(begun: MemoryBucket, world: World) -> None:
    table = Table.open_bucket(begun, world)
    assert table.append(ROWS).version == 4
    assert table.append(ROWS).version == 5
    assert Table.open_bucket(begun, world).snapshot().scan().to_table().num_rows == 4


def test_it_is_copied_on(begun: MemoryBucket, clock: ManualClock, world: World) -> None:
    target = MemoryBucket(clock, "memory://further")
    replicator = Replicator(begun, target, world)
    assert replicator.once().version == 3
    Table.open_bucket(begun, world).append(ROWS)
    assert replicator.once().version == 4
    assert Table.open_bucket(target, world).snapshot().scan().to_table().num_rows == 3

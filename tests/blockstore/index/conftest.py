"""A bucket in memory with blocks, and a table in it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.index.log import Log, create
from blockstore.names import meta_key
from blockstore.world import World
from tests.support.index_data import DEFINITION, append, ulid


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    """With the blocks of whatever is appended, as far as an index looks at them."""
    bucket = MemoryBucket(world.clock)
    for number in range(256):
        bucket.put(meta_key(ulid(number)), b"{}")
    return bucket


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    """A handle on a new table."""
    return create(bucket, world, DEFINITION)


@pytest.fixture
def clock(world: World) -> ManualClock:
    """The clock of the world."""
    assert isinstance(world.clock, ManualClock)
    return world.clock


@pytest.fixture
def aged(log: Log, clock: ManualClock) -> Log:
    """Versions 1 to 10 two days old, 11 to 15 new."""
    for number in range(100, 109):
        log.commit(append(number))
    clock.advance(49 * 3600)
    for number in range(109, 114):
        log.commit(append(number))
    return log

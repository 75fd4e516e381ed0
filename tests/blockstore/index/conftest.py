"""A bucket in memory, a world that stands still, and a table in it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.index.log import Log, create
from blockstore.world import World
from tests.support.index_data import DEFINITION


@pytest.fixture
def world() -> World:
    return World.manual()


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    return MemoryBucket(world.clock)


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    """A handle on a new table."""
    return create(bucket, world, DEFINITION)

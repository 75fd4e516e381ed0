"""A world that stands still, and an empty bucket in memory; a folder or a module that needs more
has its own."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.world import World


@pytest.fixture
def world() -> World:
    return World.manual()


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    return MemoryBucket(world.clock)

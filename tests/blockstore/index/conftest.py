"""A bucket in memory with blocks, and a table in it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.index.log import Log, create
from blockstore.names import meta_key
from blockstore.world import World
from tests.support.index_data import DEFINITION, ulid


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

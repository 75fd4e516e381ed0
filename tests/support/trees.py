"""Tables whose checkpoints are roots, as states and as buckets."""

from __future__ import annotations

import random
from collections.abc import Iterator

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.index.change import MoveToTree
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.entry import Entry
from blockstore.index.fold import fold
from blockstore.index.state import State
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.loading import leaves_of
from blockstore.index.tree.open import base_of
from blockstore.index.tree.write import write_root
from blockstore.names import BOUNDARY, LEAVES, checkpoint_key
from tests.support.index_data import NOW, created, entry_of, follow, random_change, ulid


def empty_bucket() -> MemoryBucket:
    """A bucket with a boundary, which roots are looked at by."""
    bucket = MemoryBucket(ManualClock(NOW))
    bucket.put(BOUNDARY, b"000000000000000000")
    return bucket


def moved() -> State:
    """Version 2 of a table that was moved to the tree in it."""
    return follow(created(), MoveToTree(commit=ulid(1)))


def changes(seed: int, length: int) -> Iterator[Entry]:
    """A random valid history after ``moved()``."""
    draw, state, number = random.Random(seed), moved(), 1_000
    for step in range(length):
        number += 10
        entry = entry_of(
            state,
            random_change(draw, state, number),
            time_ms=NOW + draw.randrange(0, 2_000_000) * step,
        )
        yield entry
        state = fold(state, entry)


def stored(bucket: Bucket, state: State) -> State:
    """The state as its root holds it, which is written."""
    written = write_root(bucket, state, leaves_of(bucket))
    assert written.state is not None, "it is believed"
    return written.state


def read_root(bucket: Bucket, version: int) -> Root:
    """The root of a version."""
    data = bucket.get(checkpoint_key(version)).data
    root = base_of(decode_checkpoint(data, version=version))
    assert root is not None
    return root


def leaf_keys(bucket: Bucket) -> set[str]:
    """The keys of all leaves in a bucket."""
    return {info.key for info in bucket.list(LEAVES)}

"""A mark that a listing shows, and that is gone when it is read: withdrawn, or the last trace of a
block just removed."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.marks import MarkReason
from blockstore.lifecycle.catalog import Catalog
from blockstore.names import deletion_mark_key
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, block
from tests.blockstore.lifecycle.test_catalog import mark, store


@pytest.fixture
def world() -> World:
    return World.manual(seed=5, now_ms=START_MS)


@pytest.mark.parametrize("known", [True, False])
def test_a_block_removed_between_the_listing_and_its_mark_is_not_shown_by_what_was_read_before(
    world: World, bucket: MemoryBucket, known: bool
) -> None:
    meta = store(bucket, block(1))
    catalog = Catalog(bucket, world)
    if known:
        assert catalog.sync().found[meta.ulid].meta is not None
    mark(bucket, meta.ulid, MarkReason.MANUAL)
    listing = catalog.listing()
    bucket.delete([info.key for info in bucket.list(f"{meta.ulid}/")])
    assert catalog.look(listing).found[meta.ulid].meta is None


@pytest.mark.parametrize("known", [True, False])
def test_a_block_whose_mark_was_withdrawn_is_shown(
    world: World, bucket: MemoryBucket, known: bool
) -> None:
    meta = store(bucket, block(1))
    catalog = Catalog(bucket, world)
    if known:
        catalog.sync()
    mark(bucket, meta.ulid, MarkReason.MANUAL)
    listing = catalog.listing()
    bucket.delete([deletion_mark_key(meta.ulid)])
    found = catalog.look(listing).found[meta.ulid]
    assert (found.meta, found.mark) == (meta, None)

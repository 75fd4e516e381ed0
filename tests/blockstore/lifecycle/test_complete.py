"""Whether blocks are complete and unmarked."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Unavailable
from blockstore.lifecycle.complete import CheckComplete, missing
from blockstore.names import deletion_mark_key, meta_key, no_compact_mark_key, object_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import block

BLOCKS = [block(number) for number in (10, 11, 12)]


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    for meta in BLOCKS:
        bucket.put(meta_key(meta.ulid), b"{}")
        for file in meta.files:
            bucket.put(object_key(meta.ulid, file.path), bytes(file.bytes))
    return bucket


def test_whole_blocks_are_not_missing_and_cost_a_listing_each(
    bucket: MemoryBucket, world: World
) -> None:
    bucket.put(no_compact_mark_key(BLOCKS[0].ulid), b"{}")
    bucket.put(object_key(BLOCKS[0].ulid, "debris"), b"")
    metered = Metered(bucket)
    assert missing(metered, world, BLOCKS) == {}
    assert CheckComplete(bucket, world)(BLOCKS) is None
    assert metered.counts == {"list": 3}


def test_what_is_wrong_with_a_block_is_said(bucket: MemoryBucket, world: World) -> None:
    marked, headless, short = (meta.ulid for meta in BLOCKS)
    bucket.put(deletion_mark_key(marked), b"{}")
    bucket.delete([meta_key(headless)])
    bucket.put(object_key(short, "chunks/000001.parquet"), b"short")
    gone = block(13)
    assert missing(bucket, world, [*BLOCKS, gone]) == {
        marked: "it is marked for deletion",
        headless: "meta.json is missing",
        short: "chunks/000001.parquet has 5 bytes, expected 1,000",
        gone.ulid: "meta.json is missing",
    }
    assert CheckComplete(bucket, world)(BLOCKS) == f"block {marked}: it is marked for deletion"
    bucket.delete([object_key(short, "chunks/000001.parquet")])
    assert missing(bucket, world, BLOCKS[2:]) == {short: "chunks/000001.parquet is missing"}


def test_a_listing_that_fails_decides_nothing(bucket: MemoryBucket, world: World) -> None:
    faulty = FaultyBucket(bucket)

    def fail(call: Call) -> None:
        if call.number == 2:
            raise Unavailable("no answer")

    faulty.before.append(fail)
    with pytest.raises(Unavailable):
        missing(faulty, world, BLOCKS)

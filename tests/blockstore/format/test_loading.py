"""Loading a meta.json: one GET, two where the sources are too many for it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.loading import load_meta
from blockstore.format.meta import encode
from blockstore.format.sources import write_sources
from tests.blockstore.format.blocks import A, B, block, chunk, merged


def test_a_block_is_loaded_with_one_get() -> None:
    bucket = Metered(MemoryBucket(ManualClock()))
    bucket.put(f"{A}/meta.json", encode(block()))
    assert load_meta(bucket, A) == block()
    assert bucket.counts["get"] == 1


def test_many_sources_are_loaded_from_their_file() -> None:
    bucket = MemoryBucket(ManualClock())
    sources = tuple(f"01JD{number:022d}" for number in range(1001))
    meta = merged(sources=sources)
    file = write_sources(bucket, meta.ulid, sources)
    meta = merged(sources=sources, files=(chunk(), file))
    bucket.put(f"{meta.ulid}/meta.json", encode(meta))
    assert load_meta(bucket, meta.ulid) == meta


def test_a_missing_and_a_misplaced_meta_are_told_apart() -> None:
    bucket = MemoryBucket(ManualClock())
    with pytest.raises(ObjectMissing):
        load_meta(bucket, A)
    bucket.put(f"{B}/meta.json", encode(block()))
    with pytest.raises(Corrupt, match="the name of its directory"):
        load_meta(bucket, B)

"""The bucket in memory; its promises are in the contract suite."""

from __future__ import annotations

from blockstore.bucket.memory import MemoryBucket, memory_bucket
from blockstore.clock import ManualClock


def test_a_name_is_the_same_bucket_all_over_the_process() -> None:
    one, same, other = (
        memory_bucket(name, ManualClock()) for name in ("same-name", "same-name", "another")
    )
    one.put("a", b"x")
    assert same.get("a").data == b"x"
    assert list(other.list()) == []


def test_buckets_without_a_name_share_nothing() -> None:
    MemoryBucket(ManualClock()).put("a", b"x")
    assert list(MemoryBucket(ManualClock()).list()) == []


def test_objects_carry_the_time_of_the_clock_that_was_handed_in() -> None:
    clock = ManualClock(1_000_000)
    bucket = MemoryBucket(clock)
    bucket.put("old", b"")
    clock.advance(3600)
    bucket.put("new", b"")
    assert {info.key: bucket.now_ms() - info.modified_ms for info in bucket.list()} == {
        "new": 0,
        "old": 3_600_000,
    }


def test_a_listing_is_in_the_order_of_utf8_bytes() -> None:
    bucket = MemoryBucket(ManualClock())
    keys = ["é", "a/b", "a-b", "z", "\U0001f9f1", "\uffff", "a.b", "B"]
    for key in keys:
        bucket.put(key, b"")
    assert [info.key for info in bucket.list()] == sorted(keys, key=str.encode)


def test_a_listing_under_way_does_not_see_later_writes() -> None:
    bucket = MemoryBucket(ManualClock())
    bucket.put("a", b"")
    bucket.put("b", b"")
    listing = bucket.list()
    bucket.delete(["b"])
    bucket.put("c", b"")
    assert [info.key for info in listing] == ["a", "b"]

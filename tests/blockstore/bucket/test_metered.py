"""Counting requests."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import AlreadyExists, ObjectMissing


def test_calls_and_bytes_are_counted_by_method() -> None:
    bucket = Metered(MemoryBucket(ManualClock()))
    etag = bucket.put_if_absent("a", b"12345")
    bucket.put_if_match("a", b"123", etag)
    bucket.put("b", b"1234567")
    bucket.get("a")
    bucket.get("b")
    bucket.get_range("b", 1, 2)
    bucket.head("a")
    list(bucket.list())
    list(bucket.prefixes())
    bucket.now_ms()
    writer = bucket.writer("c")
    writer.write(b"12")
    writer.write(b"34")
    writer.close()
    bucket.delete(["a", "b", "c"])
    assert bucket.counts == {
        "put_if_absent": 1, "put_if_match": 1, "put": 1, "get": 2, "get_range": 1, "head": 1,
        "list": 1, "prefixes": 1, "now_ms": 1, "writer": 1, "delete": 3,
    }  # fmt: skip
    assert {method: size for method, size in bucket.bytes.items() if size} == {
        "put_if_absent": 5, "put_if_match": 3, "put": 7, "get": 10, "get_range": 2, "writer": 4,
    }  # fmt: skip
    bucket.reset()
    assert not bucket.counts
    assert not bucket.bytes


def test_failed_calls_count() -> None:
    bucket = Metered(MemoryBucket(ManualClock()))
    bucket.put("a", b"")
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("a", b"")
    with pytest.raises(ObjectMissing):
        bucket.get("b")
    assert bucket.counts == {"put": 1, "put_if_absent": 1, "get": 1}

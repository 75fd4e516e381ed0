"""Sinks: the same bytes and hash whether put at once or streamed; nothing visible before the
end."""

from __future__ import annotations

import hashlib

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.format.sink import MemorySink, StreamSink

KINDS = pytest.mark.parametrize("kind", [MemorySink, StreamSink])


@KINDS
def test_bytes_and_hash_are_those_of_the_object(kind: type[MemorySink] | type[StreamSink]) -> None:
    bucket = MemoryBucket(ManualClock())
    sink = kind(bucket, "a/b")
    for piece in (b"one", b"", b"two" * 3_000_000):
        sink.file.write(piece)
    assert sink.size() == 9_000_003
    hashes = sink.seal()
    assert list(bucket.list()) == []
    sink.send()
    data = bucket.get("a/b").data
    assert data == b"one" + b"two" * 3_000_000
    assert (hashes.bytes, hashes.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    hashes.segments("a/b").check(0, data)


@KINDS
def test_an_aborted_chunk_is_never_seen(kind: type[MemorySink] | type[StreamSink]) -> None:
    bucket = MemoryBucket(ManualClock())
    sink = kind(bucket, "a/b")
    sink.file.write(b"x" * 10_000_000)
    sink.abort()
    assert list(bucket.list()) == []

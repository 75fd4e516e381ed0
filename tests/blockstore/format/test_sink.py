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
    assert list(bucket.list()) == []
    answer = sink.close()
    data = bucket.get("a/b").data
    assert (
        answer
        == (9_000_003, hashlib.sha256(data).hexdigest())
        == (len(data), hashlib.sha256(b"one" + b"two" * 3_000_000).hexdigest())
    )


@KINDS
def test_an_aborted_chunk_is_never_seen(kind: type[MemorySink] | type[StreamSink]) -> None:
    bucket = MemoryBucket(ManualClock())
    sink = kind(bucket, "a/b")
    sink.file.write(b"x" * 10_000_000)
    sink.abort()
    assert list(bucket.list()) == []

"""The watched bucket: progress of a merge, and its end."""

from __future__ import annotations

import threading

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.compactor.run.monitor import Abandoned, Watched
from blockstore.ids import ulid_at
from blockstore.names import chunk_path, entry_key, meta_key, object_key

ULID = ulid_at(1_700_000_000_000)
CHUNK = object_key(ULID, chunk_path(1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def abandon() -> threading.Event:
    return threading.Event()


@pytest.fixture
def watched(clock: ManualClock, abandon: threading.Event) -> Watched:
    return Watched(MemoryBucket(clock), clock, abandon)


def test_bytes_of_chunks_count_as_progress_and_others_do_not(watched: Watched) -> None:
    writer = watched.writer(CHUNK)
    writer.write(b"12345")
    writer.write(b"678")
    writer.close()
    watched.put(object_key(ULID, chunk_path(2)), b"90")
    watched.put(meta_key(ULID), b"{}")
    assert watched.share(20) == 0.5
    watched.restart()
    assert watched.share(20) == 0.0


def test_a_merge_that_moves_nothing_is_idle(watched: Watched, clock: ManualClock) -> None:
    watched.restart()
    clock.advance(30)
    watched.put(meta_key(ULID), b"{}")
    assert watched.idle_s() == 30
    watched.put(CHUNK, b"x")
    clock.advance(5)
    assert watched.idle_s() == 5


def test_once_abandoned_no_chunk_is_read_or_written_and_all_else_goes_on(
    watched: Watched, abandon: threading.Event
) -> None:
    watched.put(CHUNK, b"x")
    writer = watched.writer(CHUNK)
    abandon.set()
    for call in (
        lambda: watched.get(CHUNK),
        lambda: watched.get_range(CHUNK, 0, 1),
        lambda: watched.path_of(CHUNK),
        lambda: watched.put(CHUNK, b"y"),
        lambda: watched.writer(CHUNK),
        lambda: writer.write(b"z"),
    ):
        with pytest.raises(Abandoned):
            call()
    writer.abort()
    watched.put_if_absent(entry_key(1), b"{}")
    watched.put(meta_key(ULID), b"{}")
    assert watched.get(meta_key(ULID)).data == b"{}"
    assert watched.inner.get(CHUNK).data == b"x"

"""The monitored bucket: progress of a merge, and its end."""

from __future__ import annotations

import threading

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.compactor.run.monitor import Abandoned, MonitoredBucket
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
def monitored(clock: ManualClock, abandon: threading.Event) -> MonitoredBucket:
    return MonitoredBucket(MemoryBucket(clock), clock, abandon)


def test_bytes_of_chunks_count_as_progress_and_others_do_not(monitored: MonitoredBucket) -> None:
    writer = monitored.writer(CHUNK)
    writer.write(b"12345")
    writer.write(b"678")
    writer.close()
    monitored.put(object_key(ULID, chunk_path(2)), b"90")
    monitored.put(meta_key(ULID), b"{}")
    assert monitored.share(20) == 0.5
    monitored.restart()
    assert monitored.share(20) == 0.0


def test_a_merge_that_moves_nothing_is_idle(monitored: MonitoredBucket, clock: ManualClock) -> None:
    monitored.restart()
    clock.advance(30)
    monitored.put(meta_key(ULID), b"{}")
    assert monitored.idle_s() == 30
    monitored.put(CHUNK, b"x")
    clock.advance(5)
    assert monitored.idle_s() == 5


def test_once_abandoned_no_chunk_is_read_or_written_and_everything_else_continues(
    monitored: MonitoredBucket, abandon: threading.Event
) -> None:
    monitored.put(CHUNK, b"x")
    writer = monitored.writer(CHUNK)
    abandon.set()
    for call in (
        lambda: monitored.get(CHUNK),
        lambda: monitored.get_range(CHUNK, 0, 1),
        lambda: monitored.path_of(CHUNK),
        lambda: monitored.put(CHUNK, b"y"),
        lambda: monitored.writer(CHUNK),
        lambda: writer.write(b"z"),
    ):
        with pytest.raises(Abandoned):
            call()
    writer.abort()
    monitored.put_if_absent(entry_key(1), b"{}")
    monitored.put(meta_key(ULID), b"{}")
    assert monitored.get(meta_key(ULID)).data == b"{}"
    assert monitored.inner.get(CHUNK).data == b"x"

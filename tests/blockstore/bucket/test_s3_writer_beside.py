"""Parts that are sent beside the caller: how deep an upload is, what it holds, and that a failure
of any request loses and doubles nothing."""

from __future__ import annotations

import os
import signal
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from blockstore.bucket import s3_writer
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.s3_writer import IN_FLIGHT
from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import ManualClock
from blockstore.errors import Unanswered
from blockstore.world import Threads, World
from tests.support.depth import DepthBucket, Time
from tests.support.multipart import Multipart

PART = 1000
DATA = bytes(range(256)) * 39  # nine parts and the rest
PARTS = 10
REQUESTS = PARTS + 2


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_writer, "PART_BYTES", PART)
    monkeypatch.setattr(s3_writer, "SMALL_BYTES", 2 * PART)


def memory() -> MemoryBucket:
    return MemoryBucket(ManualClock())


def fill(writer: Any, data: bytes = DATA, step: int = 300) -> None:
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])


def test_an_upload_is_as_deep_as_its_parts_take_turns() -> None:
    clock = Time()
    bucket = DepthBucket(MemoryBucket(clock), clock)
    writer = Multipart(bucket, clock).writer("a")
    with bucket.watch() as seen:
        fill(writer)
        writer.close()
    turns = -(-PARTS // IN_FLIGHT)
    seen.expect(turns + 2, f"the beginning, {turns} times {IN_FLIGHT} parts, the completion")
    assert bucket.inner.get("a").data == DATA


def test_no_more_parts_are_on_their_way_than_may_be_held() -> None:
    clock = Time()
    store = Multipart(DepthBucket(MemoryBucket(clock), clock), clock)
    writer = store.writer("a")
    fill(writer, step=len(DATA))
    writer.close()
    assert store.most_parts == IN_FLIGHT


class _Swallowing(Multipart):
    """Keeps no part."""

    def send(self, operation: str, key: str | None = None, **parameters: Any) -> Any:
        return {"UploadId": "upload", "ETag": "00"}


class _Late:
    """Sends a part only when the writer waits for it: as many as possible are on their way."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()

    def run(self, call: Callable[[], None]) -> bool:
        self._calls.append(call)
        return True

    def wait(self, event: threading.Event) -> None:
        while not event.is_set():
            self._calls.popleft()()


def test_no_more_bytes_are_held_than_those_of_two_small_objects_and_a_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = 1 << 18
    monkeypatch.setattr(s3_writer, "PART_BYTES", part)
    monkeypatch.setattr(s3_writer, "SMALL_BYTES", 2 * part)
    piece = bytes(part // 2)
    writer = _Swallowing(memory(), _Late()).writer("a")
    writer.write(piece)
    tracemalloc.start()
    try:
        for _ in range(60):
            writer.write(piece)
        writer.close()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 2 * part < most < 4 * part + len(piece) + (1 << 16)


def test_without_threads_parts_are_sent_in_turn_and_in_order() -> None:
    store = Multipart(memory())
    writer = store.writer("a")
    fill(writer)
    writer.close()
    parts = [f"PART {number + 1}" for number in range(PARTS)]
    assert store.sent == ["create", *parts, "complete"]


@pytest.mark.parametrize("kind", ["refused", "lost"])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("number", range(1, REQUESTS + 1))
def test_whichever_request_fails_the_object_is_complete(
    number: int, beside: bool, kind: Any
) -> None:
    clock = Time()
    faults = {kind: {number, number + 1, number + 4}}
    store = Multipart(DepthBucket(MemoryBucket(clock), clock), clock if beside else None, **faults)
    writer = Retrying(store, clock.world()).writer("a")
    fill(writer)
    assert [*store.list()] == [], "nothing is visible early"
    writer.close()
    assert store.get("a").data == DATA
    unknown = store.sent.count("create") - 1 if kind == "lost" else 0
    assert len(store.open) == unknown, "left is only one whose beginning got no response"
    assert store.most_parts <= IN_FLIGHT


def test_a_failure_beside_the_caller_is_raised_once_and_then_sent_again() -> None:
    clock = Time()
    store = Multipart(DepthBucket(MemoryBucket(clock), clock), clock, refused={2, 4})
    writer = store.writer("a")
    writer.write(DATA[: 3 * PART])
    assert store.sent.count("PART 1") == 1
    clock.sleep(1)
    with pytest.raises(Unanswered):
        writer.write(b"")
    # Both that failed, without another failure.
    writer.write(DATA[3 * PART :])
    assert [store.sent.count(f"PART {number}") for number in (1, 2, 3)] == [2, 1, 2]
    writer.close()
    assert store.get("a").data == DATA


def test_a_failure_of_the_last_parts_is_raised_by_close() -> None:
    clock = Time()
    store = Multipart(DepthBucket(MemoryBucket(clock), clock), clock, refused={3, 4})
    writer = store.writer("a")
    writer.write(DATA[: 3 * PART])
    with pytest.raises(Unanswered):
        writer.close()
    assert "complete" not in store.sent
    writer.close()
    assert store.get("a").data == DATA[: 3 * PART]


def test_a_store_that_fails_for_ever_is_given_up() -> None:
    clock = Time()
    store = Multipart(DepthBucket(MemoryBucket(clock), clock), clock, refused=range(3, 1000))
    writer = Retrying(store, clock.world()).writer("a")
    with pytest.raises(Unanswered):
        fill(writer)
    assert len(store.sent) < 20
    writer.abort()


def test_an_abort_frees_the_parts_that_were_on_their_way() -> None:
    clock = Time()
    bucket = DepthBucket(MemoryBucket(clock), clock)
    store = Multipart(bucket, clock)
    writer = store.writer("a")
    with bucket.watch() as seen:
        writer.write(DATA[: 3 * PART])
        writer.abort()
        writer.abort()
    seen.expect(3, "the beginning, three parts, the abort once they have ended", requests=5)
    assert (store.open, [*store.list()]) == ({}, [])


def test_many_writers_in_a_small_pool_with_few_spare_threads_all_end() -> None:
    pool, store = Threads(2), Multipart(memory(), Spare(1))

    def write(key: str) -> None:
        writer = store.writer(key)
        fill(writer)
        writer.close()

    keys = [f"{number:02}" for number in range(40)]
    pool.map(write, keys)
    assert all(store.get(key).data == DATA for key in keys)
    assert store.open == {}


class _Held(Multipart):
    """In the process that made it, parts wait."""

    def __init__(self) -> None:
        super().__init__(memory(), Spare(4))
        self.go = threading.Event()
        self._pid = os.getpid()

    def timed(self, what: str, key: str, request: Any) -> Any:
        if what.startswith("PART") and os.getpid() == self._pid:
            self.go.wait()
        return request()


def test_a_forked_child_sends_what_its_parents_threads_had_not_sent() -> None:
    store = _Held()
    writer = store.writer("a")
    writer.write(DATA[: 2 * PART])
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            writer.write(DATA[2 * PART :])
            writer.close()
            os._exit(0 if store.get("a").data == DATA else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.go.set()
    writer.abort()


def test_a_real_world_sends_beside_the_caller() -> None:
    """The bucket of an s3 URL hands its spare threads to its writers."""
    from blockstore.bucket.url import _s3

    for client in ("", "boto3"):
        writer = _s3("bucket", client, World.real()).writer("a")
        assert writer._beside is not None  # type: ignore[attr-defined]
        writer = _s3("bucket", client, World.manual()).writer("a")
        assert writer._beside is None  # type: ignore[attr-defined]

"""The clock and the bucket by which depths are counted."""

from __future__ import annotations

import threading

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import ObjectMissing
from tests.support.depth import LATENCY_S, DepthBucket, Time


def store(workers: int = 16) -> tuple[Time, DepthBucket]:
    time = Time(workers=workers)
    return time, DepthBucket(MemoryBucket(time), time)


def test_requests_in_turn_are_a_chain_and_those_side_by_side_are_one_link() -> None:
    time, bucket = store()
    with bucket.watch() as seen:
        bucket.put("a", b"12")
        time.map(lambda key: bucket.put(key, b"3"), ["b", "c", "d"])
        assert bucket.get("a").data == b"12"
    seen.expect(3, "a, the others, a again", requests=5)
    assert seen.waves() == [["PUT a"], ["PUT b", "PUT c", "PUT d"], ["GET a"]]
    assert seen.bytes == 7
    assert time.monotonic_s() == pytest.approx(3 * LATENCY_S)


def test_more_calls_than_workers_take_turns() -> None:
    time, bucket = store(workers=2)
    with bucket.watch() as seen:
        time.map(lambda key: bucket.put(key, b""), "abcde")
    assert len(seen.requests) == 5
    assert [len(wave) for wave in seen.waves()] == [3, 2], "the caller works too"


def test_a_call_in_the_pool_that_maps_again_does_so_in_turn() -> None:
    time, bucket = store()

    def two(key: str) -> None:
        time.map(lambda part: bucket.put(key + part, b""), "12")

    with bucket.watch() as seen:
        time.map(two, "abc")
    assert seen.waves() == [
        ["PUT a1", "PUT a2", "PUT b1", "PUT c1"],
        ["PUT b2", "PUT c2"],
    ], "a is the caller's own"


def test_threads_of_the_test_may_map_and_wait_for_one_another() -> None:
    time, bucket = store()
    event = threading.Event()

    def first() -> str:
        time.map(lambda key: bucket.put(key, b""), "ab")
        event.set()
        return "first"

    def second() -> str:
        time.wait(event)
        bucket.get("a")
        return "second"

    with bucket.watch() as seen:
        assert time.together([second, first]) == ["second", "first"]
    seen.expect(2, "the PUTs, the GET")


def test_an_error_is_raised_after_all_have_ended() -> None:
    time, bucket = store()
    with bucket.watch() as seen, pytest.raises(ObjectMissing):
        time.map(bucket.get, "ab")
    assert len(seen.requests) == 2


def test_requests_of_unequal_length_overlap_as_they_do() -> None:
    time, bucket = store()
    slow = DepthBucket(bucket.inner, time, latency_s=10 * LATENCY_S)

    def quick() -> None:
        for key in "abc":
            bucket.put(key, b"")

    with bucket.watch() as seen, slow.watch() as others:
        time.together([quick, lambda: slow.put("d", b"")])
    seen.requests += others.requests
    seen.expect(3, "a, b and c, while d is on its way")


def test_a_thread_that_waits_for_a_lock_does_not_stop_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.depth._STUCK_S", 0.05)
    time, bucket = store()
    lock = threading.Lock()

    def alone(key: str) -> None:
        with lock:
            bucket.put(key, b"")

    with bucket.watch() as seen:
        time.map(alone, "abc")
    seen.expect(3, "one after the other")


def test_a_failure_shows_what_was_requested_when() -> None:
    _, bucket = store()
    with bucket.watch() as seen:
        bucket.put("a", b"")
        bucket.get("a")
    with pytest.raises(AssertionError, match="2 requests in turn, expected 1") as error:
        seen.expect(1, "one")
    assert "the chain: PUT a -> GET a" in str(error.value)

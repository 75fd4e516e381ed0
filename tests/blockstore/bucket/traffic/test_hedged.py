"""A late read is sent again, and the first response wins."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from blockstore.bucket.api import NotModified, Object
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.traffic.hedged import Hedged
from blockstore.bucket.traffic.latency import name_class, size_class
from blockstore.bucket.traffic.spare import Spare
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import SystemClock
from blockstore.errors import ObjectMissing, Unavailable

SPARE = Spare(8)
CLOCK = SystemClock()
OFTEN = 100


class Scripted(Wrapper):
    """A bucket whose reads do what the script says, one act a read, then the usual."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        super().__init__(MemoryBucket(CLOCK))
        self.inner.put("a", b"0123456789")
        self.acts = list(acts)
        self.reads = 0
        self.lock = threading.Lock()

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self.act()
        return self.inner.get(key, if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.act()
        return self.inner.get_range(key, start, length)

    def act(self) -> None:
        with self.lock:
            self.reads += 1
            act = self.acts.pop(0) if self.acts else None
        if act is not None:
            act()


def fails(error: Exception) -> Callable[[], object]:
    def act() -> None:
        raise error

    return act


def hedged(inner: Scripted) -> tuple[Hedged, Traffic]:
    """The bucket, once it is known that reads take a millisecond: late is after ten."""
    traffic = Traffic()
    for _ in range(OFTEN):
        traffic.took(name_class("a"), 0.001)
        traffic.took(size_class(4), 0.001)
    return Hedged(inner, CLOCK, traffic, SPARE), traffic


READS: dict[str, Callable[[Hedged], object]] = {
    "get": lambda bucket: bucket.get("a").data,
    "get_range": lambda bucket: bucket.get_range("a", 0, 10),
}


@pytest.mark.parametrize("method", READS)
def test_a_late_read_is_sent_again_and_the_second_response_returned(method: str) -> None:
    hold = threading.Event()
    inner = Scripted(hold.wait)
    bucket, traffic = hedged(inner)
    assert READS[method](bucket) == b"0123456789"
    hold.set()
    counts = traffic.counts(0)
    assert (inner.reads, counts.hedges, counts.hedges_won) == (2, 1, 1)


def test_the_first_response_wins_where_the_second_is_later() -> None:
    first, second = threading.Event(), threading.Event()
    inner = Scripted(first.wait, lambda: (first.set(), second.wait()))
    bucket, traffic = hedged(inner)
    assert bucket.get("a").data == b"0123456789"
    second.set()
    counts = traffic.counts(0)
    assert (counts.hedges, counts.hedges_won) == (1, 0)


def test_a_quick_read_is_sent_once() -> None:
    inner = Scripted()
    bucket, traffic = hedged(inner)
    for _ in range(20):
        bucket.get("a")
    assert inner.reads == 20 + traffic.counts(0).hedges


def test_without_samples_nothing_is_sent_again_in_the_callers_thread() -> None:
    threads: list[int] = []
    inner = Scripted(lambda: threads.append(threading.get_ident()))
    Hedged(inner, CLOCK, Traffic(), SPARE).get("a")
    assert threads == [threading.get_ident()]


def test_without_a_free_thread_the_caller_sends_it() -> None:
    hold, busy = threading.Event(), Spare(1)
    assert busy.run(hold.wait)  # type: ignore[arg-type]
    inner = Scripted()
    _, traffic = hedged(inner)
    assert Hedged(inner, CLOCK, traffic, busy).get("a").data == b"0123456789"
    hold.set()


def test_an_error_that_a_retry_could_mend_waits_for_the_other_request() -> None:
    hold = threading.Event()

    def fails_late() -> None:
        hold.wait()
        raise Unavailable("first")

    inner = Scripted(fails_late, hold.set)
    bucket, _ = hedged(inner)
    assert bucket.get("a").data == b"0123456789"


def test_two_errors_are_one_error() -> None:
    hold = threading.Event()

    def fails_late() -> None:
        hold.wait()
        raise Unavailable("first")

    def fails_soon() -> None:
        hold.set()
        raise Unavailable("second")

    bucket, _ = hedged(Scripted(fails_late, fails_soon))
    with pytest.raises(Unavailable):
        bucket.get("a")


@pytest.mark.parametrize("error", [ObjectMissing("x"), Unavailable("x"), NotModified("x")])
def test_an_error_of_a_read_that_is_not_late_is_raised_at_once(error: Exception) -> None:
    inner = Scripted(fails(error))
    bucket, _ = hedged(inner)
    with pytest.raises(type(error)):
        bucket.get("a")
    assert inner.reads == 1


def test_a_response_that_nothing_is_there_counts_as_a_duration() -> None:
    traffic = Traffic()
    bucket = Hedged(Scripted(), CLOCK, traffic, SPARE)
    for _ in range(50):
        with pytest.raises(ObjectMissing):
            bucket.get("missing")
    assert traffic.late_s(name_class("missing")) is not None


def test_objects_that_may_be_large_are_not_late() -> None:
    inner = Scripted()
    bucket, traffic = hedged(inner)
    inner.inner.put("b/large.parquet", bytes(2 << 20))
    inner.inner.put("b/small.json", b"{}")
    for _ in range(OFTEN):
        bucket.get("b/large.parquet")
        bucket.get("b/small.json")
    assert traffic.late_s(name_class("b/large.parquet")) is None
    assert traffic.late_s(name_class("b/small.json")) is not None


def test_a_write_is_never_sent_again() -> None:
    class Writes(Scripted):
        def put(self, key: str, data: bytes) -> str:
            self.act()
            CLOCK.sleep(0.05)
            return self.inner.put(key, data)

    inner = Writes()
    bucket, traffic = hedged(inner)
    for _ in range(3):
        bucket.put("b", b"x")
    assert (inner.reads, traffic.counts(0).hedges) == (3, 0)


def test_a_pace_that_is_limited_allows_no_second_request() -> None:
    hold = threading.Event()
    timer = threading.Timer(0.1, hold.set)
    inner = Scripted(hold.wait)
    bucket, traffic = hedged(inner)
    traffic.throttled(CLOCK.monotonic_s())
    timer.start()
    assert bucket.get("a").data == b"0123456789"
    assert inner.reads == 1
    timer.join()

"""All requests of a process wait together when the store limits their rate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.traffic.paced import Paced
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.clock import ManualClock
from blockstore.errors import Throttled, Unavailable
from tests.support.faulty import FaultyBucket

METHODS: dict[str, Callable[[Bucket], object]] = {
    "get": lambda bucket: bucket.get("a"),
    "get_range": lambda bucket: bucket.get_range("a", 0, 1),
    "head": lambda bucket: bucket.head("a"),
    "list": lambda bucket: list(bucket.list()),
    "prefixes": lambda bucket: list(bucket.prefixes()),
    "put": lambda bucket: bucket.put("b", b"x"),
    "put_if_absent": lambda bucket: bucket.put_if_absent("new", b"x"),
    "put_if_match": lambda bucket: bucket.put_if_match("a", b"y", bucket.get("a").etag),
    "delete": lambda bucket: bucket.delete(["a"]),
    "delete_once": lambda bucket: bucket.delete_once("a"),
    "writer": lambda bucket: bucket.writer("c").close(),
}


def paced(
    error: Exception | None = None, traffic: Traffic | None = None
) -> tuple[Paced, ManualClock, Traffic]:
    clock = ManualClock()
    memory = MemoryBucket(clock)
    memory.put("a", b"x")
    faulty = FaultyBucket(memory, refuse={} if error is None else {1: error})
    traffic = traffic or Traffic()
    return Paced(faulty, clock, traffic), clock, traffic


@pytest.mark.parametrize("method", METHODS)
def test_a_store_that_limits_the_rate_is_noted_whatever_was_sent(method: str) -> None:
    bucket, clock, traffic = paced(Throttled("x"))
    with pytest.raises(Throttled):
        METHODS[method](bucket)
    counts = traffic.counts(clock.monotonic_s())
    assert (counts.requests >= 1, counts.throttled) == (True, 1)
    assert counts.rate > 0


@pytest.mark.parametrize("method", METHODS)
def test_then_every_other_request_waits_for_its_turn(method: str) -> None:
    refused, clock, traffic = paced(Throttled("x"))
    with pytest.raises(Throttled):
        refused.get("a")
    other = Paced(refused.inner, clock, traffic)
    before_s = clock.monotonic_s()
    METHODS[method](other)
    assert clock.monotonic_s() > before_s


def test_another_error_changes_no_pace() -> None:
    bucket, clock, traffic = paced(Unavailable("x"))
    with pytest.raises(Unavailable):
        bucket.get("a")
    before_s = clock.monotonic_s()
    bucket.get("a")
    assert clock.monotonic_s() == before_s
    assert traffic.counts(before_s).rate == 0

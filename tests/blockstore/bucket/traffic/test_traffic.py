"""What buckets of one store share."""

from __future__ import annotations

import os

from blockstore.bucket.traffic.traffic import Traffic, TrafficCounts, shared_traffic, total_traffic


def test_one_place_has_one_traffic() -> None:
    assert shared_traffic("s3://a at x") is shared_traffic("s3://a at x")
    assert shared_traffic("s3://a at x") is not shared_traffic("s3://a at y")


def test_everything_is_counted() -> None:
    traffic = Traffic()
    for _ in range(10):
        traffic.turn(0)
    assert traffic.may_retry(0)
    assert traffic.may_hedge(0)
    traffic.hedge_won()
    traffic.throttled(0)
    assert not traffic.may_hedge(0)
    counts = traffic.counts(0)
    assert counts == TrafficCounts(
        requests=10, retries=1, hedges=1, hedges_won=1, throttled=1, rate=counts.rate
    )
    assert counts.rate > 0


def test_a_store_that_is_down_gets_little_more_than_its_usual_load() -> None:
    """A thousand requests fail in ten seconds, and each would be sent six times."""
    traffic = Traffic()
    for number in range(1000):
        traffic.turn(number / 100)
        for _ in range(5):
            if not traffic.may_retry(number / 100):
                break
            traffic.turn(number / 100)
    counts = traffic.counts(10)
    assert counts.requests - 1000 == counts.retries
    assert counts.retries < 260
    assert counts.retries_refused > 700


def test_hedges_are_a_twentieth_of_the_requests() -> None:
    traffic = Traffic()
    hedges = 0
    for _ in range(2000):
        traffic.turn(0)
        hedges += traffic.may_hedge(0)
    assert 90 <= hedges <= 106


def test_the_total_names_the_lowest_limit() -> None:
    before = total_traffic(0)
    one, other = shared_traffic("s3://total-1"), shared_traffic("s3://total-2")
    for traffic in (one, other):
        traffic.turn(0)
    other.throttled(0)
    after = total_traffic(0)
    assert after.requests - before.requests == 2
    assert after.throttled - before.throttled == 1
    assert 0 < after.rate <= other.counts(0).rate


def test_a_forked_child_goes_on() -> None:
    traffic = shared_traffic("s3://forked")
    traffic.turn(0)
    child = os.fork()
    if child == 0:
        traffic.turn(0)
        os._exit(0 if traffic.counts(0).requests == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""A store that says "slow down" slows all requests together, and less and less."""

from __future__ import annotations

import heapq
import itertools

import pytest

from blockstore.bucket.traffic.pace import Pace


def busy(pace: Pace, per_s: float, until_s: float) -> None:
    for number in range(int(per_s * until_s)):
        pace.turn(number / per_s)


def test_without_a_refusal_no_request_waits() -> None:
    pace = Pace()
    busy(pace, 1000, 3)
    assert pace.turn(3) == 0
    assert pace.rate(3) is None


def test_a_refusal_halves_what_was_sent() -> None:
    pace = Pace()
    busy(pace, 1000, 5)
    pace.throttled(5)
    assert pace.rate(5) == pytest.approx(500, rel=0.1)


def test_the_refusals_of_one_burst_halve_it_once() -> None:
    pace = Pace()
    busy(pace, 1000, 5)
    for number in range(64):
        pace.throttled(5 + number / 100)
    assert pace.rate(5.64) == pytest.approx(506, rel=0.1)


def test_refusals_that_go_on_slow_down_to_the_least_and_no_further() -> None:
    pace = Pace()
    busy(pace, 1000, 5)
    for second in range(60):
        pace.throttled(5 + 1.01 * second)
    slowest = pace.rate(5 + 1.01 * 59)
    assert slowest is not None
    assert 5 <= slowest <= 20


def test_the_limit_grows_and_ends() -> None:
    pace = Pace()
    busy(pace, 100, 5)
    pace.throttled(5)
    rates = [pace.rate(5 + second) for second in range(30)]
    limits = [rate for rate in rates if rate is not None]
    assert limits == sorted(limits)
    assert len(limits) > 5
    assert rates[-1] is None


def test_requests_are_spaced_evenly() -> None:
    pace = Pace()
    busy(pace, 100, 5)
    pace.throttled(5)
    rate = pace.rate(5)
    assert rate is not None
    waits = [pace.turn(5) for _ in range(10)]
    assert waits == pytest.approx([(number + 1) / rate for number in range(10)], rel=0.02)


def test_no_request_waits_longer_than_ten_seconds() -> None:
    pace = Pace()
    pace.throttled(5)
    assert max(pace.turn(5) for _ in range(10_000)) == 10


def test_a_store_with_a_limit_is_used_near_it_and_refuses_little() -> None:
    """64 callers by a simulated clock, and a store that takes 200 requests a second."""
    pace, limit, seconds = Pace(), 200, 60
    callers = [(0.0, number) for number in range(64)]
    window_s, in_window, done, refused = 0, 0, 0, 0
    while callers[0][0] < seconds:
        now_s, caller = heapq.heappop(callers)
        sent_s = now_s + pace.turn(now_s)
        if int(sent_s) > window_s:
            window_s, in_window = int(sent_s), 0
        in_window += 1
        if in_window > limit:
            refused += 1
            pace.throttled(sent_s)
        else:
            done += 1
        heapq.heappush(callers, (sent_s + 0.025, caller))
    assert done > 0.6 * limit * seconds
    assert refused < 0.2 * done


def test_requests_that_wait_are_spaced_by_the_limit_of_their_turn_not_of_their_asking() -> None:
    """The limit of five a second grows by ten each second and ends at twenty, which is the rate of
    those that still wait then: a hundred that come at once do not wait for ten seconds."""
    pace = Pace()
    pace.turn(0.0)
    pace.throttled(0.0)
    assert (pace.rate(0.0), pace.rate(1.5)) == (5, None)
    waits = [pace.turn(0.0) for _ in range(100)]
    assert all(after - before > 0.99 / 20 for before, after in itertools.pairwise(waits))
    assert 7 <= sum(wait < 1.5 for wait in waits) <= 19
    assert max(waits) < 1.5 + 100 / 20

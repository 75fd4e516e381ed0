from __future__ import annotations

import pytest

from blockstore.clock import ManualClock
from blockstore.errors import Invalid
from blockstore.lifecycle.rate import Rate


def test_a_seconds_worth_is_free_and_then_time_pays() -> None:
    clock = ManualClock()
    rate = Rate(clock, 10)
    start = clock.monotonic_s()
    for _ in range(10):
        rate.take()
    assert clock.monotonic_s() == start
    for _ in range(25):
        rate.take()
    assert clock.monotonic_s() - start == pytest.approx(2.5)


def test_what_was_saved_up_is_a_second_and_no_more() -> None:
    clock = ManualClock()
    rate = Rate(clock, 10)
    clock.advance(3_600)
    start = clock.monotonic_s()
    rate.take(30)
    assert clock.monotonic_s() - start == pytest.approx(2.0)


def test_less_than_one_a_second_still_goes_on() -> None:
    clock = ManualClock()
    rate = Rate(clock, 0.5)
    start = clock.monotonic_s()
    for _ in range(3):
        rate.take()
    assert clock.monotonic_s() - start == pytest.approx(4.0)


@pytest.mark.parametrize("per_s", [0, -1, float("nan")])
def test_a_rate_is_more_than_nothing(per_s: float) -> None:
    with pytest.raises(Invalid, match="greater than 0"):
        Rate(ManualClock(), per_s)

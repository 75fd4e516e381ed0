"""What was read is too old once either clock says so."""

from __future__ import annotations

import pytest

from blockstore.freshness import Freshness
from tests.support.two_clocks import TwoClocks


def test_nothing_may_be_acted_on_before_it_is_said_for_how_long() -> None:
    assert Freshness(TwoClocks()).is_over


@pytest.mark.parametrize(
    ("steady_s", "wall_ms", "over"),
    [
        (59.9, 59_900, False),
        (60.0, 60_000, True),
        (0.0, 60_000, True),
        (60.0, -3_600_000, True),
        (59.0, -3_600_000, False),
    ],
)
def test_the_clock_that_says_more_is_believed(steady_s: float, wall_ms: int, over: bool) -> None:
    clock = TwoClocks()
    fresh = Freshness(clock, 60.0)
    clock.steady_s += steady_s
    clock.wall_ms += wall_ms
    assert fresh.is_over is over
    assert fresh.passed_s == pytest.approx(steady_s)

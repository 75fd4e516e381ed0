"""The pause between attempts: measured by what attempts take, whatever hangs in between."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import Indeterminate, Unavailable
from blockstore.index.log import Log
from blockstore.index.storetime import Pace
from blockstore.world import World
from tests.support.index_data import append

HOUR_S = 3600.0


@pytest.fixture
def clock(world: World) -> ManualClock:
    assert isinstance(world.clock, ManualClock)
    return world.clock


def longest_pause_s(pace: Pace, clock: ManualClock) -> float:
    """The longest of many pauses of one that lost a race."""
    pace.lost()
    pauses = []
    for _ in range(200):
        began = clock.monotonic_s()
        pace.give_way()
        pauses.append(clock.monotonic_s() - began)
    return max(pauses)


def attempt(pace: Pace, clock: ManualClock, seconds: float) -> None:
    pace.begin()
    clock.advance(seconds)
    pace.answered()


@pytest.mark.parametrize("hung", [0, 1, 5])
def test_one_attempt_that_hung_counts_little(world: World, clock: ManualClock, hung: int) -> None:
    pace = Pace(world)
    for number in range(8):
        attempt(pace, clock, 50.0 if number == hung else 0.1)
    assert 0.05 < longest_pause_s(pace, clock) < 0.5


def test_a_store_that_has_become_slow_is_given_longer(world: World, clock: ManualClock) -> None:
    pace = Pace(world)
    for number in range(24):
        attempt(pace, clock, 0.1 if number < 12 else 2.0)
    assert longest_pause_s(pace, clock) > 1.5


def test_an_hour_between_a_lost_answer_and_its_settling_is_no_attempt(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    class Hangs(Wrapper):
        hangs = True

        def put_if_absent(self, key: str, data: bytes) -> str:
            if self.hangs:
                self.hangs = False
                clock.advance(70)  # the client's own timeout, above the patience of a commit
                raise Unavailable("timed out")
            return self.inner.put_if_absent(key, data)

    slow = Log(Hangs(bucket), world)
    slow.poll()
    with pytest.raises(Indeterminate):
        slow.commit(append(1))
    clock.advance(HOUR_S)
    slow.commit(append(2))
    log.commit(append(3))
    began = clock.monotonic_s()
    slow.commit(append(4))
    assert clock.monotonic_s() - began < 5

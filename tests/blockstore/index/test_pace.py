"""The pause between attempts: measured by what attempts take, even if one hangs in between."""

from __future__ import annotations

import pytest

from blockstore.bucket.api import Object
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import AlreadyExists, Indeterminate, Unavailable
from blockstore.index.backoff import Pace
from blockstore.index.change import Append
from blockstore.index.log import PATIENCE_S, Log
from blockstore.names import BOUNDARY
from blockstore.world import World
from tests.support.index_data import append, block, ulid

HOUR_S = 3600.0


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


@pytest.mark.parametrize(("entries", "left"), [(0, 8), (1, 8), (10, 16)])
def test_rivals_that_left_are_forgotten_by_the_room_they_leave(
    world: World, clock: ManualClock, entries: int, left: float
) -> None:
    """Ten entries of 0.1 s would have fitted into the second that it waited."""
    pace = Pace(world)
    attempt(pace, clock, 0.1)
    for _ in range(16):
        pace.lost()
    pace.give_way()
    clock.advance(1.0)
    pace.looked(entries)
    assert pace.rivals == left


def test_pauses_too_short_to_see_rivals_forget_none(world: World, clock: ManualClock) -> None:
    """Several in a row are judged together; a loss between shows that others are there."""
    pace = Pace(world)
    attempt(pace, clock, 0.1)
    for _ in range(16):
        pace.lost()

    def look_after(pauses: int) -> None:
        for _ in range(pauses):
            pace.give_way(left_s=0.0)
            clock.advance(0.25)
            pace.looked(0)

    look_after(3)
    assert pace.rivals == 16
    look_after(1)
    assert pace.rivals == 8
    look_after(3)
    pace.lost()
    look_after(3)
    assert pace.rivals == 9


def test_a_pause_takes_a_quarter_at_most_of_the_time_that_is_left(
    world: World, clock: ManualClock
) -> None:
    pace = Pace(world)
    attempt(pace, clock, 2.5)
    for _ in range(32):
        pace.lost()
    for _ in range(200):
        began = clock.monotonic_s()
        pace.give_way(left_s=60.0)
        assert clock.monotonic_s() - began <= 15.0
    began = clock.monotonic_s()
    pace.give_way(left_s=-1.0)
    assert clock.monotonic_s() == began


def test_who_was_far_behind_looks_again_before_it_creates(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Others continue while it reads what they have written: a PUT by what it knew then would
    lose."""

    class Overtaken(Wrapper):
        """While the boundary is read, which is after the look, another entry comes; six before the
        first look."""

        behind = 0
        lost = 0

        def get(self, key: str, *, if_none_match: str | None = None) -> Object:
            if self.behind and key == BOUNDARY:
                self.behind -= 1
                log.commit(append(100 + self.behind))
            return self.inner.get(key, if_none_match=if_none_match)

        def put_if_absent(self, key: str, data: bytes) -> str:
            try:
                return self.inner.put_if_absent(key, data)
            except AlreadyExists:
                self.lost += 1
                raise

    store = Overtaken(bucket)
    mine = Log(store, world)
    mine.poll()
    log.commit(append(0))
    log.commit(append(1))
    mine.commit(append(2))
    assert store.lost == 2, "it knows of rivals now"
    log.poll()
    for number in range(3, 9):
        log.commit(append(number))
    store.behind = 1
    mine.commit(append(9))
    assert (store.behind, store.lost) == (0, 2)


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


@pytest.mark.parametrize("races_for", [1.0, 10.0])
def test_who_only_loses_gives_up_after_its_patience_and_nothing_of_it_is_there(
    races_for: float, bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    """A rival takes each entry, and each takes two seconds; a store that responds is no silence."""

    class Outraced(Wrapper):
        lost = 0

        def put_if_absent(self, key: str, data: bytes) -> str:
            if key.startswith("index/"):
                clock.advance(2)
                self.lost += 1
                log.commit(append(100 + self.lost))
            return self.inner.put_if_absent(key, data)

    class Patient(Append):
        pass

    Patient.races_for = races_for
    store = Outraced(bucket)
    mine = Log(store, world)
    mine.poll()
    began = clock.monotonic_s()
    patience = PATIENCE_S * races_for
    with pytest.raises(Unavailable, match=f"lost the race for .* within {patience:g} s; nothing"):
        mine.commit(Patient(commit=world.ids.ulid(), blocks=(block(1),)))
    assert patience <= clock.monotonic_s() - began < patience + 60
    assert log.poll().blocks.ulids() == [ulid(101 + n) for n in range(store.lost)]

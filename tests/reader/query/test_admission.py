"""Turns: a few at once, a bounded queue, and a clear no."""

from __future__ import annotations

import threading
import time

import pytest

from blockstore.clock import SystemClock
from blockstore.errors import Invalid
from blockstore.reader.errors import Busy
from blockstore.reader.query.admission import Admission, Budget, Capacity, Turn
from blockstore.reader.query.deadlines import Deadlines


def admission(**capacity: object) -> Admission:
    return Admission(
        Capacity(**{"queries": 1, "waiting": 1, "wait_s": 60.0, **capacity}), SystemClock()
    )  # type: ignore[arg-type]


def waits(turns: Admission, number: int) -> None:
    clock = SystemClock()
    until = clock.monotonic_s() + 60
    while turns.waiting < number and clock.monotonic_s() < until:
        clock.sleep(0.005)
    assert turns.waiting == number


def test_who_finds_queue_and_turns_full_is_refused_at_once() -> None:
    turns = admission()
    first = turns.turn()
    taken: list[Turn] = []
    waiting = threading.Thread(target=lambda: taken.append(turns.turn()))
    waiting.start()
    waits(turns, 1)
    with pytest.raises(Busy, match="1 queries run and 1 wait") as raised:
        turns.turn()
    assert raised.value.retry_after_s > 0
    assert turns.refused == 1
    first.give_back()
    waiting.join(60)
    assert (turns.running, turns.waiting, len(taken)) == (1, 0, 1)
    taken[0].give_back()
    taken[0].give_back()
    assert turns.running == 0
    turns.turn().give_back()


def test_who_waits_too_long_goes_and_leaves_no_trace() -> None:
    turns = admission(wait_s=0.01)
    first = turns.turn()
    with pytest.raises(Busy, match="no turn came free within"):
        turns.turn()
    with pytest.raises(Busy, match=r"within 0\.001 s"):
        turns.turn(0.001)
    first.give_back()
    assert (turns.running, turns.waiting) == (0, 0)
    turns.turn().give_back()


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns = admission(waiting=10)
    first = turns.turn()
    order: list[int] = []

    def ask(number: int) -> None:
        turn = turns.turn()
        order.append(number)
        turn.give_back()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        waits(turns, number + 1)
    first.give_back()
    for thread in threads:
        thread.join(60)
    assert order == list(range(5))


def test_deadlines_come_once_in_order_and_not_if_they_are_forgotten() -> None:
    class Held(SystemClock):
        now_s = 0.0

        def monotonic_s(self) -> float:
            return self.now_s

    # However slow the machine is: no time passes between these.
    clock = Held()
    deadlines = Deadlines(clock)
    came: list[str] = []
    done = threading.Event()
    deadlines.watch(0.05, lambda: came.append("b"))
    deadlines.watch(0.01, lambda: came.append("a"))
    deadlines.watch(0.02, lambda: came.append("never"))()
    deadlines.watch(0.1, done.set)
    time.sleep(0.03)
    assert not came
    clock.now_s = 1.0
    assert done.wait(60)
    assert came == ["a", "b"]
    deadlines.close()


@pytest.mark.parametrize(
    "keys", [{"rows": -1}, {"bytes": True}, {"limit": "7"}, {"seconds": 0}, {"seconds": -1.0}]
)
def test_a_budget_that_means_nothing_is_refused(keys: dict[str, object]) -> None:
    with pytest.raises(Invalid, match="expected"):
        Budget(**keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [{"queries": 0}, {"queries": 64, "memory_bytes": 1 << 30}])
def test_a_capacity_that_cannot_work_is_refused(keys: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="expected at least"):
        Capacity(**keys)

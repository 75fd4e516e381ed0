"""The loops: each runs when it is due, however its last run or another's ended, until all stop.

Where the scheduler runs, its threads are real and its time is not: the clock stops until a test
moves it, and ``Timed.settle`` waits until the one thread of a pool has done what was due.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from blockstore.compactor.config import Schedule
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.loops import Loop, Loops, Pool
from blockstore.compactor.process.status import LoopStatus, TableHealth, TableStatus
from blockstore.compactor.run.monitor import Abandoned
from blockstore.errors import BoundaryLost, Fenced, Unavailable
from blockstore.world import World
from tests.support.stepped import Stepped

PATIENCE_S = 20
FAR_MS = 4_000_000_000_000
"""In a future in which the scheduler, by the machine's clock, would start nothing early."""
FAR_S = 1e8


class Panic(BaseException):
    """What a compiled library raises in place of an abort: no Exception."""


@dataclass
class Timed:
    """Loops under a clock that a test moves, and what they logged."""

    clock: Stepped = field(default_factory=lambda: Stepped(FAR_MS))
    fatal: list[BaseException] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = replace(World.manual(seed=5), clock=self.clock)
        self.ledger = Ledger(self.clock)
        self.loops = Loops(world, self.ledger, Schedule(), fatal=self.fatal.append)

    def loop(
        self,
        run: Callable[[], float],
        table: str = "a",
        name: str = "clean",
        pool: str = Pool.MERGE,
    ) -> Loop:
        """A loop that is noted each time that it runs."""

        def noted() -> float:
            self.ran.append(f"{table} {name}")
            return run()

        self.ledger.add(table, f"lake/{table}")
        return Loop(
            table=table, name=name, url=f"lake/{table}", interval_s=60, run=noted, pool=pool
        )

    def added(self, run: Callable[[], float], table: str = "a", name: str = "clean") -> Loop:
        found = self.loop(run, table, name)
        self.loops.add(found, in_s=FAR_S)
        return found

    def table(self, name: str = "a") -> TableStatus:
        return next(one for one in self.ledger.tables() if one.name == name)

    def noted(self, loop: Loop) -> LoopStatus:
        return next(one for one in self.table(loop.table).loops if one.name == loop.name)

    def settle(self, pool: str = Pool.MERGE) -> None:
        """Wait until what was due before, in a pool of one thread, has ended and is due again."""
        reached = threading.Event()

        def reach() -> float:
            reached.set()
            return FAR_S

        self.loops.add(Loop(table="~", name=pool, url="", interval_s=60, run=reach, pool=pool))
        assert reached.wait(PATIENCE_S)

    def passes(self, seconds: float) -> None:
        """So much time goes by, and what falls due in it is done."""
        self.settle()
        self.clock.advance(seconds)
        self.settle()


class Held:
    """A run that a test lets end."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> float:
        self.entered.set()
        assert self.go_on.wait(PATIENCE_S)
        return 60.0

    def wait(self) -> None:
        assert self.entered.wait(PATIENCE_S)


@pytest.fixture
def timed() -> Iterator[Timed]:
    made = Timed()
    yield made
    made.loops.stop()
    assert made.loops.wait(PATIENCE_S)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go_on.set()


def fail(error: BaseException) -> Callable[[], float]:
    def run() -> float:
        raise error

    return run


# --- one run ---


def test_a_run_that_ends_well_says_when_the_next_is_due(timed: Timed) -> None:
    def run() -> float:
        timed.clock.advance(3)
        return 60.0

    loop = timed.added(run)
    assert timed.loops.turn(loop) == 60.0
    found = timed.noted(loop)
    assert (found.runs, found.failures, found.running, found.seconds) == (1, 0, False, 3.0)
    assert (found.next_ms or 0) - (found.last_success_ms or 0) == 60_000


def test_a_run_that_fails_is_tried_again_later_and_later_and_forgiven_once_it_ends_well(
    timed: Timed,
) -> None:
    error: list[Exception] = [Unavailable("no answer")] * 12

    def run() -> float:
        if error:
            raise error.pop()
        return 60.0

    loop = timed.added(run)
    waits = [timed.loops.turn(loop) or 0.0 for _ in range(12)]
    for number, wait in enumerate(waits):
        limit = min(900.0, 5.0 * 2**number)
        assert limit / 2 <= wait <= limit
    assert timed.noted(loop).next_ms == timed.clock.now_ms() + round(waits[-1] * 1000)
    assert timed.loops.turn(loop) == 60.0
    assert timed.noted(loop).failures == 0
    error.append(Unavailable("again"))
    assert 2.5 <= (timed.loops.turn(loop) or 0.0) <= 5.0


def test_a_run_that_fails_has_taken_its_time_too(timed: Timed) -> None:
    def run() -> float:
        timed.clock.advance(7)
        raise Unavailable("no answer")

    loop = timed.added(run)
    timed.loops.turn(loop)
    assert timed.noted(loop).seconds == 7.0


def test_the_failures_of_one_loop_delay_no_other(timed: Timed) -> None:
    bad, good = (
        timed.added(fail(Unavailable("no answer"))),
        timed.added(lambda: 60.0, name="compact"),
    )
    other = timed.added(fail(Unavailable("no answer")), table="b")
    for _ in range(8):
        timed.loops.turn(bad)
    assert timed.loops.turn(good) == 60.0
    assert (timed.loops.turn(other) or 99.0) <= 5.0
    assert (timed.noted(bad).failures, timed.noted(other).failures) == (8, 1)


@pytest.mark.parametrize("error", [Fenced("taken"), BoundaryLost("gone")])
def test_a_fatal_failure_is_reported_and_the_loop_does_not_run_again(
    timed: Timed, error: Exception
) -> None:
    loop = timed.added(fail(error))
    assert timed.loops.turn(loop) is None
    assert timed.fatal == [error]
    assert timed.table().problem == str(error)
    assert timed.noted(loop).next_ms is None


def test_a_run_that_was_abandoned_is_no_failure_and_does_not_go_on(timed: Timed) -> None:
    loop = timed.added(fail(Abandoned("the process stops")))
    assert timed.loops.turn(loop) is None
    assert timed.fatal == []
    assert timed.noted(loop).failures == 0
    assert timed.table().health is TableHealth.STARTING


def test_a_bug_is_logged_with_its_traceback_and_what_the_store_did_without(
    timed: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (ZeroDivisionError("a bug"), Unavailable("no answer"), OSError("no disk")):
        timed.loops.turn(timed.added(fail(error)))
    lines = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [bool(one.exc_info) for one in lines] == [True, False, False]
    assert [
        str(error) in one.getMessage()
        for one, error in zip(lines, ("a bug", "no answer", "no disk"), strict=True)
    ]
    assert timed.fatal == []


# --- which loops there are ---


def test_no_run_begins_of_a_loop_that_was_dropped_nor_once_all_stop(timed: Timed) -> None:
    one, other = timed.added(lambda: 60.0), timed.added(lambda: 60.0, table="b")
    timed.loops.drop("a")
    assert timed.loops.turn(one) is None
    assert timed.loops.turn(other) == 60.0
    timed.loops.stop()
    assert timed.loops.turn(other) is None
    assert timed.ran == ["b clean"]


def test_only_the_loops_of_the_table_that_is_named_are_dropped(timed: Timed) -> None:
    for table in ("a", "ab", "b"):
        for name in ("clean", "compact"):
            timed.added(lambda: 60.0, table, name)
    timed.loops.drop("a")
    timed.loops.drop("unheard of")
    assert {table: sorted(timed.loops.of(table)) for table in ("a", "ab", "b")} == {
        "a": [],
        "ab": ["clean", "compact"],
        "b": ["clean", "compact"],
    }


# --- when they run ---


def test_a_loop_runs_at_once_and_then_whenever_it_is_due(timed: Timed) -> None:
    timed.loops.add(timed.loop(lambda: 60.0))
    timed.loops.start()
    timed.settle()
    assert len(timed.ran) == 1
    timed.passes(59)
    assert len(timed.ran) == 1
    timed.passes(1)
    assert len(timed.ran) == 2
    timed.loops.add(timed.loop(lambda: 60.0, table="late"))
    timed.settle()
    assert timed.ran[-1] == "late clean"
    timed.passes(60)
    assert sorted(timed.ran[-2:]) == ["a clean", "late clean"]


def test_a_loop_runs_on_after_failures_of_every_kind_but_a_fatal_one(timed: Timed) -> None:
    errors: list[BaseException] = [
        Panic("a library's"),
        ZeroDivisionError("a bug"),
        Unavailable("no answer"),
    ]
    loop = timed.loop(lambda: fail(errors.pop())() if errors else 60.0)
    timed.loops.add(loop)
    timed.loops.start()
    for number in range(1, 4):
        timed.settle()
        found = timed.noted(loop)
        assert (found.failures, found.running) == (number, False)
        timed.passes(900)
    assert timed.noted(loop).failures == 0
    assert len(timed.ran) == 4


def test_a_fatal_failure_ends_its_loop_for_good(timed: Timed) -> None:
    timed.loops.add(timed.loop(fail(Fenced("taken"))))
    timed.loops.start()
    timed.passes(FAR_S / 2)
    assert len(timed.ran) == 1
    assert len(timed.fatal) == 1


@pytest.mark.parametrize("step_s", [-86_400, -1, 30, 86_400])
def test_a_clock_that_is_set_moves_no_loop(timed: Timed, step_s: int) -> None:
    timed.loops.add(timed.loop(lambda: 60.0))
    timed.loops.start()
    timed.settle()
    timed.clock.step_s = step_s
    timed.passes(59)
    assert len(timed.ran) == 1
    timed.passes(1)
    assert len(timed.ran) == 2
    timed.passes(60)
    assert len(timed.ran) == 3


def test_merges_run_one_at_a_time_in_the_order_in_which_they_fell_due_and_care_beside_them(
    timed: Timed, held: Held
) -> None:
    timed.loops.start()
    timed.loops.add(timed.loop(held, name="compact"))
    held.wait()
    for table, in_s in (("d", 3.0), ("b", 2.0), ("c", 1.0)):
        timed.loops.add(timed.loop(lambda: FAR_S, table, "compact"), in_s=in_s)
    timed.clock.advance(5)
    four = threading.Barrier(4)
    cared = [threading.Event() for _ in range(4)]

    def care(number: int) -> float:
        four.wait(PATIENCE_S)
        cared[number].set()
        return FAR_S

    for number in range(4):
        timed.loops.add(
            timed.loop(lambda number=number: care(number), f"t{number}", pool=Pool.CARE)
        )  # type: ignore[misc]
    assert all(one.wait(PATIENCE_S) for one in cared)
    assert [one for one in timed.ran if one.endswith("compact")] == ["a compact"]
    held.go_on.set()
    timed.settle()
    assert [one for one in timed.ran if one.endswith("compact")] == [
        "a compact",
        "c compact",
        "b compact",
        "d compact",
    ]


def test_tables_that_always_have_more_to_do_take_turns(timed: Timed) -> None:
    left = {"a": 3, "b": 3}

    def one_more(table: str) -> float:
        timed.clock.advance(1)  # what it did took a while
        left[table] -= 1
        return 0.0 if left[table] else FAR_S

    for table in left:
        timed.loops.add(timed.loop(lambda table=table: one_more(table), table))  # type: ignore[misc]
    timed.loops.start()
    while any(left.values()):
        timed.settle()
    assert timed.ran == ["a clean", "b clean"] * 3


# --- dropped and stopped while they run ---


def test_a_loop_that_is_dropped_while_it_runs_ends_and_is_not_due_again(
    timed: Timed, held: Held
) -> None:
    timed.loops.start()
    timed.loops.add(timed.loop(held))
    held.wait()
    timed.loops.drop("a")
    timed.ledger.drop("a")
    held.go_on.set()
    timed.passes(3600)
    assert timed.ran == ["a clean"]
    assert timed.ledger.tables() == ()


def test_a_loop_that_drops_its_own_table_is_not_due_again(timed: Timed) -> None:
    def run() -> float:
        timed.loops.drop("a")
        return 1.0

    timed.loops.start()
    timed.loops.add(timed.loop(run))
    timed.passes(3600)
    assert timed.ran == ["a clean"]


def test_the_last_run_of_a_table_that_vanished_moves_no_loop_of_the_one_found_in_its_place(
    timed: Timed, held: Held
) -> None:
    timed.loops.start()
    timed.loops.add(timed.loop(held))
    held.wait()
    timed.loops.drop("a")
    timed.loops.add(timed.loop(lambda: FAR_S), in_s=600)
    held.go_on.set()
    timed.passes(599)
    assert len(timed.ran) == 1
    timed.passes(1)
    assert len(timed.ran) == 2


def test_a_stop_waits_for_the_run_under_way_and_begins_none_that_waited_behind_it(
    timed: Timed, held: Held
) -> None:
    timed.loops.start()
    assert timed.loops.alive
    timed.loops.add(timed.loop(held))
    held.wait()
    timed.loops.add(timed.loop(lambda: 60.0, table="b"))
    timed.loops.stop()
    assert not timed.loops.alive
    assert not timed.loops.wait(0)
    held.go_on.set()
    assert timed.loops.wait(PATIENCE_S)
    assert timed.ran == ["a clean"]
    timed.loops.add(timed.loop(lambda: 60.0, table="late"))
    timed.loops.stop()
    assert timed.ran == ["a clean"]


def test_a_run_that_panics_leaves_nothing_to_wait_for(timed: Timed) -> None:
    with pytest.raises(Panic):
        timed.loops.turn(timed.added(fail(Panic("a library's"))))
    assert timed.loops.wait(0)


def test_loops_that_were_never_started_can_be_stopped(timed: Timed) -> None:
    timed.loops.add(timed.loop(lambda: 60.0))
    assert not timed.loops.alive
    timed.loops.stop()
    assert timed.loops.wait(0)
    assert timed.ran == []


def test_a_loop_added_again_just_as_the_last_run_of_the_old_one_ends_still_runs_at_once(
    timed: Timed,
) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    timed.loops.start()
    try:
        for _ in range(300):
            timed.settle()
    finally:
        sys.setswitchinterval(before)

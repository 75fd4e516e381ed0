"""The ledger: notes about tables, loops, jobs and blocks, and the health that follows from them."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from blockstore.clock import ManualClock
from blockstore.compactor.process.failures import Failure, FailureKind
from blockstore.compactor.process.ledger import LAKE, Ledger
from blockstore.compactor.process.status import (
    JobState,
    JobStatus,
    LoopStatus,
    Quarantined,
    TableHealth,
    TableStatus,
)

START_MS = 1_700_000_000_000
RETRY = Failure(kind=FailureKind.RETRY, problem="no answer", fix="wait")
DEGRADED = Failure(kind=FailureKind.DEGRADED, problem="denied", fix="give rights")
JOB = JobStatus(
    number=0,
    table="a",
    state=JobState.PLANNED,
    reason="size",
    details="two blocks",
    labels={},
    resolution=0,
    level=2,
    inputs=("x", "y"),
    blocks=2,
    rows=6,
    bytes=100,
    min_time_ms=0,
    max_time_ms=1,
    memory_bytes=1,
    disk_bytes=1,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def ledger(clock: ManualClock) -> Ledger:
    """With one table that has two loops."""
    made = Ledger(clock, history=3)
    made.add("a", "lake/a")
    for name in ("clean", "compact"):
        made.loop("a", name, 60)
    return made


def table(ledger: Ledger, name: str = "a") -> TableStatus:
    return next(one for one in ledger.tables() if one.name == name)


def loop(ledger: Ledger, name: str) -> LoopStatus:
    return next(one for one in table(ledger).loops if one.name == name)


def well(ledger: Ledger, *names: str) -> None:
    for name in names:
        ledger.succeeded("a", name, 1.0, 60.0)


def running(ledger: Ledger, inputs: tuple[str, ...] = ("x", "y")) -> JobStatus:
    return ledger.begins("a", replace(JOB, state=JobState.RUNNING, inputs=inputs))


# --- tables ---


def test_tables_are_listed_by_name_and_the_lake_is_not_one_of_them(ledger: Ledger) -> None:
    ledger.add(LAKE, "lake")
    ledger.add("B", "lake/B")
    ledger.loop(LAKE, "tables", 60)
    assert [one.name for one in ledger.tables()] == ["B", "a"]
    assert [one.name for one in ledger.lake_loops()] == ["tables"]


def test_without_a_lake_there_are_no_loops_over_one(ledger: Ledger) -> None:
    assert ledger.lake_loops() == ()


def test_a_table_that_is_there_already_stays_as_it_is(ledger: Ledger) -> None:
    ledger.count("a", marked=2)
    ledger.add("a", "elsewhere", left=True)
    found = table(ledger)
    assert (found.url, found.health, found.totals.marked) == ("lake/a", TableHealth.STARTING, 2)


def test_a_table_found_again_under_a_name_starts_from_zero(ledger: Ledger) -> None:
    ledger.failed("a", "clean", 1.0, DEGRADED)
    ledger.quarantined("a", "clean", {"x": ("torn", "repair x")})
    ledger.drop("a")
    ledger.add("a", "lake/a")
    found = table(ledger)
    assert (found.loops, found.quarantined, found.problem) == ((), (), "")
    assert found.health is TableHealth.STARTING


def test_what_ends_after_its_table_vanished_brings_nothing_of_it_back(ledger: Ledger) -> None:
    job = running(ledger)
    ledger.drop("a")
    ledger.drop("a")
    ledger.loop("a", "clean", 60)
    ledger.started("a", "clean")
    ledger.succeeded("a", "clean", 1.0, 60.0)
    assert ledger.failed("a", "clean", 1.0, RETRY) == 1
    ledger.due("a", "clean", 5.0)
    ledger.count("a", marked=1)
    ledger.planned("a", [JOB])
    ledger.ended("a", job)
    ledger.quarantined("a", "clean", {"x": ("torn", "repair x")})
    assert ledger.tables() == ()
    assert ledger.failure("a") is None


def test_totals_add_up(ledger: Ledger) -> None:
    ledger.count("a", marked=2, merge_seconds=0.5)
    ledger.count("a", marked=3, removed=1)
    totals = table(ledger).totals
    assert (totals.marked, totals.removed, totals.merge_seconds) == (5, 1, 0.5)


# --- loops ---


def test_a_run_is_noted_from_its_start_to_when_the_next_is_due(
    ledger: Ledger, clock: ManualClock
) -> None:
    ledger.started("a", "clean")
    assert loop(ledger, "clean") == LoopStatus(
        name="clean",
        interval_s=60,
        running=True,
        last_start_ms=START_MS,
        last_start_s=START_MS / 1000,
    )
    clock.advance(2)
    ledger.succeeded("a", "clean", 2.0, 60.5)
    assert loop(ledger, "clean") == LoopStatus(
        name="clean",
        interval_s=60,
        last_start_ms=START_MS,
        last_start_s=START_MS / 1000,
        last_success_ms=START_MS + 2000,
        last_success_s=START_MS / 1000 + 2,
        next_ms=START_MS + 62_500,
        runs=1,
        seconds=2.0,
    )
    ledger.started("a", "clean")
    assert loop(ledger, "clean").next_ms is None


def test_failures_in_a_row_are_counted_and_a_success_forgives_them(
    ledger: Ledger, clock: ManualClock
) -> None:
    assert [ledger.failed("a", "clean", 1.0, RETRY) for _ in range(3)] == [1, 2, 3]
    ledger.due("a", "clean", 20.0)
    found = loop(ledger, "clean")
    assert (found.failures, found.failed_runs, found.runs, found.problem) == (3, 3, 3, "no answer")
    assert (found.running, found.last_failure_ms, found.next_ms) == (
        False,
        START_MS,
        START_MS + 20_000,
    )
    clock.advance(1)
    well(ledger, "clean")
    found = loop(ledger, "clean")
    assert (found.failures, found.failed_runs, found.runs, found.problem) == (0, 3, 4, "")
    assert ledger.failed("a", "clean", 1.0, RETRY) == 1
    assert loop(ledger, "clean").failed_runs == 4
    assert loop(ledger, "compact").runs == 0


def test_a_loop_noted_twice_keeps_what_it_did(ledger: Ledger) -> None:
    well(ledger, "clean")
    ledger.loop("a", "clean", 90)
    assert loop(ledger, "clean").runs == 1


# --- health ---


def test_a_table_is_starting_until_every_loop_has_ended_well_once(ledger: Ledger) -> None:
    well(ledger, "clean")
    assert table(ledger).health is TableHealth.STARTING
    well(ledger, "compact")
    assert table(ledger).health is TableHealth.OK


@pytest.mark.parametrize("order", [("clean", "compact"), ("compact", "clean")])
def test_of_two_failures_the_one_that_needs_a_person_decides_whichever_came_first(
    ledger: Ledger, order: tuple[str, str]
) -> None:
    well(ledger, "clean", "compact")
    failures = {"clean": DEGRADED, "compact": RETRY}
    for name in order:
        ledger.failed("a", name, 1.0, failures[name])
    found = table(ledger)
    assert (found.health, found.problem, found.fix) == (
        TableHealth.DEGRADED,
        "denied",
        "give rights",
    )
    assert ledger.failure("a") == DEGRADED
    well(ledger, "clean")
    found = table(ledger)
    assert (found.health, found.problem, found.fix) == (TableHealth.FAILING, "no answer", "wait")
    well(ledger, "compact")
    found = table(ledger)
    assert (found.health, found.problem, found.fix) == (TableHealth.OK, "", "")
    assert ledger.failure("a") is None


def test_one_loop_s_success_does_not_forgive_another_s_failure(ledger: Ledger) -> None:
    ledger.failed("a", "clean", 1.0, RETRY)
    well(ledger, "compact")
    assert table(ledger).health is TableHealth.FAILING


def test_a_run_that_begins_does_not_forgive_the_last(ledger: Ledger) -> None:
    ledger.failed("a", "clean", 1.0, DEGRADED)
    ledger.started("a", "clean")
    assert table(ledger).health is TableHealth.DEGRADED
    assert loop(ledger, "clean").problem == "denied"


def test_since_when_a_table_is_as_it_is_moves_with_its_health_alone(
    ledger: Ledger, clock: ManualClock
) -> None:
    since = []
    for act in (
        lambda: well(ledger, "clean", "compact"),
        lambda: well(ledger, "clean"),
        lambda: ledger.failed("a", "clean", 1.0, RETRY),
        lambda: ledger.failed("a", "clean", 1.0, RETRY),
        lambda: ledger.failed("a", "clean", 1.0, DEGRADED),
    ):
        clock.advance(1)
        act()
        since.append((table(ledger).since_ms or 0) - START_MS)
    assert since == [1000, 1000, 3000, 3000, 5000]


def test_a_table_that_is_left_alone_stays_so_whatever_fails(ledger: Ledger) -> None:
    ledger.add("b", "lake/b", left=True)
    ledger.loop("b", "clean", 60)
    ledger.failed("b", "clean", 1.0, DEGRADED)
    assert table(ledger, "b").health is TableHealth.LEFT


# --- jobs ---


def test_a_job_is_planned_then_running_under_a_number_then_finished(
    ledger: Ledger, clock: ManualClock
) -> None:
    other = replace(JOB, inputs=("z",))
    ledger.planned("a", [JOB, other])
    job = running(ledger)
    assert (job.number, job.started_ms) == (1, START_MS)
    found = table(ledger)
    assert (found.planned, found.running, found.finished) == ((other,), (job,), ())
    clock.advance(3)
    ledger.ended("a", replace(job, state=JobState.COMMITTED))
    found = table(ledger)
    ended = replace(job, state=JobState.COMMITTED, ended_ms=START_MS + 3000)
    assert (found.planned, found.running, found.finished) == ((other,), (), (ended,))
    assert found.totals.jobs == {"committed": 1}


def test_of_several_running_jobs_only_the_one_that_ended_goes(ledger: Ledger) -> None:
    first, second = running(ledger, ("x",)), running(ledger, ("y",))
    ledger.ended("a", replace(first, state=JobState.FAILED))
    assert table(ledger).running == (second,)


def test_finished_jobs_are_kept_up_to_a_number_the_newest_first_and_all_are_counted(
    ledger: Ledger,
) -> None:
    for number in range(5):
        state = JobState.FAILED if number % 2 else JobState.COMMITTED
        ledger.ended("a", replace(running(ledger), state=state))
    found = table(ledger)
    assert [job.number for job in found.finished] == [5, 4, 3]
    assert found.totals.jobs == {"committed": 3, "failed": 2}


def test_a_history_of_none_keeps_none(clock: ManualClock) -> None:
    ledger = Ledger(clock, history=0)
    ledger.add("a", "lake/a")
    ledger.ended("a", replace(running(ledger), state=JobState.COMMITTED))
    assert table(ledger).finished == ()
    assert table(ledger).totals.jobs == {"committed": 1}


def test_long_plans_and_long_jobs_are_cut_where_they_are_kept(ledger: Ledger) -> None:
    inputs = tuple(f"block {number}" for number in range(1000))
    ledger.planned("a", (replace(JOB, inputs=(one,)) for one in inputs))
    assert [job.inputs[0] for job in table(ledger).planned] == list(inputs[:500])
    job = running(ledger, inputs)
    assert table(ledger).running[0].inputs == inputs
    ledger.ended("a", replace(job, state=JobState.COMMITTED))
    assert table(ledger).finished[0].inputs == inputs[:64]


def test_a_plan_replaces_the_one_before(ledger: Ledger) -> None:
    ledger.planned("a", [JOB])
    ledger.planned("a", [])
    assert table(ledger).planned == ()


# --- quarantine ---


def test_a_block_is_quarantined_since_it_was_first_seen_and_until_its_finder_no_longer_finds_it(
    ledger: Ledger, clock: ManualClock
) -> None:
    ledger.quarantined("a", "clean", {"x": ("torn", "repair x")})
    clock.advance(60)
    ledger.quarantined("a", "clean", {"x": ("gone", "repair it"), "b": ("torn", "repair b")})
    assert table(ledger).quarantined == (
        Quarantined(ulid="b", reason="torn", since_ms=START_MS + 60_000, command="repair b"),
        Quarantined(ulid="x", reason="gone", since_ms=START_MS, command="repair it"),
    )
    ledger.quarantined("a", "clean", {})
    assert table(ledger).quarantined == ()
    clock.advance(60)
    ledger.quarantined("a", "clean", {"x": ("torn", "repair x")})
    assert table(ledger).quarantined[0].since_ms == START_MS + 120_000


def test_what_one_finder_finds_no_more_another_may_still_find(
    ledger: Ledger, clock: ManualClock
) -> None:
    ledger.quarantined("a", "clean", {"x": ("torn", "repair x"), "y": ("torn", "repair y")})
    ledger.quarantined("a", "merge", {"y": ("torn", "repair y"), "z": ("torn", "repair z")})
    assert [one.ulid for one in table(ledger).quarantined] == ["x", "y", "z"]
    clock.advance(60)
    ledger.quarantined("a", "clean", {})
    ledger.quarantined("a", "merge", {"y": ("torn", "repair y"), "z": ("torn", "repair z")})
    assert [(one.ulid, one.since_ms) for one in table(ledger).quarantined] == [
        ("y", START_MS),
        ("z", START_MS),
    ]


# --- threads ---


def test_a_change_that_raises_changes_nothing_and_keeps_no_lock(ledger: Ledger) -> None:
    def broken(status: TableStatus) -> TableStatus:
        raise ArithmeticError("a bug")

    with pytest.raises(ArithmeticError):
        ledger.note("a", broken)
    with pytest.raises(AttributeError):
        ledger.count("a", marked=1, unheard_of=1)
    assert table(ledger).totals.marked == 0
    other = threading.Thread(target=lambda: ledger.count("a", marked=1))
    other.start()
    other.join(60)
    assert table(ledger).totals.marked == 1


def test_notes_of_many_threads_are_all_kept(ledger: Ledger) -> None:
    together = threading.Barrier(8)

    def work() -> None:
        together.wait(60)
        for _ in range(50):
            ledger.count("a", marked=1)
            ledger.ended("a", replace(running(ledger), state=JobState.COMMITTED))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    found = table(ledger)
    assert (found.totals.marked, found.totals.jobs, found.running) == (400, {"committed": 400}, ())
    assert running(ledger).number == 401


def test_a_table_that_comes_to_rest_in_its_last_pass_is_well_at_once(ledger: Ledger) -> None:
    """The pass that ends the round is noted as a success only after it."""
    ledger.add("a", "u")
    ledger.loop("a", "compact", 60.0)
    ledger.started("a", "compact")
    (table,) = ledger.tables()
    assert table.health is TableHealth.STARTING
    ledger.rests("a", "watch", 3600.0)
    ledger.succeeded("a", "compact", 0.1, 60.0)
    (table,) = ledger.tables()
    assert (table.health, table.resting) == (TableHealth.OK, True)
    ledger.wakes("a")
    (table,) = ledger.tables()
    assert (table.health, table.resting) == (TableHealth.OK, False)

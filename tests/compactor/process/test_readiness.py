"""Readiness is truthful: nothing that has halted looks ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blockstore.compactor.process.ledger import LAKE as LAKE_NAME
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.readiness import not_ready, stuck
from blockstore.compactor.process.status import (
    JobState,
    JobStatus,
    LoopStatus,
    TableHealth,
    TableStatus,
)
from tests.support.stepped import Stepped

NOW_S = 90_000_000.0
WELL = LoopStatus(name="compact", interval_s=300, last_success_s=NOW_S - 1)
LAKE = LoopStatus(name="tables", interval_s=60, last_success_s=NOW_S - 1)
TABLE = TableStatus(name="t", url="lake/t", health=TableHealth.OK, loops=(WELL,))


def reasons(
    *tables: TableStatus, lake: LoopStatus = LAKE, idle_s: float | None = None
) -> tuple[str, ...]:
    return not_ready((lake,), tables, now_s=NOW_S, ready_age_s=1800, idle_s=idle_s)


def test_a_process_whose_loops_ended_well_lately_is_ready() -> None:
    assert reasons(TABLE) == ()


def test_a_lake_without_a_table_is_not_ready_once_it_was_listed() -> None:
    """A disk that is not mounted looks like it."""
    (reason,) = reasons()
    assert "no table at its URL" in reason
    (reason,) = reasons(lake=replace(LAKE, last_success_s=None))
    assert "not been listed yet" in reason


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (replace(TABLE, loops=()), "t: not opened yet"),
        (
            replace(TABLE, loops=(replace(WELL, last_success_s=None, problem="no answer"),)),
            "has not finished a run yet: no answer",
        ),
        (
            replace(TABLE, loops=(replace(WELL, last_success_s=NOW_S - 1801),)),
            "has not succeeded for 1801 s",
        ),
        (
            replace(TABLE, health=TableHealth.DEGRADED, problem="entry 7 is damaged", fix="verify"),
            "entry 7 is damaged; verify",
        ),
    ],
)
def test_a_table_that_is_not_looked_after_is_named(table: TableStatus, part: str) -> None:
    (reason,) = reasons(table)
    assert part in reason


def test_a_table_that_is_left_alone_on_purpose_does_not_count() -> None:
    assert reasons(replace(TABLE, health=TableHealth.LEFT, loops=())) == ()


def test_a_long_merge_that_moves_bytes_is_ready_and_one_that_moves_none_is_not() -> None:
    old = replace(WELL, last_success_s=NOW_S - 10_000, running=True)
    assert reasons(replace(TABLE, loops=(old,)), idle_s=5) == ()
    (reason,) = reasons(replace(TABLE, loops=(old,)), idle_s=1900)
    assert "moved no byte for 1900 s" in reason
    assert stuck(ready_age_s=1800, idle_s=1900) == ()
    assert "restart" in stuck(ready_age_s=1800, idle_s=7300)[0]
    assert stuck(ready_age_s=1800, idle_s=None) == ()


HOUR_S = 3600.0
MERGE = JobStatus(
    number=1,
    table="t",
    state=JobState.RUNNING,
    reason="tier",
    details="",
    labels={},
    resolution=0,
    level=1,
    inputs=("a", "b"),
    blocks=2,
    rows=2,
    bytes=2,
    min_time_ms=0,
    max_time_ms=1,
    memory_bytes=1,
    disk_bytes=1,
)


def hanging(name: str, hours: float = 8) -> LoopStatus:
    """A loop that succeeded once, and whose present run began so many hours ago."""
    start_s = NOW_S - hours * HOUR_S
    return replace(WELL, name=name, running=True, last_start_s=start_s, last_success_s=start_s - 1)


@pytest.mark.parametrize("name", ["clean", "retention", "index", "backlog", "compact"])
def test_a_run_that_does_not_end_is_named(name: str) -> None:
    (reason,) = reasons(replace(TABLE, loops=(WELL, hanging(name))))
    assert (
        reason == f"t: {name} has run for 28800 s without ending: check whether the store responds"
    )
    assert reasons(replace(TABLE, loops=(hanging(name, 1.9),))) == ()
    slow = replace(hanging(name), interval_s=3 * 3600)
    assert reasons(replace(TABLE, loops=(slow,))) == (), "a run has four of its intervals"


def test_a_listing_of_the_lake_that_does_not_end_is_named() -> None:
    (reason,) = reasons(TABLE, lake=hanging("tables"))
    assert reason.startswith("the lake: tables has run for 28800 s")


def test_the_bytes_of_a_merge_vouch_for_its_own_loop_alone() -> None:
    merging = replace(TABLE, loops=(hanging("compact"),), running=(MERGE,))
    assert reasons(merging, idle_s=5) == ()
    (reason,) = reasons(merging, replace(TABLE, name="u", loops=(hanging("compact"),)), idle_s=5)
    assert reason.startswith("u: compact has run for")
    (reason,) = reasons(replace(merging, loops=(hanging("compact"), hanging("clean"))), idle_s=5)
    assert reason.startswith("t: clean has run for")
    (reason,) = reasons(merging, idle_s=1900)
    assert "moved no byte for 1900 s" in reason


def test_a_run_that_never_ended_before_is_named_once() -> None:
    first = replace(hanging("clean"), last_success_s=None)
    (reason,) = reasons(replace(TABLE, loops=(first,)))
    assert "has not finished a run yet" in reason


def test_a_slow_loop_has_three_of_its_intervals() -> None:
    slow = replace(WELL, interval_s=3600, last_success_s=NOW_S - 10_000)
    assert reasons(replace(TABLE, loops=(slow,))) == ()


def test_a_lake_that_could_not_be_listed_is_not_ready() -> None:
    assert "has not been listed yet" in reasons(lake=replace(LAKE, last_success_s=None))[0]
    assert "the lake: tables" in reasons(lake=replace(LAKE, last_success_s=NOW_S - 10_000))[0]


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_a_clock_that_is_set_makes_nothing_older_or_younger_than_it_is(step_s: int) -> None:
    clock = Stepped()
    ledger = Ledger(clock)
    ledger.add(LAKE_NAME, "lake")
    ledger.add("t", "lake/t")
    for table, name in ((LAKE_NAME, "tables"), ("t", "clean")):
        ledger.loop(table, name, 60.0)
        ledger.started(table, name)
        ledger.succeeded(table, name, 1.0, 60.0)

    def current() -> tuple[str, ...]:
        return not_ready(
            ledger.lake_loops(),
            ledger.tables(),
            now_s=clock.monotonic_s(),
            ready_age_s=1800,
            idle_s=None,
        )

    clock.step_s = step_s
    clock.advance(1799)
    assert current() == ()
    clock.advance(2)
    assert [reason.partition(" has")[0] for reason in current()] == ["the lake: tables", "t: clean"]


def test_many_reasons_are_counted() -> None:
    found = reasons(*(replace(TABLE, name=f"t{n}", loops=()) for n in range(50)))
    assert len(found) == 21
    assert found[-1] == "and 30 more"

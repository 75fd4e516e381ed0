"""Tables that rest: what they cost, what wakes them, and what is never missed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.compactor.process.keeper import BACKLOG, CLEAN
from blockstore.compactor.process.status import TableHealth
from blockstore.errors import Fenced, Unavailable
from blockstore.ids import Ids
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.log import Log
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.world import Serial, World
from tests.compactor.simulated import QUIET, SELDOM, Simulated, without_rest
from tests.compactor.tended import Tended
from tests.support.faulty import Call, FaultyBucket
from tests.support.stepped import Stepped

DAY = 24.0


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


def rested(lake: Tended, names: tuple[str, ...] = ("a",), **options: object) -> Simulated:
    """A process whose tables have come to rest, days after they were written."""
    for name in names:
        lake.create(name)
        lake.fill(name, 2)
    options.setdefault("loops", SELDOM)
    process = Simulated(lake, **options)  # type: ignore[arg-type]
    process.run(5 * DAY)
    assert process.resting() == list(names)
    return process


def test_five_hundred_quiet_tables_cost_three_requests_an_hour_each_at_most(lake: Tended) -> None:
    tables = 500
    for number in range(tables):
        lake.create(f"t{number:03}")
    process = Simulated(lake)
    process.run(2)
    assert len(process.resting()) == tables
    before = threading.active_count()
    spent = process.run(1)
    assert tables <= spent <= 3 * tables, "each is looked at"
    assert threading.active_count() == before
    assert (process._keepers, process.status().not_ready) == ({}, ())


def test_over_days_the_passes_of_quiet_tables_cost_less_than_the_looks(lake: Tended) -> None:
    tables, hours = 8, 96
    for number in range(tables):
        lake.create(f"t{number:03}")
    process = Simulated(lake, loops=SELDOM)
    process.run(3 * DAY)
    before = process.requests.counts["prefixes"]
    spent = process.run(hours) - (process.requests.counts["prefixes"] - before)
    assert spent <= 2.5 * hours * tables


def test_without_rest_the_same_table_costs_hundreds(lake: Tended) -> None:
    lake.create("a")
    process = Simulated(lake, loops=without_rest())
    assert process.run(1) > 500
    assert process.resting() == []


def test_a_resting_table_has_no_loop_and_no_handle_and_is_shown_as_well(lake: Tended) -> None:
    process = rested(lake)
    status = process.of("a")
    assert (status.health, status.resting) == (TableHealth.OK, True)
    assert [one.name for one in status.loops] == ["watch"]
    assert process.loops.of("a") == {}
    assert (status.blocks, status.rows) == (1, 6)
    assert process.open("a").snapshot().count() == 6
    lake.check()


def test_what_is_appended_is_merged_within_the_longest_wait(lake: Tended) -> None:
    process = rested(lake)
    lake.fill("a", 3)
    process.run(1.1)
    assert len(lake.live("a")) <= 2
    assert process.status().not_ready == ()
    lake.check()


def test_a_block_that_no_entry_names_is_published(lake: Tended) -> None:
    process = rested(lake)
    lake.append("a", "aged", publish=False)
    process.run(2)
    lake.check()


def test_the_wait_grows_to_an_hour_and_begins_anew_after_a_change(lake: Tended) -> None:
    process = rested(lake)
    resting = process._watch.get("a")
    assert resting is not None
    assert resting.wait_s == 3600
    lake.fill("a", 1)
    process.run(1.2)
    again = process._watch.get("a")
    assert again is not None
    assert again.wait_s < 3600


def test_retention_falls_due_during_the_rest(lake: Tended) -> None:
    lake.create("a", retention="20d")
    lake.fill("a", 2)
    process = Simulated(lake, loops=SELDOM)
    process.run(5 * DAY)
    assert process.resting() == ["a"]
    process.run(14.9 * DAY)
    assert lake.live("a") != []
    process.run(0.1 * DAY + 2)
    assert lake.live("a") == []
    assert process.of("a").totals.retired > 0


def test_marks_fall_due_and_what_is_removed_is_as_without_rest(tmp_path: Path) -> None:
    left = []
    often = {"backlog_s": 3600.0, "compact_s": 3600.0, "clean_s": 3600.0, "index_s": 3600.0}
    for schedule in (SELDOM, replace(SELDOM, quiet_s=0.0, **often)):
        lake = Tended(tmp_path)
        lake.create("a")
        lake.fill("a", 3)
        process = Simulated(lake, loops=schedule)
        process.run(7 * DAY)
        lake.check()
        folders = {info.key.split("/")[1] for info in lake.bucket.list("a/")}
        left.append((len(lake.live("a")), len(folders), process.of("a").totals.removed))
    assert left[0] == left[1]
    assert left[0][2] == 3


def test_an_aborted_upload_is_marked_and_removed(lake: Tended) -> None:
    process = rested(lake)
    ulid = lake.world.ids.ulid()
    lake.place("a").put(f"{ulid}/chunks/000001.parquet", b"half")
    process.run(2 * DAY + 3)
    assert process.of("a").totals.marked >= 1
    process.run(2 * DAY + 3)
    assert not list(lake.place("a").list(f"{ulid}/"))


def test_a_process_that_lost_a_resting_table_notices_and_ends(lake: Tended) -> None:
    process = rested(lake)
    table = lake.table("a")
    claim(table.log, lake.world, COMPACTOR)
    process.run(1.1)
    assert isinstance(process.fatal, Fenced)


def test_a_second_process_takes_all_resting_tables_over(lake: Tended) -> None:
    first = rested(lake, ("a", "b"))
    second = Simulated(lake, seed=99)
    second.run(0.1)
    first.run(1.1)
    assert isinstance(first.fatal, Fenced)
    assert second.fatal is None


def test_a_process_that_starts_again_goes_on(lake: Tended) -> None:
    rested(lake)
    again = Simulated(lake, seed=5, loops=SELDOM)
    again.run(4 * DAY)
    assert again.resting() == ["a"]
    assert again.fatal is None
    lake.check()


def test_a_resting_table_that_is_deleted_is_dropped(lake: Tended) -> None:
    process = rested(lake, ("a", "b"))
    lake.bucket.delete([info.key for info in lake.bucket.list("a/")])
    process.run(0.2)
    assert [one.name for one in process.status().tables] == ["b"]
    assert process._watch.get("a") is None
    assert process.fatal is None


def test_another_table_under_the_same_name_is_opened_and_claimed(lake: Tended) -> None:
    process = rested(lake)
    lake.bucket.delete([info.key for info in lake.bucket.list("a/")])
    lake.create("a")
    lake.fill("a", 3)
    process.run(3)
    assert process.fatal is None
    assert lake.table("a").log.state.epochs[COMPACTOR][0] == 1
    lake.check()


def test_another_table_with_more_entries_is_not_taken_for_a_lost_role(lake: Tended) -> None:
    process = rested(lake)
    version = lake.table("a").log.state.version
    lake.bucket.delete([info.key for info in lake.bucket.list("a/")])
    lake.create("a")
    lake.fill("a", version + 5)
    process.run(3)
    assert process.fatal is None
    lake.check()


def test_a_table_that_is_dropped_during_its_rest_is_cleared_in_time(lake: Tended) -> None:
    process = rested(lake)
    drop_table(lake.table("a").log, lake.world)
    process.run(1 * DAY)
    assert process.fatal is None
    undrop_table(Log(lake.place("a"), lake.world), lake.world)
    lake.check()
    drop_table(lake.table("a").log, lake.world)
    process.run(8 * DAY)
    assert not [key for info in lake.bucket.list("a/") if "chunks/" in (key := info.key)]


def test_a_table_that_is_dropped_and_created_again_during_its_rest_is_merged(lake: Tended) -> None:
    process = rested(lake)
    drop_table(lake.table("a").log, lake.world)
    lake.create("a")
    lake.fill("a", 3)
    process.run(3)
    assert process.fatal is None
    assert len(lake.live("a")) < 3
    lake.check()


def test_looks_that_fail_are_the_failure_of_the_table_and_wake_nothing(lake: Tended) -> None:
    faulty = FaultyBucket(lake.bucket)
    process = rested(lake, bucket=faulty)

    def refuse(call: Call) -> None:
        raise Unavailable("the store does not respond")

    faulty.before.append(refuse)
    process.run(6)
    status = process.of("a")
    assert status.health is TableHealth.FAILING
    assert "does not respond" in status.problem
    assert status.resting
    assert any("a: watch has not succeeded" in one for one in process.status().not_ready)
    faulty.before.clear()
    process.run(1)
    assert process.of("a").health is TableHealth.OK
    assert process.status().not_ready == ()


def test_a_pass_that_fails_keeps_the_table_awake(lake: Tended) -> None:
    lake.create("a")
    faulty = FaultyBucket(lake.bucket)

    def refuse(call: Call) -> None:
        if call.method == "list" and call.key == "a/index/checkpoints/":
            raise Unavailable("not now")

    faulty.before.append(refuse)
    process = Simulated(lake, faulty)
    process.run(3)
    assert process.resting() == []
    assert process.of("a").health is TableHealth.FAILING


def test_a_table_that_changes_all_the_while_costs_hardly_more_than_without_rest(
    tmp_path: Path,
) -> None:
    spent = []
    for schedule in (QUIET, without_rest()):
        lake = Tended(tmp_path)
        lake.create("a")
        process = Simulated(lake, loops=schedule)
        process.run(0.5)
        before = sum(process.requests.counts.values())
        for number in range(40):
            lake.append("a", f"w{number}")
            process.run(0.025)
        lake.check()
        spent.append(sum(process.requests.counts.values()) - before)
    assert spent[0] <= 1.2 * spent[1]


def test_a_table_without_an_index_does_not_rest(lake: Tended) -> None:
    lake.create("a", indexed=False)
    lake.append("a", "w", lake.bare("a"))
    process = Simulated(lake)
    process.run(2)
    assert process.resting() == []


def test_the_machines_clock_may_be_set_in_either_direction(tmp_path: Path) -> None:
    clock = Stepped()
    world = World(clock=clock, ids=Ids.seeded(clock, 3), pool=Serial())
    lake = Tended(tmp_path, world)
    process = rested(lake)
    for step_s in (-7200, 7200):
        clock.step_s = step_s
        lake.fill("a", 2)
        process.run(1.1)
        assert process.fatal is None
        assert process.status().not_ready == ()
        lake.check()


def test_a_resting_table_keeps_little_in_memory(lake: Tended) -> None:
    process = rested(lake)
    assert len(process.of("a").finished) <= 4
    record = process.ledger._records["a"]
    assert set(record.loops) == {"watch"}
    assert {BACKLOG, CLEAN} <= record.asleep.keys()

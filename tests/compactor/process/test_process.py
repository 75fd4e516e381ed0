"""The process: it finds and manages tables, and a failure in one place stops nothing elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.metered import Metered
from blockstore.compactor.config import Schedule
from blockstore.compactor.merge import Merged, MergeEngine, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.keeper import BACKLOG, CLEAN, COMPACT, RETENTION
from blockstore.compactor.process.keeper import INDEX as INDEX_LOOP
from blockstore.compactor.process.status import JobState, TableHealth
from blockstore.errors import BlockstoreError, BoundaryLost, Fenced, Unavailable
from blockstore.index.entry import Operation
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.lifecycle.mark import withdraw_no_compact
from blockstore.names import BOUNDARY, INDEX, meta_key, object_key
from blockstore.world import World
from tests.compactor.tended import SCHEDULE, Tended
from tests.support.faulty import Call, FaultyBucket


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


class Hooked:
    """The local engine, with something that happens before a merge."""

    def __init__(self, before: object) -> None:
        self._before = before
        self._engine: MergeEngine = LocalEngine()

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        assert callable(self._before)
        self._before(task)
        return self._engine.merge(bucket, world, task, options)


def operations(lake: Tended, name: str) -> list[Operation]:
    return [entry.operation for entry in lake.table(name).history()]


# --- tables ---


def test_tables_are_found_as_they_appear_merged_and_let_go_as_they_vanish(lake: Tended) -> None:
    process = lake.process()
    process.look()
    assert "no table at its URL" in process.status().not_ready[0]
    for name in ("a", "b"):
        lake.create(name)
        lake.fill(name, 3)
    process.look()
    assert [one.name for one in process.status().tables] == ["a", "b"]
    process.round()
    lake.check()
    assert [len(lake.live(name)) for name in ("a", "b")] == [1, 1]
    assert process.status().not_ready == ()
    lake.bucket.delete([info.key for info in lake.bucket.list("a/")])
    process.look()
    assert [one.name for one in process.status().tables] == ["b"]
    assert process.status().gone == 1
    assert process.loops.of("a") == {}
    assert process.fatal is None


def test_a_folder_that_outlives_its_table_is_let_go_too(lake: Tended) -> None:
    lake.create("a")
    lake.place("a").put("notes.txt", b"mine")
    process = lake.process()
    process.look()
    gone = [info.key for info in lake.bucket.list("a/") if not info.key.endswith("notes.txt")]
    lake.bucket.delete(gone)
    process.look()
    assert process.status().tables == ()
    assert process.fatal is None


def test_looking_whether_tables_are_still_there_costs_two_requests_a_table_at_most(
    lake: Tended,
) -> None:
    for number in range(10):
        lake.create(f"t{number}")
    metered = Metered(lake.bucket)
    process = lake.process(metered)
    process.look()
    metered.reset()
    process.look()
    assert sum(metered.counts.values()) <= 2 * 10 + 5


def test_a_url_that_is_a_table_itself_is_looked_after_as_one(lake: Tended) -> None:
    lake.create("a")
    lake.fill("a", 3)
    process = lake.process(lake.place("a"))
    process.round()
    assert [one.name for one in process.status().tables] == ["a"]
    assert len(lake.live("a")) == 1


def test_a_table_without_an_index_is_merged_and_cleaned(lake: Tended) -> None:
    lake.create("a", indexed=False)
    table = lake.bare("a")
    for number in range(3):
        lake.append("a", f"w{number}", table)
    lake.world.clock.sleep(3600)
    process = lake.process()
    process.round()
    status = process.of("a")
    assert (status.indexed, status.health, status.finished[0].state) == (
        False,
        TableHealth.OK,
        JobState.UPLOADED,
    )
    assert INDEX_LOOP not in process.loops.of("a")
    process.round()
    assert len(process.of("a").finished) == 1


def test_settings_of_one_table_differ_and_one_can_be_left_alone(lake: Tended) -> None:
    for name in ("a", "b", "c"):
        lake.create(name)
        lake.fill(name, 3)
    process = lake.process(tables={"b": {"tier_blocks": 9}, "c": {"tend": False}})
    process.round()
    assert [len(lake.live(name)) for name in ("a", "b", "c")] == [1, 3, 3]
    assert process.of("c").health is TableHealth.LEFT
    assert Operation.EPOCH not in operations(lake, "c")
    assert process.status().not_ready == ()


def test_of_tables_that_only_the_configuration_knows_and_of_a_lake_without_any_it_warns_once(
    lake: Tended, caplog: pytest.LogCaptureFixture
) -> None:
    def warned() -> list[str]:
        found = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        caplog.clear()
        return found

    process = lake.process(tables={"A": {"tend": False}, "b": {"tier_blocks": 9}})
    process.look()
    process.look()
    empty, first, second = warned()
    assert empty.startswith("no table at memory:")
    assert ('[tables."A"]' in first, '[tables."b"]' in second) == (True, True)
    lake.create("a")
    lake.create("b")
    process.look()
    assert warned() == []
    assert process.of("a").health is not TableHealth.LEFT
    lake.bucket.delete([info.key for info in lake.bucket.list("b/")])
    process.look()
    gone, third = warned()
    assert ("is gone" in gone, '[tables."b"]' in third) == (True, True)


# --- loops ---


def test_one_turn_does_one_job_so_that_tables_take_turns(lake: Tended) -> None:
    lake.create("a")
    for label in ("x", "y", "z"):
        lake.fill("a", 2, labels={"cluster": label})
    process = lake.process()
    process.look()
    waits = [process.turn("a", COMPACT) for _ in range(3)]
    assert waits == [0.0, 0.0, 0.0]
    assert len(process.of("a").finished) == 3
    assert process.turn("a", COMPACT) == process.config.loops.compact_s


def test_what_waits_is_counted_by_level_and_is_gone_once_it_is_done(lake: Tended) -> None:
    lake.create("a")
    lake.fill("a", 4)
    process = lake.process()
    process.look()
    process.turn("a", BACKLOG)
    status = process.of("a")
    assert [(one.level, one.jobs, one.blocks) for one in status.backlog] == [(2, 1, 4)]
    assert [job.state for job in status.planned] == [JobState.PLANNED]
    assert (status.blocks, status.rows, status.version) == (4, 12, lake.table("a").poll())
    process.round()
    status = process.of("a")
    assert (status.backlog, status.planned, status.running) == ((), (), ())
    (job,) = status.finished
    assert (job.state, job.blocks, job.rows_out, job.progress) == (JobState.COMMITTED, 4, 12, 1.0)
    assert status.totals.jobs == {"committed": 1}
    assert status.totals.merged_rows == 12


def test_aged_blocks_are_published_and_unneeded_ones_are_marked_and_removed(
    lake: Tended,
) -> None:
    lake.create("a")
    lake.append("a", "aged", publish=False)
    lake.fill("a", 3)
    process = lake.process()
    for _ in range(8):
        lake.world.clock.sleep(2.1 * 86_400)
        process.round()
    lake.check()
    totals = process.of("a").totals
    assert totals.discovered == 1
    assert totals.marked == totals.removed >= 4
    assert totals.collected_entries > 0
    assert process.of("a").boundary


def test_retention_takes_old_blocks_out(lake: Tended) -> None:
    lake.create("a", retention="10d")
    lake.fill("a", 2)
    process = lake.process()
    process.look()
    lake.world.clock.sleep(11 * 86_400)
    process.turn("a", RETENTION)
    assert process.of("a").totals.retired == 2
    assert lake.live("a") == []


def test_a_checkpoint_that_no_committer_wrote_is_written(lake: Tended) -> None:
    faulty = FaultyBucket(lake.bucket)

    def refuse(call: Call) -> None:
        if call.writes and "checkpoints/" in call.key:
            raise Unavailable("not now")

    lake.create("a")
    faulty.before.append(refuse)
    table = Tended(lake.work_dir, lake.world)
    table.bucket, table.expected = faulty, lake.expected  # type: ignore[assignment]
    table.fill("a", 70)
    assert not [info.key for info in lake.bucket.list("a/index/checkpoints/")]
    process = lake.process()
    process.look()
    process.turn("a", INDEX_LOOP)
    assert process.of("a").totals.written_checkpoints == 1
    process.turn("a", INDEX_LOOP)
    assert process.of("a").totals.written_checkpoints == 1


# --- failures ---


def test_a_cache_folder_that_cannot_be_created_stops_no_table_and_is_reported_once(
    lake: Tended, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        lake.create(name)
        lake.fill(name, 3)
    in_the_way = lake.work_dir / "file"
    in_the_way.write_text("no folder")
    process = lake.process(loops=replace(SCHEDULE, cache=in_the_way / "cache"))
    process.round()
    assert [len(lake.live(name)) for name in ("a", "b")] == [1, 1]
    assert process.status().not_ready == ()
    messages = [one.getMessage() for one in caplog.records if "cache folder" in one.getMessage()]
    assert len(messages) == 1
    assert messages[0].startswith(f"cannot create the cache folder {in_the_way}/cache (")


def test_a_table_whose_index_is_damaged_is_degraded_and_stops_no_other(lake: Tended) -> None:
    for name in ("bad", "good"):
        lake.create(name)
        lake.fill(name, 3)
    newest = sorted(info.key for info in lake.bucket.list(f"bad/{INDEX}", recursive=False))[-1]
    lake.bucket.put(newest, b"{ not an entry")
    process = lake.process()
    process.round()
    assert len(lake.live("good")) == 1
    bad, good = process.of("bad"), process.of("good")
    assert (bad.health, good.health) == (TableHealth.DEGRADED, TableHealth.OK)
    assert newest.rpartition("/")[2] in bad.problem
    assert bad.fix == f"blockstore verify {bad.url} --deep"
    (reason,) = process.status().not_ready
    assert reason.startswith("bad: ")


def test_a_store_that_does_not_respond_is_retried_with_growing_waits_until_it_does(
    lake: Tended,
) -> None:
    lake.create("a")
    lake.fill("a", 3)
    faulty, down = FaultyBucket(lake.bucket), False

    def fail(call: Call) -> None:
        if down and call.method == "list":
            raise Unavailable("the store does not answer")

    faulty.before.append(fail)
    process = lake.process(faulty)
    process.look()
    down = True
    waits = [process.turn("a", COMPACT) for _ in range(6)]
    limits = [process.config.loops.retry_s * 2**number for number in range(6)]
    assert all(limit / 2 <= (wait or 0) <= limit for wait, limit in zip(waits, limits, strict=True))
    status = process.of("a")
    assert (status.health, status.problem) == (TableHealth.FAILING, "the store does not answer")
    assert process.status().not_ready != ()
    down = False
    process.round()
    assert process.of("a").health is TableHealth.OK
    assert process.status().not_ready == ()
    assert len(lake.live("a")) == 1


def test_a_job_that_fails_stops_no_other_and_is_reported(lake: Tended) -> None:
    lake.create("a")
    bad = lake.fill("a", 2, labels={"cluster": "bad"})[0]
    for label in ("x", "y", "z"):
        lake.fill("a", 2, labels={"cluster": label})

    def fail(task: MergeTask) -> None:
        if bad in {item.meta.ulid for item in task.inputs}:
            raise ArithmeticError("a bug that only this block shows")

    process = lake.process(engine=Hooked(fail))
    process.look()
    waits = [process.turn("a", COMPACT) for _ in range(3)]
    assert len(lake.live("a")) == 2 + 3
    assert waits[:2] == [0.0] * 2
    assert (waits[2] or 0) > 0
    status = process.of("a")
    assert (status.health, status.problem) == (
        TableHealth.DEGRADED,
        "a bug that only this block shows",
    )
    assert status.totals.jobs == {"failed": 1, "committed": 3}
    lake.check()


def test_where_every_job_fails_the_loop_waits_after_three(lake: Tended) -> None:
    lake.create("a")
    for label in "abcdef":
        lake.fill("a", 2, labels={"cluster": label})
    tried = []

    def fail(task: MergeTask) -> None:
        tried.append(task)
        raise Unavailable("the disk is gone")

    process = lake.process(engine=Hooked(fail))
    process.look()
    while process.turn("a", COMPACT) == 0.0:
        pass
    assert len(tried) == 3
    assert process.of("a").health is TableHealth.FAILING
    # The next plan begins with those that were not tried.
    lake.world.clock.sleep(60)
    while process.turn("a", COMPACT) == 0.0:
        pass
    assert len({item.meta.ulid for task in tried for item in task.inputs}) == 12


def spoil(lake: Tended, name: str, ulids: Sequence[str]) -> None:
    """The first block's meta.json is garbage, the second's chunk has other bytes, the third's chunk
    is gone."""
    chunks = [lake.table(name).log.state.blocks.get(ulid).meta.files[0].path for ulid in ulids]  # type: ignore[union-attr]
    place = lake.place(name)
    place.put(meta_key(ulids[0]), b"{ not json")
    key = object_key(ulids[1], chunks[1])
    data = bytearray(place.get(key).data)
    data[len(data) // 2] ^= 1
    place.put(key, bytes(data))
    place.delete([object_key(ulids[2], chunks[2])])


def test_of_a_hundred_blocks_three_are_damaged_and_the_other_97_are_merged(lake: Tended) -> None:
    lake.create("a")
    blocks = lake.fill("a", 100)
    bad = [blocks[10], blocks[50], blocks[90]]
    spoil(lake, "a", bad)
    process = lake.process()
    process.round()
    live = lake.live("a")
    assert set(live) & set(blocks) == set(bad)
    merged = [one for one in lake.table("a").log.state.blocks if one.ulid not in bad]
    assert sum(one.meta.rows for one in merged) == 97 * 3
    process.round()
    found = {one.ulid: one for one in process.of("a").quarantined}
    assert found.keys() == set(bad)
    for ulid, one in found.items():
        assert ulid in one.command
        assert one.reason
    # A process that starts later knows them by their marks, and meets none of them.
    again = lake.process(seed=12)
    again.round()
    assert {one.ulid for one in again.of("a").quarantined} == set(bad)
    assert again.of("a").totals.jobs == {}
    # Once the mark is taken away the block is tried again.
    withdraw_no_compact(lake.place("a"), lake.world, bad[1])
    assert bad[1] not in {one.ulid for one in lake.process(seed=13).status().tables}


def test_a_boundary_that_is_lost_ends_the_process_with_its_error(lake: Tended) -> None:
    for name in ("a", "b"):
        lake.create(name)
        lake.fill(name, 3)
    process = lake.process()
    process.look()
    lake.place("b").delete([BOUNDARY])
    process.turn("b", CLEAN)
    assert isinstance(process.fatal, BoundaryLost)
    assert process.ended.is_set()
    status = process.status()
    assert status.stopping
    assert "the process ends" in status.not_ready[0]
    assert "the process ends" in status.unhealthy[0]


# --- roles ---


def test_the_second_process_in_a_role_fences_the_first_in_both_orders(lake: Tended) -> None:
    lake.create("a")
    lake.fill("a", 3)
    one, two = lake.process(seed=21), lake.process(seed=22)
    for first, second in ((one, two), (two, lake.process(seed=23))):
        first.look()
        second.look()
        first.turn("a", CLEAN)
        assert isinstance(first.fatal, Fenced)
        second.round()
        assert second.fatal is None
    lake.check()


@pytest.mark.parametrize("loop", [COMPACT, CLEAN, RETENTION, INDEX_LOOP])
def test_every_loop_that_writes_notices_that_the_role_was_taken(lake: Tended, loop: str) -> None:
    lake.create("a", retention="1d")
    lake.fill("a", 3)
    process = lake.process()
    process.look()
    claim(lake.table("a").log, lake.world, COMPACTOR)
    before = len(operations(lake, "a"))
    lake.world.clock.sleep(2 * 86_400)
    process.turn("a", loop)
    assert isinstance(process.fatal, Fenced)
    assert len(operations(lake, "a")) == before


def test_a_merge_under_way_when_the_role_is_taken_is_not_committed(lake: Tended) -> None:
    lake.create("a")
    blocks = lake.fill("a", 3)
    process = lake.process(
        engine=Hooked(lambda task: claim(lake.table("a").log, lake.world, COMPACTOR))
    )
    process.look()
    process.turn("a", COMPACT)
    assert isinstance(process.fatal, Fenced)
    assert lake.live("a") == sorted(blocks)
    assert process.of("a").finished[0].state is JobState.FAILED


def test_shards_merge_each_their_streams_and_do_nothing_else(lake: Tended) -> None:
    lake.create("a")
    for label in "abcdef":
        lake.fill("a", 2, labels={"cluster": label})
    whole = lake.process(loops=Schedule(merge=False))
    shards = [
        lake.process(shard=Shard(number=number, count=2), seed=30 + number) for number in range(2)
    ]
    merged = []
    for process in (whole, *shards):
        process.round()
        merged.append(len(process.of("a").finished))
    assert merged[0] == 0
    assert sum(merged) == 6
    assert all(merged[1:])
    assert len(lake.live("a")) == 6
    assert set(shards[0].loops.of("a")) == {"open", BACKLOG, COMPACT}
    assert COMPACT not in whole.loops.of("a")
    for process in (whole, *shards):
        process.round()
        assert process.fatal is None
    again = lake.process(shard=Shard(number=1, count=2), seed=40)
    again.look()
    lake.fill("a", 2, labels={"cluster": "a"})
    shards[1].turn("a", COMPACT)
    assert isinstance(shards[1].fatal, Fenced)
    assert shards[0].turn("a", COMPACT) is not None
    lake.check()


# --- the end ---


def test_a_merge_under_way_is_abandoned_when_the_grace_is_over_and_nothing_of_it_is_seen(
    lake: Tended,
) -> None:
    lake.create("a")
    blocks = lake.fill("a", 3)
    entered, go_on = threading.Event(), threading.Event()

    def hold(_: MergeTask) -> None:
        entered.set()
        assert go_on.wait(60)

    process = lake.process(engine=Hooked(hold), loops=Schedule(grace_s=0.0))
    process.look()
    merging = threading.Thread(target=lambda: process.turn("a", COMPACT))
    merging.start()
    assert entered.wait(60)
    assert [job.state for job in process.of("a").running] == [JobState.RUNNING]
    process.end()
    process.hurry()
    go_on.set()
    assert process.stop()
    merging.join(60)
    assert process.fatal is None
    assert process.of("a").finished[0].state is JobState.ABANDONED
    assert lake.live("a") == sorted(blocks)


def test_no_run_begins_once_the_process_stops(lake: Tended) -> None:
    lake.create("a")
    lake.fill("a", 3)
    process = lake.process()
    process.look()
    process.end()
    assert process.stop()
    assert process.turn("a", COMPACT) is None
    assert "is stopping" in process.status().not_ready[0]


def test_the_handle_of_a_table_is_the_process_s_own_and_an_unknown_one_is_named(
    lake: Tended,
) -> None:
    lake.create("a")
    process = lake.process()
    process.look()
    assert process.open("a").url.endswith("/a")
    with pytest.raises(BlockstoreError, match="this process has no table 'b'; its tables: a"):
        process.open("b")

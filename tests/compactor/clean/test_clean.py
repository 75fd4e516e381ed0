"""Cleaning passes, case by case: what must exist afterwards, and what must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.compactor.clean.cleaner import Cleaner, plan_cleaning
from blockstore.errors import Corrupt, Fenced, Indeterminate, Invalid, Unavailable
from blockstore.format.block import Job
from blockstore.format.marks import MarkReason
from blockstore.format.meta import encode, load_meta
from blockstore.index.change import Append
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.tags import tag
from blockstore.lifecycle.mark import place_deletion, withdraw_deletion
from blockstore.lifecycle.remove import OLD_LOOK
from blockstore.lifecycle.upload import successor
from blockstore.names import (
    META,
    checkpoint_key,
    chunk_path,
    deletion_mark_key,
    meta_key,
    object_key,
)
from blockstore.operations.append import AppendedBlock
from blockstore.world import World
from tests.compactor.lake import DAY_S, PER_S, Lake, is_entry_put, quietly, rows
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.lying import lie

JOB = Job(app="load", batch=1)


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def listed(tmp_path: Path) -> Lake:
    """A table without an index."""
    return Lake(tmp_path, indexed=False)


def removals(lake: Lake, days: float) -> list[str]:
    """The blocks that went while so many days passed, with a pass every half day."""
    gone = []
    for _ in range(int(days * 2)):
        gone += [one.ulid for one in lake.clean().removed]
        lake.sleep(0.5)
    return gone


# What must not come back, and what must not go.


@pytest.mark.parametrize("indexed", [True, False])
def test_blocks_that_a_merge_replaced_go_once_no_reader_may_need_them(
    tmp_path: Path, indexed: bool
) -> None:
    lake = Lake(tmp_path, indexed=indexed)
    blocks = {lake.append(writer) for writer in "abc"}
    lake.sleep(0.1)
    lake.compact()
    lake.sleep(0.1)
    assert set(removals(lake, 8)) == blocks
    lake.check()
    assert len(lake.directories()) == 1


def test_a_merge_that_died_before_its_entry_brings_no_deleted_row_back(lake: Lake) -> None:
    """Time passes, everything is discovered: the merge's block holds the rows, and nobody ever
    reads them."""
    for writer in "abc":
        lake.append(writer)
    lake.compact_and_die(lambda key: key.startswith("index/0"))
    assert len(lake.directories()) == 4
    lake.open().delete("writer = 'b'")
    lake.expects("b", 0)
    for _ in range(12):
        lake.sleep(0.5)
        lake.clean()
        lake.check()
    lake.settle()
    lake.check()
    assert len(lake.directories()) == len(lake.live()) == 2


def test_a_job_whose_publishing_failed_and_that_came_again_is_there_once(lake: Lake) -> None:
    lake.append("a")
    failing = FaultyBucket(lake.bucket)

    def refuse(call: Call) -> None:
        if call.method == "put_if_absent":
            raise Unavailable("the store does not answer")

    failing.before.append(refuse)
    failed = quietly(lambda: lake.open(failing).append(rows("load"), job=JOB))
    assert isinstance(failed, (Unavailable, Indeterminate))
    lake.append("load", job=JOB)
    lake.append("load", job=JOB)
    assert len(lake.directories()) == 3
    for _ in range(12):
        lake.sleep(0.5)
        lake.clean()
        lake.check()
    assert lake.directories().keys() == set(lake.live())
    assert len(lake.live()) == 2


def test_an_aged_block_is_published_once_and_read_the_same_in_both_ways(lake: Lake) -> None:
    lake.append("a", publish=False)
    lake.append("b")
    assert lake.clean().discovered == (), "younger than sync_delay"
    lake.sleep(0.02)
    assert len(lake.clean().discovered) == 1
    assert lake.clean().discovered == ()
    lake.check()


def test_a_device_that_ships_late_is_published_below_the_horizon_and_refused_below_the_floor(
    lake: Lake,
) -> None:
    shipped = Lake(lake.work_dir, indexed=False, world=lake.world.__class__.manual(seed=9))
    blocks = [shipped.append(writer) for writer in "xy"]
    kept = [lake.append(writer) for writer in "ab"]
    lake.open().delete("writer = 'a'")
    lake.expects("a", 0)
    lake.aborted()
    lake.settle(12)
    ship(shipped, lake, blocks[0])
    lake.expects("x")
    assert lake.open().log.state.below_horizon(blocks[0])
    lake.sleep(0.1)
    assert lake.clean().discovered == (blocks[0],)
    lake.check()
    lake.sleep(40)
    for _ in range(3):
        lake.sleep(2.1)
        lake.clean()
    state = lake.open().log.state
    assert state.below_floor(blocks[1])
    assert state.accounted.held(kept) == [kept[1]], "the floor forgets what no block holds any more"
    ship(shipped, lake, blocks[1])
    lake.sleep(0.1)
    cleaned = lake.clean()
    assert cleaned.discovered == ()
    assert "too late" in cleaned.quarantined[blocks[1]]
    lake.check()


def ship(source: Lake, target: Lake, ulid: str) -> None:
    """Copy a block, meta.json last."""
    keys = [found.key for found in source.bucket.list(object_key(ulid, ""))]
    for key in sorted(keys, key=lambda key: key.endswith(META)):
        target.bucket.put(key, source.bucket.get(key).data)


def test_a_block_with_a_source_that_is_accounted_and_one_that_is_not_is_named_and_stops_no_other(
    lake: Lake,
) -> None:
    first = lake.append("a", publish=False)
    second = lake.append("b", publish=False)
    mixed = replace(
        successor(load_meta(lake.bucket, first), lake.world.ids.ulid(), lake.world.clock.now_ms()),
        sources=tuple(sorted((first, second))),
        level=2,
        revision=0,
    )
    for file in mixed.files:
        lake.bucket.put(
            object_key(mixed.ulid, file.path), lake.bucket.get(object_key(first, file.path)).data
        )
    lake.open().log.commit(
        Append(commit=lake.world.ids.ulid(), blocks=(load_meta(lake.bucket, first),))
    )
    lake.bucket.put(meta_key(mixed.ulid), encode(mixed))
    lake.sleep(0.1)
    cleaned = lake.clean()
    assert cleaned.discovered == (second,)
    assert "1 of its 2 sources" in cleaned.quarantined[mixed.ulid]
    assert lake.read("index") == lake.expected


def test_a_tag_keeps_its_blocks_and_not_the_later_merges_of_them(lake: Lake) -> None:
    for writer in "ab":
        lake.append(writer)
    lake.open().tag("kept")
    lake.tagged["kept"] = lake.expected.copy()
    for writer in "cde":
        lake.compact()
        lake.append(writer)
    lake.settle(12)
    lake.check()
    tagged = lake.open().log.tagged("kept").blocks.ulids()
    assert lake.directories().keys() == {*lake.live(), *tagged}
    lake.open().untag("kept")
    del lake.tagged["kept"]
    lake.settle(12)
    assert lake.directories().keys() == set(lake.live())


def test_a_tag_that_cannot_be_read_stops_every_removal(lake: Lake) -> None:
    for writer in "ab":
        lake.append(writer)
    version = lake.open().tag("kept")
    lake.compact()
    for _ in range(3):
        lake.clean()
        lake.sleep(1.5)
    before = lake.directories()
    lake.bucket.delete([checkpoint_key(version)])
    for _ in range(3):
        lake.sleep(2.1)
        assert isinstance(quietly(lake.clean), Corrupt)
    assert lake.directories() == before


@pytest.mark.parametrize("collected", [False, True])
def test_the_tag_of_a_dead_restore_is_removed_and_cleaning_continues(
    lake: Lake, collected: bool
) -> None:
    """It was to keep its version for some minutes; left alone it would keep it for ever, or stop
    all cleaning."""
    for writer in "ab":
        lake.append(writer)
    log = lake.open().log
    version, name = log.state.version, f"_restore_{lake.world.ids.ulid()}"
    tag(log, lake.world, name, version)
    lake.compact()
    lake.clean()
    assert name in lake.open().log.state.tags, "its restore may still be at work"
    if collected:
        lake.bucket.delete([checkpoint_key(version)])
    lake.settle(12)
    assert name not in lake.open().log.state.tags
    assert lake.directories().keys() == set(lake.live())
    lake.check()


def test_a_tag_that_only_looks_like_that_of_a_restore_stays(lake: Lake) -> None:
    lake.append("a")
    log = lake.open().log
    tag(log, lake.world, "_restore_later", log.state.version)
    lake.settle()
    assert "_restore_later" in lake.open().log.state.tags


# The horizon.


@pytest.mark.parametrize("before_entry", [True, False])
@pytest.mark.parametrize("days", [2.2, 4.6])
def test_a_stalled_commit_below_the_horizon_is_refused_and_comes_again(
    lake: Lake, before_entry: bool, days: float
) -> None:
    """The upload is whole and unpublished; the compactor condemns it; its writer goes on, before or
    after the removal."""
    lake.append("a")
    begun = lake.directories().keys()
    faulty = FaultyBucket(lake.bucket)
    table = lake.open(faulty)
    waiting = [True]

    def stall(call: Call) -> None:
        """After the upload's own look at its chunk, or with the entry in hand."""
        looked = call.method == "head" and "/chunks/" in call.key
        if waiting and (is_entry_put(call) if before_entry else looked):
            waiting.clear()
            lake.sleep(2.2)
            lake.clean()
            assert len(lake.marked()) == 1
            lake.sleep(days - 2.2)
            lake.clean()

    (faulty.before if before_entry else faulty.after).append(stall)
    results = [quietly(lambda: table.append(rows("slow"), job=JOB)) for _ in range(2)]
    assert isinstance(results[1], AppendedBlock)
    assert not waiting
    lake.expects("slow")
    lake.check()
    lake.settle(12)
    lake.check()
    [slow] = lake.directories().keys() - begun
    assert slow in lake.live()


def test_what_a_late_commit_named_before_the_horizon_rose_is_never_removed(lake: Lake) -> None:
    """The commit lands between the pass's look and its horizon: the second decision sees it."""
    lake.append("a")
    late = lake.unpublished("b")
    lake.sleep(2.2)
    assert plan_cleaning(lake.open()).marked[0].ulid == late.ulid
    faulty = FaultyBucket(lake.bucket)
    table, writer = lake.open(faulty), lake.open().log
    held = claim(table.log, lake.world, COMPACTOR)
    waiting = [True]

    def commit_first(call: Call) -> None:
        if is_entry_put(call) and waiting:
            waiting.clear()
            writer.commit(Append(commit=lake.world.ids.ulid(), blocks=(late,)))

    faulty.before.append(commit_first)
    cleaned = Cleaner(table, held, objects_per_s=PER_S).run()
    assert cleaned.horizon is not None
    assert cleaned.marked == ()
    assert late.ulid in lake.live()
    lake.expects("b")
    lake.settle(12)
    lake.check()


# Withdrawing, clocks, listings.


@pytest.mark.parametrize("indexed", [True, False])
def test_withdrawing_a_mark_is_honored_by_the_next_pass(tmp_path: Path, indexed: bool) -> None:
    lake = Lake(tmp_path, indexed=indexed)
    block = lake.append("a", publish=False)
    place_deletion(lake.bucket, lake.world, block, MarkReason.MANUAL)
    lake.sleep(1.9)
    lake.clean()
    withdraw_deletion(lake.bucket, lake.world, block)
    lake.sleep(0.2)
    for _ in range(6):
        lake.clean()
        lake.sleep(1.1)
    lake.check()


def test_a_mark_withdrawn_during_the_pass_is_honored_too(listed: Lake) -> None:
    block = listed.append("a")
    place_deletion(listed.bucket, listed.world, block, MarkReason.MANUAL)
    listed.sleep(2.1)
    faulty = FaultyBucket(listed.bucket)

    def withdraw(call: Call) -> None:
        """After the mark was read, and before the removal begins."""
        if call.key == deletion_mark_key(block) and call.method == "get":
            withdraw_deletion(listed.bucket, listed.world, block)

    faulty.after.append(withdraw)
    cleaned = listed.clean(faulty)
    assert cleaned.dropped == {block: "its mark was withdrawn"}
    listed.check()


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("hours", [-1.0, 1.0])
def test_a_clock_an_hour_off_deletes_nothing_earlier(
    tmp_path: Path, indexed: bool, hours: float
) -> None:
    """The store's clock decides: a pass by a process whose own clock is off does what one does
    whose clock is right."""
    lake = Lake(tmp_path, indexed=indexed)
    for writer in "abc":
        lake.append(writer)
    lake.sleep(0.1)
    lake.compact()
    lake.aborted()
    ages = [0.1, 1.9, 0.2, 1.7, 0.2, 0.05]
    for age in ages:
        lake.sleep(age)
        right, off = lake.copy(), lake.copy()
        clock = ManualClock(int(off.world.clock.now_ms() + hours * 3_600_000))
        skewed = replace(World.manual(seed=2), clock=clock)
        by_right = right.clean()
        by_off = off.clean(world=skewed)
        assert {one.ulid for one in by_off.marked} == {one.ulid for one in by_right.marked}
        assert {one.ulid for one in by_off.removed} == {one.ulid for one in by_right.removed}
        off.check(aged=False)
        lake.clean()
    lake.check()


class SecondPageFails(Wrapper):
    """A listing of two pages, the second of which does not come."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        found = [
            *self.inner.list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
        ]
        yield from found[: len(found) // 2]
        if prefix == "" and len(found) > 1:
            raise Unavailable("the second page did not come")
        yield from found[len(found) // 2 :]


class Unordered(Wrapper):
    """A listing in no order."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        found = [
            *self.inner.list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
        ]
        return iter(sorted(found, key=lambda info: hash((info.size, info.key[::-1]))))


@pytest.mark.parametrize("indexed", [True, False])
def test_a_listing_that_fails_on_its_second_page_changes_nothing(
    tmp_path: Path, indexed: bool
) -> None:
    lake = Lake(tmp_path, indexed=indexed)
    for writer in "abc":
        lake.append(writer)
    lake.sleep(0.1)
    lake.compact()
    lake.sleep(2.2)
    for _ in range(4):
        before = lake.directories()
        assert isinstance(quietly(lambda: lake.clean(SecondPageFails(lake.bucket))), Unavailable)
        assert lake.directories() == before
        lake.clean()
        lake.sleep(2.2)
    lake.check()


@pytest.mark.parametrize("indexed", [True, False])
def test_an_unordered_listing_decides_the_same(tmp_path: Path, indexed: bool) -> None:
    lake = Lake(tmp_path, indexed=indexed)
    for writer in "abcd":
        lake.append(writer)
    lake.sleep(0.1)
    lake.compact()
    for _ in range(5):
        lake.sleep(1.5)
        other = lake.copy()
        plain, unordered = lake.clean(), other.clean(Unordered(other.bucket))
        assert {one.ulid for one in unordered.removed} == {one.ulid for one in plain.removed}
        assert {one.ulid for one in unordered.marked} == {one.ulid for one in plain.marked}
        other.check()


# Who may, and what is reported.


def test_another_holder_of_the_role_stops_the_pass_and_changes_nothing(lake: Lake) -> None:
    for writer in "ab":
        lake.append(writer, publish=False)
    lake.aborted()
    lake.sleep(2.2)
    table = lake.open()
    held = claim(table.log, table.world, COMPACTOR)
    cleaner = Cleaner(table, held, objects_per_s=PER_S)
    claim(lake.open().log, lake.world, COMPACTOR)
    before = {found.key for found in lake.bucket.list()}
    with pytest.raises(Fenced):
        cleaner.run()
    assert {found.key for found in lake.bucket.list()} == before


def test_a_fenced_pass_that_has_nothing_to_commit_marks_nothing_either(lake: Lake) -> None:
    """What it would mark is accounted and needs no horizon: only the look at the role stops it."""
    for writer in "ab":
        lake.append(writer)
    lake.compact()
    lake.append("c")
    lake.sleep(2.1)
    lake.append("d")
    for _ in range(2):
        lake.clean()
        lake.sleep(0.001)
        withdrawn = [withdraw_deletion(lake.bucket, lake.world, block) for block in lake.marked()]
    assert withdrawn, "there is something to mark"
    table = lake.open()
    held = claim(table.log, table.world, COMPACTOR)
    assert plan_cleaning(lake.open()).horizon is None
    assert plan_cleaning(lake.open()).marked != ()
    cleaner = Cleaner(table, held, objects_per_s=PER_S)
    claim(lake.open().log, lake.world, COMPACTOR)
    with pytest.raises(Fenced):
        cleaner.run()
    assert lake.marked() == set()


def test_a_claim_during_the_pass_stops_it_at_its_next_commit(lake: Lake) -> None:
    lake.append("a", publish=False)
    lake.aborted()
    lake.sleep(2.2)
    faulty = FaultyBucket(lake.bucket)
    table = lake.open(faulty)
    held = claim(table.log, table.world, COMPACTOR)
    faulty.after.append(
        lambda call: (
            claim(lake.open().log, lake.world, COMPACTOR) and None
            if call.method == "list"
            else None
        )
    )
    with pytest.raises(Fenced):
        Cleaner(table, held, objects_per_s=PER_S).run()
    assert lake.marked() == set()


def test_a_role_belongs_to_an_index_and_only_there(lake: Lake, listed: Lake) -> None:
    listed.append("a")
    held = claim(lake.open().log, lake.world, COMPACTOR)
    with pytest.raises(Invalid, match="claim it first"):
        Cleaner(lake.open(), None)
    with pytest.raises(Invalid, match="in no role"):
        Cleaner(listed.open(), held)


def test_a_wreck_and_a_failing_block_stop_no_other(lake: Lake) -> None:
    wreck = lake.garbage()
    blocks = [lake.append(writer) for writer in "abcd"]
    lake.compact()
    for _ in range(3):
        lake.sleep(1.5)
        lake.clean()
    lake.sleep(2.1)
    faulty = FaultyBucket(lake.bucket)

    def locked(call: Call) -> None:
        if call.method == "delete" and call.key.startswith(blocks[1]):
            raise Invalid("the object is locked")

    faulty.before.append(locked)
    cleaned = lake.clean(faulty)
    assert cleaned.failed.keys() == {blocks[1]}
    assert {one.ulid for one in cleaned.removed} == {blocks[0], *blocks[2:]}
    assert cleaned.quarantined.keys() == {wreck}
    lake.check()
    assert {one.ulid for one in lake.clean().removed} == {blocks[1]}


@pytest.mark.parametrize("indexed", [True, False])
def test_a_dry_run_reports_what_a_pass_then_does_and_changes_nothing(
    tmp_path: Path, indexed: bool
) -> None:
    lake = Lake(tmp_path, indexed=indexed)
    for writer in "abc":
        lake.append(writer, publish=False)
    lake.aborted()
    lake.sleep(0.1)
    for _ in range(7):
        lake.compact()
        before = {found.key for found in lake.bucket.list()}
        planned = plan_cleaning(lake.open())
        assert {found.key for found in lake.bucket.list()} == before
        assert planned.dry_run
        table = lake.open()
        held = claim(table.log, table.world, COMPACTOR) if indexed else None
        done = Cleaner(table, held, objects_per_s=PER_S).run()
        would, did = planned.to_json(), done.to_json()
        for name in (
            "discovered",
            "marked",
            "withdrawn",
            "removed",
            "objects",
            "bytes",
            "quarantined",
            "horizon",
        ):
            assert would[name] == did[name], name
        lake.sleep(1.1)


def test_requests_of_a_quiet_pass_do_not_grow_with_the_table(lake: Lake) -> None:
    """A pass over blocks that the index holds live costs one LIST and a few GETs, and reads no
    meta.json."""
    counts = []
    for number in range(3):
        for writer in range(5):
            lake.append(f"{number}-{writer}")
        lake.sleep(0.1)
        faulty = FaultyBucket(lake.bucket)
        table = lake.open(faulty)
        held = claim(table.log, table.world, COMPACTOR)
        cleaner = Cleaner(table, held, objects_per_s=PER_S)
        cleaner.run()
        faulty.calls.clear()
        assert not cleaner.run().changed
        assert [call for call in faulty.calls if call.key.endswith(META)] == []
        counts.append(len(faulty.calls))
    assert len(set(counts)) == 1
    assert counts[0] <= 8


def test_a_store_that_lists_milliseconds_and_responds_in_seconds_is_understood(
    listed: Lake,
) -> None:
    class WholeSeconds(Wrapper):
        def head(self, key: str) -> ObjectInfo:
            found = self.inner.head(key)
            return replace(found, modified_ms=found.modified_ms // 1000 * 1000)

    block = listed.append("a")
    listed.sleep(0.5 / DAY_S)
    place_deletion(listed.bucket, listed.world, block, MarkReason.MANUAL)
    listed.sleep(2.1)
    assert [one.ulid for one in listed.clean(WholeSeconds(listed.bucket)).removed] == [block]


def test_an_upload_of_two_days_that_still_writes_chunks_is_left_alone(lake: Lake) -> None:
    slow = lake.world.ids.ulid()
    for number in range(1, 6):
        lake.bucket.put(object_key(slow, chunk_path(number)), b"more")
        lake.sleep(1.5)
        assert lake.clean().marked == ()
    assert isinstance(lake.bucket, MemoryBucket)
    assert len(lake.directories()[slow]) == 5


def test_a_listing_that_lasted_half_a_delete_delay_removes_nothing(listed: Lake) -> None:
    """A decision is as old as the moment at which its listing was requested, not that at which it
    was whole."""
    block = listed.append("a")
    place_deletion(listed.bucket, listed.world, block, MarkReason.MANUAL)
    listed.sleep(2.1)
    faulty = FaultyBucket(listed.bucket)

    def last(call: Call) -> None:
        if call.method == "list":
            faulty.after.remove(last)
            listed.sleep(1.1)

    faulty.after.append(last)
    cleaned = listed.clean(faulty)
    assert (cleaned.removed, cleaned.dropped) == ((), {block: OLD_LOOK})
    assert [one.ulid for one in listed.clean().removed] == [block], "the next pass decides again"


def test_a_merge_that_slept_after_its_second_look_brings_no_deleted_row_back(
    tmp_path: Path,
) -> None:
    """On a table without an index nothing refuses it: its looks are no older than delete_delay/2,
    or it is dropped (R10)."""
    listed = Lake(tmp_path, indexed=False)
    blocks = [listed.append(writer) for writer in "abcd"]
    listed.sleep(0.5)
    faulty = FaultyBucket(listed.bucket)
    uploaded: list[str] = []

    def fall_asleep(call: Call) -> None:
        if call.writes and "/chunks/" in call.key:
            uploaded.append(call.key)
        if call.method == "list" and call.key == "" and uploaded:
            faulty.after.remove(fall_asleep)
            listed.sleep(1.9)
            place_deletion(listed.bucket, listed.world, blocks[0], MarkReason.MANUAL)
            listed.sleep(0.6)

    faulty.after.append(fall_asleep)
    listed.compact(faulty)
    listed.expects("a", 0)
    listed.sleep(0.5)
    listed.check()


def test_a_lying_checkpoint_lets_nothing_be_marked_or_removed(lake: Lake) -> None:
    """The blocks that it leaves out were accounted, and no version named them: they were marked,
    and two days later gone."""
    for writer in ("a", "b", "c"):
        lake.append(writer, job=Job(app="load", batch=ord(writer)))
    lake.sleep(3)
    lake.append("d")
    lake.clean()
    (boundary,) = lake.open().log.reader.checkpoints(0)
    lie(lake.bucket, boundary)
    before = lake.directories()
    for _ in range(3):
        with pytest.raises(Corrupt, match="checkpoint"):
            lake.clean()
        lake.sleep(2.1)
    assert lake.directories() == before

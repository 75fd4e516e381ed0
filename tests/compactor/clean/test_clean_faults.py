"""Planted faults in cleaning: each breaks one rule, in a case in which the correct code keeps every
row.

Every case runs twice: without the fault, and with it, which must be detected. What is detected is
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.compactor.clean import cleaner as clean
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import BlockCondemned, BlockstoreError
from blockstore.format.block import Job
from blockstore.format.marks import MarkReason
from blockstore.ids import MAX_ULID
from blockstore.index.change import Append
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.index.reachable import Kept, Named
from blockstore.lifecycle.by_index import ByIndex
from blockstore.lifecycle.mark import place_deletion
from blockstore.lifecycle.sight import Sight
from blockstore.names import BOUNDARY, META
from tests.compactor.clean.test_slow_upload import sources
from tests.compactor.lake import PER_S, Lake, is_entry_put, rows
from tests.support.faulty import Call, FaultyBucket
from tests.support.turns import Turns

Story = Callable[[Path], None]
JOB = Job(app="slow", batch=1)


def stalled_commit(work_dir: Path) -> None:
    """A job is uploaded; its writer stalls until the compactor is through with the block, and then
    commits."""
    lake = Lake(work_dir)
    lake.append("a")
    faulty = FaultyBucket(lake.bucket)
    table = lake.open(faulty)
    waiting = [True]

    def stall(call: Call) -> None:
        if call.method == "head" and "/chunks/" in call.key and waiting:
            waiting.clear()
            for _ in range(2):
                lake.sleep(2.2)
                lake.clean()

    faulty.after.append(stall)
    try:
        table.append(rows("slow"), job=JOB)
    except BlockCondemned:
        table.append(rows("slow"), job=JOB)
    lake.expects("slow")
    lake.check()


def late_commit(work_dir: Path) -> None:
    """A writer comes back between the compactor's look and its horizon, and commits."""
    lake = Lake(work_dir)
    lake.append("a")
    late = lake.unpublished("slow")
    lake.sleep(2.2)
    faulty = FaultyBucket(lake.bucket)
    table, writer = lake.open(faulty), lake.open().log
    held = claim(table.log, lake.world, COMPACTOR)
    waiting = [True]

    def commit_first(call: Call) -> None:
        if is_entry_put(call) and waiting:
            waiting.clear()
            writer.commit(Append(commit=lake.world.ids.ulid(), blocks=(late,), job=late.job))

    faulty.before.append(commit_first)
    assert Cleaner(table, held, objects_per_s=PER_S).run().horizon is not None
    lake.expects("slow")
    assert lake.marked() == set(), "a block that a version names was marked"
    lake.check()


def tagged_late(work_dir: Path) -> None:
    """A block that a person had marked by hand leaves the table; just when its removal is decided,
    a version that has it is tagged, and the index is collected past it."""
    lake = Lake(work_dir)
    lake.open().alter(properties={"history_retention": "1h"})
    block = lake.append("a")
    lake.append("b")
    version, before = lake.open().poll(), lake.expected.copy()
    place_deletion(lake.bucket, lake.world, block, MarkReason.MANUAL)
    lake.sleep(2.1)
    lake.open().delete("writer = 'a'")
    lake.expects("a", 0)
    faulty = FaultyBucket(lake.bucket)
    table, other = lake.open(faulty), lake.open()
    held = claim(table.log, lake.world, COMPACTOR)

    def meanwhile(call: Call) -> None:
        """After the pass has read its boundary, or its state, for the first time."""
        calls = faulty.calls[:-1]
        if (
            lake.tagged
            or not calls
            or calls[-1].key != BOUNDARY
            or "" not in {one.key for one in calls}
        ):
            return
        lake.tagged["late"] = before
        other.tag("late", version=version)
        for writer in "cd":
            lake.sleep(0.1)
            lake.append(writer)
        assert collect(other.log, lake.world, held=held).boundary > version + 1

    faulty.before.append(meanwhile)
    cleaner = Cleaner(table, held, objects_per_s=PER_S)
    faulty.calls.clear()
    cleaner.run()
    assert lake.tagged
    lake.check()


def half_removed(work_dir: Path) -> None:
    """An upload ends while its remover pauses before its chunks, and another pass looks at the
    complete block."""
    lake = Lake(work_dir, indexed=False)
    lake.append("a")
    lake.append("b")
    before = lake.directories().keys()
    turns: Turns

    def upload(bucket: FaultyBucket) -> None:
        lake.open(bucket).append(rows("slow"))

    def clean_late(bucket: FaultyBucket) -> None:
        bucket.list("nothing")
        lake.clean(bucket)

    def script() -> Iterator[str]:
        yield from until("uploader", lambda call: call.key.endswith(META))
        lake.sleep(2.1)
        lake.clean()
        lake.sleep(2.1)
        yield "remover"
        yield from until("remover", lambda call: call.method == "delete")
        yield "uploader"
        for name in ("other", "uploader", "remover"):
            yield from until(name, lambda call: False)

    def until(name: str, stop: Callable[[Call], bool]) -> Iterator[str]:
        while (call := turns.pending(name)) is not None and not stop(call):
            yield name

    turns = Turns(lake.bucket, {"uploader": upload, "remover": clean_late, "other": clean_late})
    assert turns.play(script()) == {}
    lake.sleep(0.1)
    seen = sources(lake)
    assert len(seen.keys() - before) == 1, "the acknowledged rows are gone"
    assert set(seen.values()) == {1}


STORIES: tuple[Story, ...] = (stalled_commit, late_commit, tagged_late, half_removed)


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_the_honest_code_keeps_every_row(story: Story, tmp_path: Path) -> None:
    story(tmp_path)


def caught(story: Story, work_dir: Path) -> str:
    """What is seen of a planted fault."""
    try:
        story(work_dir)
    except (AssertionError, BlockstoreError) as error:
        said = f"{story.__name__}: {type(error).__name__}: {str(error).splitlines()[0]}"
        print(f"caught: {said}")
        return said
    raise AssertionError(f"{story.__name__} did not see it")


def test_a_horizon_that_is_raised_after_the_removal_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debris is judged by the next horizon, which refuses no commit yet."""
    honest = ByIndex.__init__

    def to_come(self: ByIndex, sight: Sight, state: object, horizon: str | None = None) -> None:
        honest(self, sight, state, MAX_ULID)  # type: ignore[arg-type]

    monkeypatch.setattr(ByIndex, "__init__", to_come)
    monkeypatch.setattr(clean, "horizon_to_raise", lambda sight: None)
    assert "is missing" in caught(stalled_commit, tmp_path)


def test_a_horizon_without_the_second_decision_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen before the horizon's entry is marked after it, as if that entry were all that
    had happened."""
    honest = clean._look
    looks: list[object] = []

    def once(table: object, kept: object, held: object) -> object:
        if looks:
            first = looks[0]
            highest = clean.horizon_to_raise(first.sight)  # type: ignore[attr-defined]
            named = first.sight.named  # type: ignore[attr-defined]
            raised = replace(named, state=replace(named.state, horizon=highest))
            return replace(first, sight=replace(first.sight, named=raised))  # type: ignore[attr-defined]
        looks.append(honest(table, kept, held))  # type: ignore[arg-type]
        return looks[0]

    monkeypatch.setattr(clean, "_look", once)
    assert "was marked" in caught(late_commit, tmp_path)


def test_a_removal_that_reads_the_state_before_the_boundary_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Kept.look

    def turned(self: Kept) -> Named:
        state = self._log.poll()
        boundary = self._log.boundary.read()
        if not (self._follow(boundary, state) and self._load_tags(boundary, state)):
            return honest(self)
        return Named(
            boundary=boundary, state=state, removed=self._removed, tagged=dict(self._tagged)
        )

    monkeypatch.setattr(Kept, "look", turned)
    assert caught(tagged_late, tmp_path)


def test_a_partial_mark_that_is_withdrawn_at_once_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sight, "outlived_old_looks", lambda self, one: True)
    assert "gone" in caught(half_removed, tmp_path)

"""Merges of rows that have an identity, killed anywhere, beside writers and beside each other; and
what each rule is there for: without it a check fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from blockstore.compactor.merge import chunkrun
from blockstore.compactor.plan.jobs import PlannedJob, Reason
from blockstore.compactor.plan.observe import Observation
from blockstore.compactor.run.change import Compact
from blockstore.compactor.run.once import plan_seen, plan_table
from blockstore.compactor.run.report import Outcome
from blockstore.errors import BlockstoreError
from blockstore.format.block import BlockKind
from blockstore.format.identity import ROW_ID
from blockstore.index.change import Draft
from blockstore.index.state import State
from blockstore.names import chunk_path, object_key
from blockstore.scan.shadows import Rest, StreamShadows
from tests.compactor.run.changing import DAY_S, Changing, job_of
from tests.compactor.scene import small_chunks
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_many_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def by_id(tmp_path: Path, row_history: str = "forever") -> Changing:
    """Two plain blocks, and changes of rows of both: updates, a new row, tombstones."""
    made = Changing(tmp_path, True, row_history)
    made.insert(range(5))
    made.insert(range(5, 10))
    made.set({1: 20, 6: 21})
    made.put_new({1: 22, 7: 23}, [30])
    made.delete([2, 8])
    return made


def by_key(tmp_path: Path, row_history: str = "forever") -> Changing:
    """The same with a key, over a plain block that a merge has made."""
    made = Changing(tmp_path, False, row_history)
    made.put((one, one) for one in range(4))
    made.put((one, one) for one in range(4, 8))
    made.compact()
    assert [block.meta.kind for block in made.open().log.state.blocks] == [BlockKind.PLAIN]
    made.put([(1, 20), (6, 21), (9, 22)])
    made.delete([2, 9])
    return made


MAKE: dict[str, Callable[..., Changing]] = {"row ids": by_id, "key": by_key}
every_identity = pytest.mark.parametrize("what", MAKE)


def all_of(kind: BlockKind) -> Callable[[Observation], PlannedJob | None]:
    return lambda seen: job_of(seen, kind, lambda own: own)


def one_of(kind: BlockKind) -> Callable[[Observation], PlannedJob | None]:
    return lambda seen: job_of(seen, kind, lambda own: own[:1])


JOBS: dict[str, Callable[[Observation], PlannedJob | None]] = {
    "changes": all_of(BlockKind.CHANGES),
    "plain": all_of(BlockKind.PLAIN),
    "purge": one_of(BlockKind.PLAIN),
    "one block of changes": one_of(BlockKind.CHANGES),
}


@every_identity
@pytest.mark.parametrize("job", JOBS)
def test_each_kind_of_job_keeps_every_version(tmp_path: Path, what: str, job: str) -> None:
    made = MAKE[what](tmp_path)
    made.check()
    seen = made.look()
    planned = JOBS[job](seen)
    assert planned is not None
    assert made.run(planned, seen).outcome is Outcome.COMMITTED
    made.check()


@every_identity
@pytest.mark.parametrize("row_history", ["forever", "none"])
def test_a_table_comes_to_rest_as_plain_rows_alone(
    tmp_path: Path, what: str, row_history: str
) -> None:
    made = MAKE[what](tmp_path, row_history)
    reasons = set()
    for _ in range(4):
        reasons |= {result.job.reason for result in made.compact().results}
        made.check()
        assert plan_table(made.open(), made.settings) == ()
        made.world.clock.sleep(DAY_S)
    kinds = [block.meta.kind for block in made.open().log.state.blocks]
    assert kinds.count(BlockKind.PLAIN) == 1
    assert kinds.count(BlockKind.CHANGES) == 0
    assert kinds.count(BlockKind.HISTORY) == (row_history == "forever")
    assert made.compact().results == ()
    assert Reason.CHANGES in reasons


@every_identity
@pytest.mark.parametrize("job", JOBS)
def test_a_merge_never_conflicts_with_changes(tmp_path: Path, what: str, job: str) -> None:
    made = MAKE[what](tmp_path)
    seen = made.look()
    planned = JOBS[job](seen)
    assert planned is not None
    made.set({0: 40, 1: 41, 6: 42})
    made.delete([3, 7])
    made.insert([50])
    assert made.run(planned, seen).outcome is Outcome.COMMITTED
    made.check()
    made.compact()
    made.check()


@every_identity
def test_the_jobs_of_one_plan_do_not_conflict_with_each_other(tmp_path: Path, what: str) -> None:
    made = MAKE[what](tmp_path)
    seen = made.look()
    jobs = plan_seen(seen, made.settings)
    assert len(jobs) >= 2
    for job in jobs:
        assert made.run(job, seen).outcome is Outcome.COMMITTED
        made.check()


@every_identity
def test_of_two_compactors_one_wins(tmp_path: Path, what: str) -> None:
    made = MAKE[what](tmp_path)
    faulty, waiting = FaultyBucket(made.bucket), [True]

    def overtake(call: Any) -> None:
        if call.method == "put_if_absent" and call.key.startswith("index/0") and waiting:
            waiting.clear()
            made.compact()

    faulty.before.append(overtake)
    made.compact(faulty)
    made.check()


@every_identity
@pytest.mark.parametrize("lost", [False, True], ids=["dies", "loses an answer"])
def test_a_compactor_may_die_anywhere(tmp_path: Path, what: str, lost: bool) -> None:
    origin = MAKE[what](tmp_path)
    clean = origin.copy()
    counting = FaultyBucket(clean.bucket)
    clean.compact(counting)
    for fault, call in crash_points(counting.calls):
        number = call.number
        if (fault == "lose_answer") is not lost or (lost and not call.writes and number % 7):
            continue
        tally("crash points")
        made = origin.copy()
        limit: Any = {number} if lost else number
        try:
            made.compact(FaultyBucket(made.bucket, **{fault: limit}))
        except (Killed, BlockstoreError):
            pass
        made.check()
        made.set({0: number, 6: number})
        made.compact()
        made.check()


def test_what_was_uploaded_whole_is_committed_unless_it_left_out_rows(tmp_path: Path) -> None:
    for history in (False, True):
        made = Changing(tmp_path, True)
        made.insert(range(3))
        made.insert(range(3))
        if history:
            made.set({0: 7})
        faulty = FaultyBucket(made.bucket)

        def die(call: Any) -> None:
            if call.method == "put_if_absent" and call.key.startswith("index/0"):
                raise Killed("before the entry")

        faulty.before.append(die)
        with pytest.raises(Killed):
            made.compact(faulty)
        reasons = [result.job.reason for result in made.compact().results]
        assert (Reason.RESUME in reasons) is not history
        made.check()


def test_of_rows_without_a_history_former_versions_are_gone(tmp_path: Path) -> None:
    made = by_id(tmp_path, "none")
    for _ in range(3):
        made.compact()
        made.world.clock.sleep(DAY_S)
    assert sum(block.meta.rows for block in made.open().log.state.blocks) == len(
        made.oracle.current()
    )


def test_a_block_that_cannot_be_read_keeps_its_stream_alone(tmp_path: Path) -> None:
    made = by_id(tmp_path)
    block = next(one for one in made.open().log.state.blocks if one.meta.kind is BlockKind.CHANGES)
    key = object_key(block.ulid, chunk_path(1))
    data = made.bucket.get(key).data
    made.bucket.put(key, b"0" * len(data))
    report = made.compact()
    assert report.left_out.keys() == {block.ulid}
    assert report.results == ()
    made.bucket.put(key, data)
    made.check()


# Without a rule a check fails.


def hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tombstone is dropped."""
    keep = StreamShadows.rest_of

    def rest_of(self: StreamShadows, ulids: Any) -> Rest:
        rest = keep(self, ulids)
        gone = dict(rest.left_out)
        for ulid in ulids:
            block = self.changes[ulid]
            for key, positions in block.by_chunk(block.deleted).items():
                gone[key] = np.union1d(gone.get(key, positions), positions)
        return replace(rest, left_out=gone)

    monkeypatch.setattr(StreamShadows, "rest_of", rest_of)


def plain_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes become plain although older versions are left outside."""
    keep = StreamShadows.rest_of
    monkeypatch.setattr(
        StreamShadows,
        "rest_of",
        lambda self, ulids: replace(keep(self, ulids), kind=BlockKind.PLAIN),
    )


def history_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is left to another entry, which a process that dies never writes."""
    keep = Compact.draft

    def draft(self: Compact, state: State) -> Draft:
        return replace(keep(self, state), add=keep(replace(self, history=None), state).add)

    monkeypatch.setattr(Compact, "draft", draft)


def ids_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids that the index gives to new rows are not filled in."""
    keep = chunkrun.column

    def column(name: str, rows: pa.Table, implied: Any, places: Any) -> pa.Array:
        known = replace(implied, first_row_id=0) if name == ROW_ID else implied
        return keep(name, rows, known, places)

    monkeypatch.setattr(chunkrun, "column", column)


@pytest.mark.parametrize("plant", [hide_nothing, plain_too_soon, history_apart, ids_from_zero])
def test_a_planted_fault_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    made = Changing(tmp_path, True)
    made.insert(range(5))
    made.insert(range(5, 10))
    made.set({1: 20, 6: 21})
    if plant is not plain_too_soon:
        made.delete([2, 8])
    made.put_new({1: 22}, [30])
    made.check()
    plant(monkeypatch)
    for job in (JOBS["changes"], JOBS["plain"]):
        seen = made.look()
        planned = job(seen)
        assert planned is not None
        assert made.run(planned, seen).outcome is Outcome.COMMITTED
    with pytest.raises(AssertionError):
        made.check()

"""An entry that a writer of a replaced history left above a gap: what verify says of it, and how
repair removes it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Severity
from blockstore.care.repair import RepairOptions, RepairPlan, StepKind, carry_out, plan_repair
from blockstore.care.verify import verify
from blockstore.errors import Corrupt, Invalid, NotFound
from blockstore.index.log import Log, create
from blockstore.names import entry_key
from blockstore.world import World
from tests.support.index_data import DEFINITION, append
from tests.support.put_back import copy_of, put_back


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    """Version 2, and above it entry 5 of a history that went on to version 5."""
    log = create(bucket, world, DEFINITION)
    log.commit(append(1))
    copy = copy_of(bucket)
    for number in (2, 3, 4):
        log.commit(append(number))
    stale = bucket.get(entry_key(5)).data
    put_back(bucket, copy)
    held = Log(bucket, world)
    held.poll()
    bucket.put(entry_key(5), stale)
    return held


def plan(bucket: MemoryBucket, world: World, entry: int) -> RepairPlan:
    return plan_repair(bucket, world, None, RepairOptions(stale_entry=entry))


@pytest.mark.usefixtures("log")
def test_it_is_shown_with_who_wrote_it_and_removed_by_a_repair(
    bucket: MemoryBucket, world: World
) -> None:
    with pytest.raises(Corrupt):
        Log(bucket, world).poll()
    (fix,) = {found.fix for found in verify(bucket, world).errors if found.object == entry_key(3)}
    assert "blockstore repair memory:// --stale-entry 5" in fix
    found = plan(bucket, world, 5)
    (step,) = found.steps
    assert step.kind is StepKind.STALE
    for said in ("append of 10 rows by ", "blockstore", "commit ", "3 to 4 missing"):
        assert said in step.what
    assert [done.failed for done in carry_out(bucket, None, found)] == [False]
    assert Log(bucket, world).poll().version == 2


def test_an_entry_that_follows_on_the_one_below_is_never_removed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    with pytest.raises(Invalid, match="follows entry 1"):
        plan(bucket, world, 2)
    with pytest.raises(NotFound):
        plan(bucket, world, 9)
    found = plan(bucket, world, 5)
    for number in (10, 11):
        log.commit(append(number))
    (done,) = carry_out(bucket, None, found)
    assert (done.failed, "grown past it" in done.summary) == (True, True)
    assert log.commit(append(12)).version == 6
    assert Log(bucket, world).state == log.state


def test_one_that_the_history_outgrows_during_the_removal_is_put_back(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan(bucket, world, 5)
    delete = bucket.delete

    def overtaken(keys: list[str]) -> None:
        for number in (10, 11, 12):
            log.commit(append(number))
        delete(keys)

    monkeypatch.setattr(bucket, "delete", overtaken)
    (done,) = carry_out(bucket, None, found)
    assert done.failed
    assert Log(bucket, world).state == log.state
    assert log.state.version == 6


def test_a_void_entry_is_a_note(bucket: MemoryBucket, world: World, log: Log) -> None:
    for number in (10, 11, 12):
        log.commit(append(number))
    report = verify(bucket, world)
    (note,) = [found for found in report if found.object == entry_key(5)]
    assert note.severity is Severity.NOTE
    assert "written on top of another history and is void" in note.what

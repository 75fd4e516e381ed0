"""A collector under which a copy is put back, or the table is made again, once it has decided what
goes: it takes nothing of what is there then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import BoundaryLost, HistoryReplaced
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.tags import tag, untag
from blockstore.names import BOUNDARY, CHECKPOINTS, INDEX, entry_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, append
from tests.support.put_back import copy_of, put_back, wipe

LAST = 15


def at_the_last_look(
    faulty: FaultyBucket, action: Callable[[], object], *, key: str = entry_key(LAST)
) -> None:
    """Let something happen right before a request of the look that comes after the second read."""
    expected = [entry_key(LAST + 1), entry_key(LAST), BOUNDARY]
    expected = expected[: expected.index(key) + 1]

    def hook(call: Call) -> None:
        moved = any(one.method == "put_if_match" for one in faulty.calls)
        if moved and call.method == "get" and call.key == expected[0]:
            expected.pop(0)
            if not expected:
                faulty.before.remove(hook)
                action()

    faulty.before.append(hook)


def made_again(bucket: Bucket, world: World) -> None:
    wipe(bucket)
    create(bucket, world, DEFINITION).commit(append(200))


def test_no_entry_of_a_table_that_was_made_again_goes(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    faulty = FaultyBucket(bucket)
    collector = Log(faulty, world)
    at_the_last_look(faulty, lambda: made_again(bucket, world))
    with pytest.raises(HistoryReplaced):
        collect(collector, world)
    assert Log(bucket, world).state.version == 2
    assert not [call for call in faulty.calls if call.method == "delete"]


@pytest.mark.parametrize("key", [entry_key(LAST), BOUNDARY])
def test_no_entry_above_the_boundary_of_a_copy_that_ends_with_the_same_entry_goes(
    bucket: MemoryBucket, world: World, aged: Log, key: str
) -> None:
    """The latest entry does not show that the boundary fell, so that is read after it."""
    copy = copy_of(bucket)
    faulty = FaultyBucket(bucket)
    collector = Log(faulty, world)
    at_the_last_look(faulty, lambda: put_back(bucket, copy), key=key)
    with pytest.raises(BoundaryLost, match="fell"):
        collect(collector, world)
    assert copy_of(bucket) == copy
    assert Log(bucket, world).at(1).version == 1


def test_no_checkpoint_goes_that_a_tag_of_a_copy_pins(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    """Its boundary is the same, and in the history that it replaces the tag was gone."""
    tag(aged, world, "kept", 3)
    collect(aged, world)
    copy = copy_of(bucket)
    untag(aged, world, "kept")
    latest = aged.poll().version
    faulty = FaultyBucket(bucket)
    collector = Log(faulty, world)
    polled: list[Call] = []

    def strike(call: Call) -> None:
        if call.method == "get" and call.key == entry_key(latest + 1):
            polled.append(call)
        if len(polled) > 1 and call.key == entry_key(latest):
            faulty.before.remove(strike)
            put_back(bucket, copy)

    collector.poll()
    faulty.before.append(strike)
    with pytest.raises(HistoryReplaced):
        collect(collector, world)
    assert copy_of(bucket) == copy
    assert Log(bucket, world).tagged("kept").version == 3


def test_each_batch_is_looked_at_again(
    bucket: MemoryBucket, world: World, aged: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.index.gc._BATCH", 4)
    faulty = FaultyBucket(bucket)
    ensure_checkpoint(bucket, aged.at(5))
    done = collect(Log(faulty, world), world)
    assert (done.boundary, done.entries, done.checkpoints) == (9, 9, 1)
    made = [(call.method, call.key) for call in faulty.calls]
    gone = [at for at, (method, _) in enumerate(made) if method == "delete"]
    begins = [at for at in gone if made[at - 1][0] != "delete"]
    assert len(begins) == 4
    for at in begins:
        assert made[at - 2 : at] == [("get", entry_key(LAST)), ("get", BOUNDARY)]
    left = {info.key for info in bucket.list(INDEX)}
    assert entry_key(9) not in left
    assert len([key for key in left if key.startswith(CHECKPOINTS)]) == 1

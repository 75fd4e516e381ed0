"""An entry that was sent, and whose boundary could not be read: what becomes of it once the
boundary is there again."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BoundaryLost, Conflict, HistoryReplaced, Indeterminate, Unanswered
from blockstore.index.change import Tag
from blockstore.index.log import Log, create
from blockstore.names import BOUNDARY, entry_key, meta_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, append, ulid
from tests.support.put_back import copy_of, put_back


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    return create(bucket, world, DEFINITION)


def left_unchecked(bucket: MemoryBucket, world: World, number: int, *, others: int = 0) -> Log:
    """A writer whose entry was created, or found taken, and whose boundary went before it was
    checked."""
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    writer.poll()
    for other in range(others):
        Log(bucket, world).commit(append(20 + other))
    created = entry_key(writer.state.version + 1)
    faulty.before.append(
        lambda call: (
            bucket.delete([BOUNDARY])
            if (call.method, call.key) == ("put_if_absent", created)
            else None
        )
    )
    with pytest.raises(BoundaryLost):
        writer.commit(append(number))
    faulty.before.clear()
    return writer


@pytest.mark.parametrize("others", [0, 1, 3])
def test_what_was_sent_before_the_boundary_went_is_not_sent_again(
    bucket: MemoryBucket, world: World, log: Log, others: int
) -> None:
    """A copy that is as new as the writer's state is put back: the entry below is there, and the
    block that was sent is gone."""
    log.commit(append(1))
    copy = copy_of(bucket)
    writer = left_unchecked(bucket, world, 2, others=others)
    put_back(bucket, copy)
    assert writer.commit(append(3)).version == 3
    assert Log(bucket, world).state.blocks.ulids() == [ulid(1), ulid(3)]


def test_an_entry_that_was_created_is_found_once_the_boundary_is_back(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    log.commit(append(1))
    boundary = bucket.get(BOUNDARY).data
    writer = left_unchecked(bucket, world, 2)
    bucket.put(BOUNDARY, boundary)
    assert writer.commit(append(3)).version == 4
    assert Log(bucket, world).state.blocks.ulids() == [ulid(1), ulid(2), ulid(3)]


def test_what_a_commit_saw_that_ended_in_an_error_is_no_look_of_the_next_one(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """It read another's entry, met a conflict, and the table was put back right then."""
    copy = copy_of(bucket)
    log.commit(append(1))
    writer = Log(bucket, world)
    writer.poll()
    log.commit(Tag(commit=ulid(90), name="t", version=1))
    with pytest.raises(Conflict):
        writer.commit(Tag(commit=ulid(91), name="t", version=2))
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(2))
    assert copy_of(bucket) == copy, "no stale entry is left"


@pytest.mark.parametrize("is_there", [True, False], ids=["its block is there", "its block is gone"])
def test_what_an_earlier_operation_sent_is_sent_again_only_while_its_block_is_there(
    bucket: MemoryBucket, world: World, log: Log, is_there: bool
) -> None:
    """A copy was put back that is as new as the writer's state and older than its block."""
    log.commit(append(1))
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world, patience_s=1)
    writer.poll()

    def unanswered(call: Call) -> None:
        if (call.method, call.key) == ("put_if_absent", entry_key(3)):
            raise Unanswered("lost on its way")

    faulty.before.append(unanswered)
    with pytest.raises(Indeterminate):
        writer.commit(append(2))
    faulty.before.clear()
    if is_there:
        assert writer.commit(append(3)).version == 4
        assert Log(bucket, world).state.blocks.ulids() == [ulid(1), ulid(2), ulid(3)]
        return
    bucket.delete([meta_key(ulid(2))])
    with pytest.raises(HistoryReplaced, match="was there and is gone"):
        writer.commit(append(3))
    assert Log(bucket, world).state.version == 2

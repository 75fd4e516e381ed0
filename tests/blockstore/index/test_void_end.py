"""Handles whose state ends with a void entry: that this entry is there shows nothing of those below
it, for it may have been there before they were, and a copy of then may be put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Contended, Corrupt, HistoryReplaced
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.tags import tag
from blockstore.names import checkpoint_key, entry_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, append, ulid
from tests.support.put_back import copy_of, put_back

STRAY = 3
"""The entry that a stalled writer of another history leaves, above a gap."""


@pytest.fixture
def gap(bucket: MemoryBucket, world: World, log: Log) -> dict[str, bytes]:
    """A copy in which entry 2 is missing; in the bucket it was written since."""
    assert log.poll().version == 1
    elsewhere = MemoryBucket(world.clock)
    other = create(elsewhere, world, DEFINITION)
    for number in (50, 51):
        other.commit(append(number))
    bucket.put_if_absent(entry_key(STRAY), elsewhere.get(entry_key(STRAY)).data)
    copy = copy_of(bucket)
    log.commit(append(1))
    return copy


@pytest.fixture
def faulty(bucket: MemoryBucket) -> FaultyBucket:
    return FaultyBucket(bucket)


@pytest.fixture
def writer(faulty: FaultyBucket, world: World, gap: dict[str, bytes]) -> Log:
    """A handle at the version that is void."""
    writer = Log(faulty, world)
    state = writer.poll()
    assert (state.version, state.void) == (STRAY, (STRAY,))
    return writer


def at_the_put(faulty: FaultyBucket, action: Callable[[], None], entry: int = STRAY + 1) -> None:
    """Let something happen right before the first PUT of an entry."""

    def hook(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(entry):
            faulty.before.remove(hook)
            action()

    faulty.before.append(hook)


def other_filling(bucket: MemoryBucket, world: World, gap: dict[str, bytes]) -> Log:
    """The copy is put back, and another entry written where the gap was."""
    put_back(bucket, {key: data for key, data in gap.items() if key != entry_key(STRAY)})
    held = Log(bucket, world)
    held.poll()
    bucket.put(entry_key(STRAY), gap[entry_key(STRAY)])
    held.commit(append(10))
    assert held.poll().void == (STRAY,)
    return held


def test_a_void_end_is_no_reason_to_refuse(
    bucket: MemoryBucket, world: World, writer: Log, log: Log
) -> None:
    assert writer.commit(append(2)).version == STRAY + 1
    assert log.poll() == writer.state == Log(bucket, world).state
    assert log.state.void == (STRAY,)
    assert log.state.blocks.ulids() == [ulid(1), ulid(2)]


def test_a_writer_whose_copy_with_the_gap_was_put_back_writes_nothing(
    bucket: MemoryBucket, gap: dict[str, bytes], writer: Log
) -> None:
    put_back(bucket, gap)
    with pytest.raises(Corrupt, match=f"entry 2 .* is missing .* entry {STRAY} exists"):
        writer.commit(append(2))
    assert copy_of(bucket) == gap


def test_an_entry_that_was_refused_is_not_sent_again_above_the_gap(
    bucket: MemoryBucket, faulty: FaultyBucket, gap: dict[str, bytes], writer: Log
) -> None:
    def strike() -> None:
        put_back(bucket, gap)
        raise Contended("409")

    at_the_put(faulty, strike)
    with pytest.raises(Corrupt):
        writer.commit(append(2))
    assert copy_of(bucket) == gap


def test_an_entry_that_came_above_the_gap_is_not_acknowledged(
    bucket: MemoryBucket, faulty: FaultyBucket, gap: dict[str, bytes], writer: Log
) -> None:
    at_the_put(faulty, lambda: put_back(bucket, gap))
    with pytest.raises(Corrupt):
        writer.commit(append(2))


def test_a_writer_does_not_take_another_history_that_ends_with_the_same_entry_for_its_own(
    bucket: MemoryBucket, world: World, gap: dict[str, bytes], writer: Log
) -> None:
    other = other_filling(bucket, world, gap)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(2))
    assert not list(bucket.list(entry_key(STRAY + 1)))
    assert Log(bucket, world).state == other.state


def test_a_writer_does_not_acknowledge_what_went_into_such_a_history(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, gap: dict[str, bytes], writer: Log
) -> None:
    at_the_put(faulty, lambda: other_filling(bucket, world, gap) and None)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(2))
    here = Log(bucket, world).state
    assert here.void == (STRAY, STRAY + 1)
    assert here.blocks.ulids() == [ulid(10)]


def test_a_reader_that_polls_into_such_a_history_says_so_and_follow_opens_another(
    bucket: MemoryBucket, world: World, gap: dict[str, bytes], writer: Log
) -> None:
    other = other_filling(bucket, world, gap)
    assert not writer.is_same(writer.state)
    other.commit(append(11))
    with pytest.raises(HistoryReplaced):
        writer.poll()
    assert writer.follow().state == other.state


def test_follow_keeps_a_handle_whose_history_is_still_there(writer: Log) -> None:
    assert writer.is_same(writer.state)
    assert writer.follow() is writer
    writer.confirm()


def test_a_tag_of_a_void_end_is_set_and_can_be_read(
    bucket: MemoryBucket, world: World, writer: Log
) -> None:
    assert tag(writer, world, "here") == STRAY
    fresh = Log(bucket, world)
    assert fresh.tagged("here").blocks.ulids() == [ulid(1)]


def test_a_checkpoint_of_such_a_history_is_not_believed(
    bucket: MemoryBucket, world: World, gap: dict[str, bytes], writer: Log
) -> None:
    """Its own entry is there, in both histories."""
    old = writer.state
    other = other_filling(bucket, world, gap)
    ensure_checkpoint(bucket, old)
    assert Log(bucket, world).state == other.state
    other.commit(append(11))
    assert Log(bucket, world).state == other.state


def test_what_is_below_a_void_end_may_have_been_collected(
    bucket: MemoryBucket, world: World, log: Log, writer: Log
) -> None:
    ensure_checkpoint(bucket, log.at(2))
    world.clock.sleep(49 * 3600)
    log.poll()
    assert collect(log, world).boundary == STRAY - 1
    assert [info.key for info in bucket.list("index/", recursive=False)][:1] == [entry_key(STRAY)]
    assert writer.commit(append(2)).version == STRAY + 1
    assert Log(bucket, world).state.blocks.ulids() == [ulid(1), ulid(2)]


def test_a_boundary_may_move_to_a_void_version(
    bucket: MemoryBucket, world: World, log: Log, writer: Log
) -> None:
    writer.commit(append(2))
    world.clock.sleep(49 * 3600)
    log.poll()
    assert collect(log, world).boundary == STRAY
    assert list(bucket.list(checkpoint_key(STRAY)))
    assert Log(bucket, world).state == writer.poll()

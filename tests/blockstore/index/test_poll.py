"""The side by side poll: when it may be made, and that it misses nothing."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log, create
from blockstore.index.poll import is_strong
from blockstore.index.state import State
from blockstore.names import BOUNDARY, entry_key, meta_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, append, ulid

RETENTION_S = DEFINITION.properties.history_retention_s


class Far(FaultyBucket):
    """A store that takes 10 ms for a response."""

    def __init__(self, bucket: MemoryBucket, world: World) -> None:
        super().__init__(bucket)
        self.before.append(lambda call: world.clock.sleep(0.01))

    def keys(self) -> list[str]:
        return [call.key for call in self.calls]


def grow_and_collect(bucket: MemoryBucket, log: Log) -> None:
    """Three versions more, and the boundary at the last but one: what came next is deleted."""
    for number in (100, 101, 102):
        log.commit(append(number))
    latest = log.state.version
    write_checkpoint(bucket, log.at(latest - 1))
    bucket.put(BOUNDARY, str(latest - 1).encode())
    bucket.delete(entry_key(entry) for entry in range(1, latest))


def test_an_idle_poll_reads_the_boundary_first_of_both_where_nothing_can_be_missed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    far.calls.clear()
    reader.poll()
    assert far.keys() == [BOUNDARY, entry_key(2)], "in any order, so the worst one in a pool of one"


@pytest.mark.parametrize("idle_s", [31, RETENTION_S / 2, 10 * RETENTION_S])
def test_a_state_that_was_the_newest_long_ago_is_polled_in_turn(
    bucket: MemoryBucket, world: World, log: Log, idle_s: float
) -> None:
    """Else the boundary of before and the 404 of after look like an idle table."""
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    world.clock.sleep(idle_s)
    far.calls.clear()

    def collect_in_between(call: Call) -> None:
        if len(far.calls) == 2:
            grow_and_collect(bucket, log)

    far.before.append(collect_in_between)
    assert reader.poll() == log.state
    assert far.keys()[:2] == [entry_key(2), BOUNDARY]


def test_a_poll_that_itself_takes_too_long_reads_the_boundary_again(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    far.calls.clear()

    def stall(call: Call) -> None:
        if len(far.calls) == 2:
            world.clock.sleep(2 * RETENTION_S)
            grow_and_collect(bucket, log)

    far.before.append(stall)
    assert reader.poll() == log.state
    assert far.keys()[:3] == [BOUNDARY, entry_key(2), BOUNDARY]


def test_an_hour_by_either_clock_is_an_hour(bucket: MemoryBucket, world: World, log: Log) -> None:
    """The monotonic clock stops while a machine sleeps."""
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    known = reader.state
    assert reader.reader._poll.was_newest(known)
    monotonic_s = world.clock.monotonic_s()
    world.clock.sleep(3600)
    world.clock.monotonic_s = lambda: monotonic_s  # type: ignore[method-assign]
    assert not reader.reader._poll.was_newest(known)


def test_a_short_history_is_polled_in_turn_sooner(world: World) -> None:
    bucket = MemoryBucket(world.clock)
    bucket.put(meta_key(ulid(100)), b"{}")
    properties = Properties.parse({"history_retention": "2s"})
    create(bucket, world, Definition.create(DEFINITION.schema, properties=properties))
    reader = Log(Far(bucket, world), world)
    state = reader.poll()
    assert reader.reader._poll.was_newest(state)
    world.clock.sleep(1)
    assert not reader.reader._poll.was_newest(state)


def test_a_listing_that_may_lag_does_not_say_what_is_the_newest(world: World) -> None:
    """Where listings lag, an open may miss the newest versions; the poll of the first snapshot gets
    them by name."""
    bucket = MemoryBucket(world.clock)
    properties = Properties.parse({"consistency": "eventual"})
    create(bucket, world, Definition.create(DEFINITION.schema, properties=properties))
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    far.calls.clear()
    reader.newest()
    assert far.keys() == [entry_key(2), BOUNDARY]
    reader.poll()
    assert far.keys()[2:] == [BOUNDARY, entry_key(2)], "by name it was the newest"


def test_every_new_entry_is_read_before_a_boundary(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    far.calls.clear()
    for number in range(100, 105):
        log.commit(append(number))
    assert reader.poll() == log.state
    keys = far.keys()
    assert max(keys.index(entry_key(entry)) for entry in range(2, 7)) < len(keys) - 1 - keys[
        ::-1
    ].index(BOUNDARY)


def test_a_poll_ends_though_others_commit_all_the_time(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Once it has seen the end of the log it looks at what it has found, and follows no further."""
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    for number in range(100, 120):
        log.commit(append(number))
    there = log.state.version
    far.calls.clear()
    numbers = iter(range(200, 400))

    def commit(call: Call) -> None:
        if call.key == BOUNDARY:  # which each wave of requests reads
            log.commit(append(next(numbers)))

    far.before.append(commit)
    found = reader.poll()
    assert there <= found.version < log.state.version
    assert found == log.at(found.version)
    assert len(far.calls) < 4 * (found.version - 1)


def test_an_entry_that_the_boundary_has_passed_is_not_applied_though_it_was_read(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    far = Far(bucket, world)
    reader = Log(far, world)
    reader.poll()
    log.commit(append(99))
    far.calls.clear()

    def collect_after_it_was_read(call: Call) -> None:
        if call.key == entry_key(2) and len(far.calls) == 2:
            grow_and_collect(bucket, log)

    far.after.append(collect_after_it_was_read)
    assert reader.poll() == log.state
    assert [call.key for call in far.calls].count("index/") == 1, "it is read from nothing"


@pytest.mark.parametrize("slow", [True, False])
def test_a_look_at_the_own_entry_alone_does_not_call_a_passed_state_the_newest(
    bucket: MemoryBucket, world: World, log: Log, slow: bool
) -> None:
    """Entries at or below the boundary are deleted in any order, and one that was sent twice may
    come back: the own entry may be there still, and the next one not."""
    store = Far(bucket, world) if slow else bucket
    reader = Log(store, world)
    known = reader.poll()
    own = bucket.get(entry_key(known.version)).data
    world.clock.sleep(10 * RETENTION_S)
    grow_and_collect(bucket, log)
    bucket.put(entry_key(known.version), own)
    assert reader.reader.advance(known, looks_at_own=True).state == log.state


def test_a_look_at_the_own_entry_is_all_that_is_read_beside_where_nothing_can_be_missed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    store = FaultyBucket(bucket)
    reader = Log(store, world)
    known = reader.poll()
    store.calls.clear()
    reader.reader.advance(known, looks_at_own=True)
    assert [call.key for call in store.calls] == [entry_key(2), entry_key(1)]


def test_the_first_snapshot_after_an_open_makes_no_request(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    far = Far(bucket, world)
    reader = Log(far, world)
    known = reader.poll()
    far.calls.clear()
    assert reader.newest() is known
    assert not far.calls


def test_what_a_writer_beside_the_store_tells_of_is_in_the_first_snapshot(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Its requests take no time; its message takes at least as long as half a request of the
    reader, or the reader would be as near to the store."""
    reader = Log(Far(bucket, world), world)
    reader.poll()
    log.commit(append(100))
    world.clock.sleep(0.005)
    assert reader.newest() == log.state


def test_an_open_that_stops_before_its_first_snapshot_is_polled(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops, also after it has looked how long it took."""

    def stop(state: State) -> bool:
        world.clock.sleep(3600)
        return is_strong(state)

    reader = Log(Far(bucket, world), world)
    monkeypatch.setattr("blockstore.index.read.is_strong", stop)
    reader.poll()
    log.commit(append(100))
    assert reader.newest() == log.state


def test_an_open_on_a_machine_that_sleeps_meanwhile_is_polled(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The monotonic clock stops while it sleeps."""
    far = Far(bucket, world)
    reader = Log(far, world)

    def sleep(call: Call) -> None:
        if call.key == BOUNDARY and len(far.calls) > 3:
            far.before.remove(sleep)
            monotonic_s = world.clock.monotonic_s()
            world.clock.sleep(3600)
            world.clock.monotonic_s = lambda: monotonic_s  # type: ignore[method-assign]

    far.before.append(sleep)
    reader.poll()
    assert sleep not in far.before
    assert not reader.was_just_read


def test_another_threads_quick_open_does_not_make_a_slow_one_the_newest(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    reader = Log(Far(bucket, world), world).reader
    loaded = reader.cold()
    world.clock.sleep(3600)
    log.commit(append(100))
    assert reader.cold().state == log.state
    assert reader.moment(loaded).is_over

"""A handle that outlives its table's history: it never acknowledges what no reader will see, and
leaves an index that all can read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.bucket.api import Bucket, ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.care.survey import survey
from blockstore.errors import (
    BoundaryLost,
    Corrupt,
    HistoryReplaced,
    Indeterminate,
    NotFound,
    Unanswered,
)
from blockstore.format import Definition, Job
from blockstore.format.document import sealed
from blockstore.index.added import AddedBlock
from blockstore.index.chain import Link
from blockstore.index.change import Change
from blockstore.index.checkpoint_write import ensure_checkpoint, write_checkpoint
from blockstore.index.entry import Entry, encode_entry
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.poll import Loaded
from blockstore.index.tags import tag
from blockstore.names import BOUNDARY, CHECKPOINTS, entry_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, NOW, append, block, entry_of, ulid
from tests.support.put_back import copy_of, put_back, wipe

Strike = Callable[[Bucket, World], None]

OTHER = Definition.create(pa.schema([("name", pa.string())]))


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    return create(bucket, world, DEFINITION)


def blocks_of(bucket: Bucket, world: World) -> list[str]:
    """What a process that starts now reads."""
    return Log(bucket, world).state.blocks.ulids()


def grown(bucket: Bucket, world: World, log: Log) -> tuple[Log, dict[str, bytes]]:
    """A writer that has read version 4, and a copy of version 2."""
    log.commit(append(1))
    copy = copy_of(bucket)
    writer = Log(bucket, world)
    for number in (2, 3):
        writer.commit(append(number))
    return writer, copy


def test_a_writer_under_which_a_copy_was_put_back_commits_nothing(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced, match="open the table again"):
        writer.commit(append(4))
    assert copy_of(bucket) == copy, "nothing was written"
    assert blocks_of(bucket, world) == [ulid(1)]


@pytest.mark.parametrize("others", [(10, 11), (10, 11, 12), (10, 11, 12, 13)])
def test_a_writer_whose_ids_others_have_used_since_commits_nothing(
    bucket: MemoryBucket, world: World, log: Log, others: tuple[int, ...]
) -> None:
    """Also where its last entry has a successor, and as many rows."""
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    other = Log(bucket, world)
    for number in others:
        other.commit(append(number))
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    other.commit(append(20))
    assert blocks_of(bucket, world) == [ulid(one) for one in (1, *others, 20)]


@pytest.mark.parametrize("definition", [DEFINITION, OTHER])
def test_nothing_of_a_dropped_table_enters_the_one_that_was_made_in_its_place(
    bucket: MemoryBucket, world: World, log: Log, definition: Definition
) -> None:
    writer, _ = grown(bucket, world, log)
    wipe(bucket)
    with pytest.raises(HistoryReplaced):
        Log(bucket, world)._adopt(writer.state) and writer.commit(append(4))
    assert copy_of(bucket) == {}
    made = create(bucket, world, definition)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(5))
    assert made.poll().version == 1
    assert blocks_of(bucket, world) == []


def test_the_handle_is_over_and_follow_opens_another(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    for act in (
        lambda: writer.commit(append(4)),
        writer.poll,
        lambda: writer.state,
        lambda: writer.at(1),
    ):
        with pytest.raises(HistoryReplaced):
            act()
    again = writer.follow()
    assert again is not writer
    assert again.state.version == 2
    assert again.commit(append(4)).version == 3
    assert blocks_of(bucket, world) == [ulid(1), ulid(4)]


def test_follow_of_an_idle_handle_notices_what_its_poll_does_not(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    assert writer.poll().version == 4
    assert writer.follow().state.version == 2
    wipe(bucket)
    with pytest.raises(NotFound):
        writer.follow()


def test_a_reader_that_polls_into_another_history_says_so(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    reader, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    other = Log(bucket, world)
    for number in (10, 11, 12):
        other.commit(append(number))
    with pytest.raises(HistoryReplaced):
        reader.poll()
    assert reader.follow().state == other.state


@pytest.mark.parametrize("collected", [False, True])
def test_a_boundary_that_a_copy_brought_back_is_a_replaced_history(
    bucket: MemoryBucket, world: World, log: Log, collected: bool
) -> None:
    writer, copy = grown(bucket, world, log)
    ensure_checkpoint(bucket, log.at(3))
    writer.boundary.advance(3)
    writer.poll()
    put_back(bucket, copy)
    if collected:
        other = Log(bucket, world)
        for number in range(10, 20):
            other.commit(append(number))
        ensure_checkpoint(bucket, other.at(8))
        other.boundary.advance(8)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))


def test_a_boundary_that_fell_by_itself_is_still_lost(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, _ = grown(bucket, world, log)
    ensure_checkpoint(bucket, log.at(3))
    writer.boundary.advance(3)
    bucket.put(BOUNDARY, b"1")
    with pytest.raises(BoundaryLost, match="fell"):
        writer.commit(append(4))
    bucket.delete([BOUNDARY])
    with pytest.raises(BoundaryLost):
        Log(bucket, world).poll()


def between_look_and_put(faulty: FaultyBucket, entry: int, action: Callable[[], object]) -> None:
    """Let something happen right before the PUT of an entry, and after the look at the one
    below."""

    def hook(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(entry):
            faulty.before.remove(hook)
            action()

    faulty.before.append(hook)


def test_a_stale_entry_is_void_and_the_next_writer_goes_on_above_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)
    other: list[Log] = []

    def strike() -> None:
        put_back(bucket, copy)
        other.append(Log(bucket, world))
        for number in (10, 11):
            other[0].commit(append(number))

    between_look_and_put(faulty, 5, strike)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    (here,) = other
    reader = Log(bucket, world)
    assert (reader.state.version, reader.state.void) == (5, (5,))
    assert here.commit(append(12)).version == 6
    assert here.state == reader.poll() == Log(bucket, world).state
    assert blocks_of(bucket, world) == [ulid(1), ulid(10), ulid(11), ulid(12)]


def test_a_stale_entry_whose_list_of_sources_went_with_its_history_stops_nobody(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A restore names the sources of a large merge by the block's own file, and the backup does not
    have that block."""
    log.commit(append(1))
    held = Log(bucket, world)
    held.poll()
    many = block(50, sources=tuple(ulid(number) for number in range(1_000, 2_001)))
    stale = Entry(
        id=3,
        commit=ulid(900),
        time=NOW,
        operation="restore",
        add=(AddedBlock(meta=many, sources=many.sources),),
        first_row_id=10,
        prev=Link(ulid(901), "ab" * 32, "cd" * 32),
    )
    bucket.put(entry_key(3), sealed(encode_entry(stale)))
    assert held.commit(append(2)).version == 4
    assert log.poll().void == (3,)
    assert blocks_of(bucket, world) == [ulid(1), ulid(2)]
    assert not survey(bucket, world).damaged


def test_a_stale_entry_above_a_gap_is_corrupt_until_the_history_has_grown_to_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)
    held: list[Log] = []

    def strike() -> None:
        put_back(bucket, copy)
        held.append(Log(bucket, world))
        held[0].poll()

    between_look_and_put(faulty, 5, strike)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    with pytest.raises(Corrupt, match=r"blockstore repair memory:// --stale-entry 5"):
        Log(bucket, world).poll()
    for number in (10, 11, 12):
        held[0].commit(append(number))
    assert held[0].state.void == (5,)
    assert Log(bucket, world).state == held[0].state
    assert blocks_of(bucket, world) == [ulid(1), ulid(10), ulid(11), ulid(12)]


def test_a_writer_never_goes_on_from_anothers_stale_entry(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Two writers of the old history: the entry of the first is in the way of the second, and fits
    what the second knows."""
    faulty = FaultyBucket(bucket)
    second, copy = grown(faulty, world, log)
    elsewhere = MemoryBucket(world.clock)
    put_back(elsewhere, copy_of(bucket))
    Log(elsewhere, world).commit(append(4))

    def strike() -> None:
        put_back(bucket, copy)
        other = Log(bucket, world)
        for number in (10, 11):
            other.commit(append(number))
        bucket.put_if_absent(entry_key(5), elsewhere.get(entry_key(5)).data)

    between_look_and_put(faulty, 5, strike)
    with pytest.raises(HistoryReplaced):
        second.commit(append(5))
    assert Log(bucket, world).state.void == (5,)


def test_a_writer_whose_own_last_entry_came_back_as_a_stale_one_does_not_go_on_from_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A PUT that was sent again restores the entry that the writer ends with, on top of another
    history."""
    writer, copy = grown(bucket, world, log)
    mine = bucket.get(entry_key(4)).data
    put_back(bucket, copy)
    other = Log(bucket, world)
    other.commit(append(10))
    bucket.put_if_absent(entry_key(4), mine)
    other.commit(append(11))
    assert other.state.void == (4,)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    assert blocks_of(bucket, world) == [ulid(1), ulid(10), ulid(11)]


def test_a_void_entry_above_a_living_handle_is_passed_over(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """What a stale writer left does not end the handles of this history."""
    elsewhere = MemoryBucket(world.clock)
    create(elsewhere, world, DEFINITION).commit(append(50))
    reader = Log(bucket, world)
    assert reader.poll().version == 1
    bucket.put_if_absent(entry_key(2), elsewhere.get(entry_key(2)).data)
    assert log.commit(append(1)).version == 3
    assert reader.poll() == log.state
    assert reader.state.void == (2,)


def test_an_unanswered_put_is_not_sent_into_another_history(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)

    def lose(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(5):
            faulty.before.remove(lose)
            put_back(bucket, copy)
            other = Log(bucket, world)
            for number in (10, 11):
                other.commit(append(number))
            raise Unanswered("the answer was lost")

    faulty.before.append(lose)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    assert Log(bucket, world).state.version == 4, "nothing stale is there"


def test_an_indeterminate_operation_of_the_old_history_is_not_sent_again(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)
    silent = True

    def lose(call: Call) -> None:
        if silent and call.method == "put_if_absent" and call.key == entry_key(5):
            raise Unanswered("the answer was lost")

    faulty.before.append(lose)
    with pytest.raises(Indeterminate):
        writer.commit(append(4))
    silent = False
    put_back(bucket, copy)
    other = Log(bucket, world)
    for number in (10, 11):
        other.commit(append(number))
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    assert Log(bucket, world).state.version == 4


def test_every_thread_of_a_group_is_told(bucket: MemoryBucket, world: World, log: Log) -> None:
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)
    waiting = threading.Event()
    answers: list[object] = []

    def commit(change: Change) -> None:
        try:
            answers.append(writer.commit(change))
        except HistoryReplaced as error:
            answers.append(error)

    threads = [threading.Thread(target=commit, args=(append(100 + number),)) for number in range(8)]

    def strike() -> None:
        for thread in threads:
            thread.start()
        while len(writer._queue._line) < len(threads):
            waiting.wait(0.001)
        put_back(bucket, copy)

    between_look_and_put(faulty, 5, strike)
    commit(append(4))
    for thread in threads:
        thread.join()
    assert len(answers) == 9
    assert all(isinstance(one, HistoryReplaced) for one in answers)


def test_a_collected_last_entry_is_no_replaced_history(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The other reason for which an entry is gone."""
    sleeper, _ = grown(bucket, world, log)
    for number in range(10, 20):
        log.commit(append(number))
    write_checkpoint(bucket, log.state)
    world.clock.sleep(49 * 3600)
    log.commit(append(20))
    world.clock.sleep(49 * 3600)
    log.commit(append(21))
    assert collect(log, world).entries
    assert sleeper.commit(append(4)).version == log.poll().version
    assert ulid(4) in blocks_of(bucket, world)


def test_a_checkpoint_that_a_stalled_writer_leaves_in_another_history_is_passed_over(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, copy = grown(bucket, world, log)
    old = writer.state
    put_back(bucket, copy)
    other = Log(bucket, world)
    for number in (10, 11):
        other.commit(append(number))
    write_checkpoint(bucket, old)
    assert Log(bucket, world).state == other.state
    other.commit(append(12))
    assert Log(bucket, world).state == other.state


def test_a_checkpoint_and_the_entry_after_it_that_stalled_writers_leave_are_not_believed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The entry fits the checkpoint, and both are of a history that is gone."""
    faulty = FaultyBucket(bucket)
    writer, copy = grown(faulty, world, log)
    old = writer.state
    other: list[Log] = []

    def strike() -> None:
        put_back(bucket, copy)
        other.append(Log(bucket, world))
        other[0].commit(append(10))
        other[0].commit(append(11))

    between_look_and_put(faulty, old.version + 1, strike)
    with pytest.raises(HistoryReplaced):
        writer.commit(append(4))
    (here,) = other
    write_checkpoint(bucket, old)
    assert Log(bucket, world).state == here.poll()
    assert here.state.void == (old.version + 1,)
    here.commit(append(12))
    assert Log(bucket, world).state == here.state
    assert ulid(4) not in here.state.blocks


@pytest.mark.parametrize("hinted", [False, True])
def test_a_checkpoint_above_the_newest_entry_is_passed_over_hint_or_not(
    bucket: MemoryBucket, world: World, log: Log, *, hinted: bool
) -> None:
    """The history that is there now has not come so far yet: there is no entry that would show
    otherwise."""
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    if hinted:
        write_checkpoint(bucket, writer.state)
    else:
        ensure_checkpoint(bucket, writer.state)
    assert blocks_of(bucket, world) == [ulid(1)]
    Log(bucket, world).commit(append(10))
    assert blocks_of(bucket, world) == [ulid(1), ulid(10)]


def test_a_tag_of_a_handle_that_outlived_its_history_leaves_no_checkpoint(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    writer, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced):
        tag(writer, world, "before", writer.state.version)
    assert copy_of(bucket) == copy


def test_what_a_poll_has_read_long_ago_is_no_look_before_a_commit(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The poll's response came before the disaster; the commit that begins after it looks by
    itself."""
    writer, copy = grown(bucket, world, log)
    reader = Log(bucket, world)
    reader.poll()
    writer.commit(append(5))
    reader.poll()
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced):
        reader.commit(append(6))
    assert copy_of(bucket) == copy


def test_a_stray_file_where_an_entry_was_collected_is_no_replaced_history(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    sleeper, _ = grown(bucket, world, log)
    for number in range(10, 20):
        log.commit(append(number))
    write_checkpoint(bucket, log.state)
    world.clock.sleep(49 * 3600)
    log.commit(append(20))
    world.clock.sleep(49 * 3600)
    log.commit(append(21))
    assert collect(log, world).entries
    bucket.put_if_absent(entry_key(4), b"left by a writer that stalled")
    assert sleeper.commit(append(4)).version == log.poll().version
    assert ulid(4) in blocks_of(bucket, world)


@pytest.mark.parametrize(
    "at", ["list", "put_if_absent"], ids=["while it looks", "while it writes the checkpoint"]
)
def test_a_collector_does_not_advance_the_boundary_of_a_table_that_was_put_back(
    bucket: MemoryBucket, world: World, log: Log, at: str
) -> None:
    for number in range(1, 6):
        log.commit(append(number))
    copy = copy_of(bucket)
    for number in range(6, 12):
        log.commit(append(number))
    world.clock.sleep(49 * 3600)
    log.commit(append(12))
    faulty = FaultyBucket(bucket)
    collector = Log(faulty, world)
    collector.poll()

    def strike(call: Call) -> None:
        if call.method == at and call.key.startswith(CHECKPOINTS):
            faulty.before.remove(strike)
            put_back(bucket, copy)

    faulty.before.append(strike)
    with pytest.raises(HistoryReplaced):
        collect(collector, world)
    assert int(bucket.get(BOUNDARY).data) == 0
    assert blocks_of(bucket, world) == [ulid(number) for number in range(1, 6)]


def test_history_that_is_read_by_a_handle_of_another_one_is_replaced_and_not_damaged(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    reader, copy = grown(bucket, world, log)
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced):
        list(reader.entries())
    with pytest.raises(HistoryReplaced):
        reader.at(3)


def test_a_look_that_finds_another_history_takes_away_what_an_earlier_look_was_good_for(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Threads share a handle: one has looked before the disaster, another after it, and a third
    commits."""
    writer, copy = grown(bucket, world, log)
    looks = writer.reader.looks
    with writer.own_looks():
        looks.ahead(writer.state)
        put_back(bucket, copy)
        looks.ahead(writer.state)
        with pytest.raises(HistoryReplaced):
            writer.commit(append(4))
    assert copy_of(bucket) == copy


def test_a_poll_does_not_take_what_a_stalled_writer_left_for_the_end_of_what_it_has_read(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The reader's own entry is in both histories, and the entries that it reads fit each other;
    they were never there together."""
    log.commit(append(1))
    copy = copy_of(bucket)
    writer, stalled = Log(bucket, world), FaultyBucket(bucket)
    for number in (2, 3):
        writer.commit(append(number))
    late = Log(stalled, world)
    late.poll()
    faulty = FaultyBucket(bucket)
    reader = Log(faulty, world)
    reader.take(Loaded(state=writer.at(2)))

    def strike(call: Call) -> None:
        if call.writes:
            stalled.before.remove(strike)
            put_back(bucket, copy)

    def stall(call: Call) -> None:
        if call.method == "get" and call.key == entry_key(4):
            faulty.after.remove(stall)
            with pytest.raises(HistoryReplaced):
                late.commit(append(4))

    stalled.before.append(strike)
    faulty.after.append(stall)
    with pytest.raises((Corrupt, HistoryReplaced)):
        reader.poll()
    bucket.delete([entry_key(5)])
    assert Log(bucket, world).state.version == 2


@pytest.mark.parametrize("tells_etags", [True, False])
def test_a_cold_read_does_not_take_one_entry_for_another_that_its_listing_showed(
    bucket: MemoryBucket, world: World, log: Log, *, tells_etags: bool
) -> None:
    """Between its GETs the table is put back, and an earlier PUT of a loser arrives where the
    winner's entry was."""
    log.commit(append(1))
    copy = copy_of(bucket)
    log.commit(append(2))
    loser = sealed(encode_entry(entry_of(log.state, append(3))))
    log.commit(append(4))
    faulty = FaultyBucket(bucket if tells_etags else NoListedEtags(bucket))

    def strike(call: Call) -> None:
        if call.method == "get" and call.key == entry_key(3):
            faulty.after.remove(strike)
            put_back(bucket, copy)
            bucket.put_if_absent(entry_key(4), loser)

    faulty.after.append(strike)
    with pytest.raises(Corrupt, match="stale-entry 4"):
        Log(faulty, world).poll()
    bucket.delete([entry_key(4)])
    assert blocks_of(bucket, world) == [ulid(1)]


class NoListedEtags(Wrapper):
    """A store whose listings have no ETags, as a folder's."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        for info in self.inner.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        ):
            yield replace(info, etag=None)


def test_what_was_done_in_another_history_is_not_called_done(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The result would come from the handle's memory, without any request."""
    job = Job(app="nightly", batch=1)
    log.commit(append(1))
    copy = copy_of(bucket)
    log.commit(append(2, job=job))
    put_back(bucket, copy)
    for ask in (lambda: log.commit(append(3, job=job)), lambda: log.confirm()):
        with pytest.raises(HistoryReplaced):
            ask()
    assert copy_of(bucket) == copy

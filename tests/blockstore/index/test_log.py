"""The handle: creation, checkpoints, group commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import (
    BlockstoreError,
    BoundaryLost,
    Conflict,
    Indeterminate,
    Invalid,
    Unanswered,
    Unavailable,
)
from blockstore.format import Job
from blockstore.index.change import Append, Change, Committed, Draft, Left
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.checkpoint_name import name_of, read_hint
from blockstore.index.entry import Operation
from blockstore.index.log import Log, create
from blockstore.index.presence import exists
from blockstore.index.queue import Waiting
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.world import World
from tests.blockstore.index.test_read import collect
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.index_data import DEFINITION, Planned, append, block, ulid


def test_a_table_exists_once_its_first_entry_does(bucket: MemoryBucket, world: World) -> None:
    assert not exists(bucket)
    bucket.put(BOUNDARY, b"0")
    assert not exists(bucket), "its creation was never finished"
    log = create(bucket, world, DEFINITION)
    assert exists(bucket)
    assert int(bucket.get(BOUNDARY).data) == 0
    assert (log.state.version, log.state.definition) == (1, DEFINITION)


def test_a_boundary_says_that_a_table_exists_although_entry_1_is_gone(bucket: MemoryBucket) -> None:
    bucket.put(BOUNDARY, b"7")
    assert exists(bucket)


def test_a_table_exists_although_its_first_entry_is_collected_between_the_looks(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A compactor that took it for a table without an index would clean it as one."""
    for number in range(3):
        log.commit(append(number))
    looking = FaultyBucket(bucket)

    def collect_now(call: Call) -> None:
        if len(looking.calls) == 2:
            collect(bucket, log, 3)

    looking.before.append(collect_now)
    assert exists(looking)


def test_the_loser_of_two_creates_gets_a_conflict(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    with pytest.raises(Conflict, match="already"):
        create(bucket, world, DEFINITION)
    fresh = MemoryBucket(world.clock)
    racing = FaultyBucket(fresh)

    def overtake(call: Call) -> None:
        if call.key == entry_key(1) and not exists(fresh):
            create(fresh, world, DEFINITION)

    racing.before.append(overtake)
    with pytest.raises(Conflict, match="already exists, at version 1"):
        create(racing, world, DEFINITION)
    assert Log(fresh, world).state.version == 1


def test_a_create_whose_answers_are_lost_is_no_conflict_with_itself(
    bucket: MemoryBucket, world: World
) -> None:
    faulty = FaultyBucket(bucket, lose_answer={2, 5})
    assert create(faulty, world, DEFINITION).state.version == 1
    assert [call.key for call in faulty.writes] == [BOUNDARY, BOUNDARY, entry_key(1), entry_key(1)]


def test_entries_without_a_boundary_are_never_created_over(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    bucket.delete([BOUNDARY])
    with pytest.raises(BoundaryLost):
        create(bucket, world, DEFINITION)
    with pytest.raises(BlockstoreError):
        bucket.get(BOUNDARY)


def test_every_64th_entry_is_followed_by_its_checkpoint(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    for number in range(100, 300):
        writer.commit(append(number))
    listed = [info.key for info in bucket.list("index/checkpoints/")]
    assert listed == [checkpoint_key(version) for version in (64, 128, 192)]
    assert read_hint(bucket) == name_of(192, bucket.get(checkpoint_key(192)).data)
    for version in (64, 128, 192):
        data = bucket.get(checkpoint_key(version)).data
        assert decode_checkpoint(data, version=version) == log.at(version)


def test_a_checkpoint_that_fails_is_no_error_of_the_commit(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)

    def refuse(call: Call) -> None:
        if call.key == checkpoint_key(64):
            raise Unavailable("no answer")

    faulty.before.append(refuse)
    writer = Log(faulty, world)
    for number in range(100, 170):
        assert not writer.commit(append(number)).already
    assert Log(bucket, world).state == writer.state


def test_a_checkpoint_that_cannot_even_be_encoded_is_no_error_of_the_commit(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(bucket: object, state: object, leaves: object) -> None:
        raise pa.ArrowInvalid("offset overflow")

    monkeypatch.setattr("blockstore.index.checkpoint_write.write_checkpoint", broken)
    for number in range(100, 170):
        assert not log.commit(append(number)).already
    assert "checkpoint 64 of memory:// was not written: offset overflow" in caplog.text


def test_no_checkpoint_is_written_of_an_entry_that_the_boundary_refused(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 162):
        log.commit(append(number))
    stale = Log(bucket, world)
    assert stale.state.version == 63
    for number in range(162, 170):
        log.commit(append(number))
    collect(bucket, log, 70)
    bucket.delete([checkpoint_key(64)])
    assert stale.commit(append(200)).version == 72
    assert [info.key for info in bucket.list("index/checkpoints/")] == [checkpoint_key(70)]


def test_no_checkpoint_is_written_of_an_entry_whose_check_was_not_answered(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 162):
        log.commit(append(number))
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    assert writer.state.version == 63

    def refuse(call: Call) -> None:
        if call.key == BOUNDARY:
            raise Unavailable("no answer")

    faulty.before.append(refuse)
    with pytest.raises(Indeterminate):
        writer.commit(append(200))
    assert not list(bucket.list("index/checkpoints/"))


class Gate:
    """Holds the first commit at its PUT until released, so that others line up behind it."""

    def __init__(self, faulty: FaultyBucket, entry: int = 2) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self._key = entry_key(entry)
        faulty.before.append(self._hold)

    def _hold(self, call: Call) -> None:
        if call.key == self._key and call.method == "put_if_absent":
            self.reached.set()
            assert self.open.wait(30)


def together(log: Log, gate: Gate, first: Change, others: list[Change]) -> list[object]:
    """Commit ``first``, and the others while it is on its way; their results in order."""
    answers: list[object] = [None] * (1 + len(others))

    def run(place: int, change: Change) -> None:
        try:
            answers[place] = log.commit(change)
        except BaseException as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=(0, first))]
    threads[0].start()
    assert gate.reached.wait(30)
    for place, change in enumerate(others, start=1):
        threads.append(threading.Thread(target=run, args=(place, change)))
        threads[-1].start()
        while len(log._queue._line) < place:
            threads[-1].join(0.001)
    gate.open.set()
    for thread in threads:
        thread.join(30)
    return answers


@pytest.fixture
def faulty(bucket: MemoryBucket, log: Log) -> FaultyBucket:
    return FaultyBucket(bucket)


def committed(answer: object) -> Committed:
    assert isinstance(answer, Committed), answer
    return answer


def test_concurrent_appends_share_an_entry(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket
) -> None:
    writer = Log(faulty, world)
    answers = together(
        writer, Gate(faulty), append(10), [append(number) for number in range(11, 20)]
    )
    assert [committed(one).version for one in answers] == [2] + [3] * 9
    for number, answer in enumerate(answers, start=10):
        assert [meta.ulid for meta in committed(answer).added] == [ulid(number)]
    state = Log(bucket, world).state
    assert state.version == 3
    rows = {one.ulid: one.first_row_id for one in state.blocks if one.version == 3}
    assert sorted(rows.values()) == list(range(10, 100, 10)), (
        "rows start where the blocks before end"
    )


def test_jobs_and_transactions_commit_alone(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket
) -> None:
    writer = Log(faulty, world)
    tag = Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"a": 1}))
    others = [append(11), append(12, job=Job(app="nightly", batch=1)), tag, append(13)]
    answers = together(writer, Gate(faulty), append(10), others)
    assert [committed(one).version for one in answers] == [2, 3, 4, 5, 3]
    assert [entry.operation for entry in writer.entries()] == [
        "create",
        "append",
        "append",
        "append",
        "tag",
    ]


def test_an_append_that_is_refused_fails_alone(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket
) -> None:
    draft = Draft(horizon=ulid(20), floor=ulid(20))
    log.commit(Planned(operation=Operation.HORIZON, commit=ulid(900), plan=draft))
    writer = Log(faulty, world)
    answers = together(writer, Gate(faulty, 3), append(30), [append(31), append(15), append(32)])
    assert isinstance(answers[2], Invalid)
    assert [committed(answers[place]).version for place in (0, 1, 3)] == [3, 4, 5]
    assert Log(bucket, world).state.blocks.ulids() == [ulid(number) for number in (30, 31, 32)]


def test_an_append_that_was_done_is_answered_so_among_others(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket
) -> None:
    log.commit(append(40))
    writer = Log(faulty, world)
    again = Append(commit=ulid(901), blocks=(block(40),))
    answers = together(writer, Gate(faulty, 3), append(30), [again, append(31)])
    assert committed(answers[1]).already
    assert committed(answers[1]).version == 2
    assert committed(answers[1]).left == {ulid(40): Left.ACCOUNTED}
    assert (committed(answers[2]).version, committed(answers[2]).already) == (4, False)


def test_a_group_without_an_answer_is_indeterminate_for_each_and_each_is_found_again(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket
) -> None:
    writer = Log(faulty, world, patience_s=1)
    lost: Callable[[Call], None]

    def lost(call: Call) -> None:
        if call.key == entry_key(3):
            raise Unanswered("lost")

    faulty.after.append(lost)
    changes = [append(11), append(12)]
    answers = together(writer, Gate(faulty), append(10), list(changes))
    assert all(isinstance(one, Indeterminate) for one in answers[1:])
    faulty.after.clear()
    for change in changes:
        assert writer.commit(change).already
    assert Log(bucket, world).state.blocks.ulids() == [ulid(number) for number in (10, 11, 12)]


@pytest.mark.parametrize("answered", [True, False], ids=["by its entry", "by its commit id"])
def test_an_append_below_the_horizon_is_left_to_discovery_however_its_group_was_answered(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, answered: bool
) -> None:
    """The entry holds the others' blocks.

    Found again by its commit id alone, it says nothing of the one left out.
    """
    log.commit(Planned(operation=Operation.HORIZON, commit=ulid(900), plan=Draft(horizon=ulid(20))))
    writer = Log(faulty, world)
    if not answered:

        def inherit(call: Call) -> None:
            if call.key == entry_key(4) and call.method == "put_if_absent":
                faulty.after.remove(inherit)
                log.commit(append(40))
                collect(bucket, log, 4)

        faulty.after.append(inherit)
    answers = together(writer, Gate(faulty, 3), append(30), [append(31), append(15), append(32)])
    late = committed(answers[2])
    assert late.left == {ulid(15): Left.DEFERRED}
    assert (late.version, late.added, late.already) == (None, (), False)
    for place, number in ((1, 31), (3, 32)):
        mine = committed(answers[place])
        assert (mine.version, [meta.ulid for meta in mine.added], mine.left) == (
            4,
            [ulid(number)],
            {},
        )


def test_a_leader_that_dies_leaves_nobody_waiting(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket
) -> None:
    writer = Log(faulty, world)

    def die(call: Call) -> None:
        if call.key == entry_key(3) and call.method == "put_if_absent":
            faulty.before.remove(die)
            raise Killed(call)

    faulty.before.append(die)
    answers = together(writer, Gate(faulty), append(10), [append(11), append(12)])
    assert isinstance(answers[1], Killed)
    assert isinstance(answers[2], Indeterminate)
    assert writer.commit(append(13)).version == 4, "what was on its way is settled first"
    assert Log(bucket, world).state.blocks.ulids() == [ulid(number) for number in (10, 11, 12, 13)]


def test_many_threads_on_one_handle_lose_nothing(bucket: MemoryBucket, log: Log) -> None:
    real = World.real()
    writer = Log(bucket, real)
    errors: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            for number in range(20):
                one = Append(commit=real.ids.ulid(), blocks=(block(1_000 * thread + number),))
                assert writer.commit(one).version is not None
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    state = Log(bucket, real).state
    assert len(state.blocks) == 160
    assert state == writer.poll()


def test_a_thread_interrupted_in_line_leaves_it_and_passes_on_the_lead(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Log(faulty, world)
    waited = Waiting.wait

    def interrupted(self: Waiting) -> None:
        waited(self)
        if self.change.commit == ulid(500_011) and self.answer is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Waiting, "wait", interrupted)
    tag = Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"a": 1}))
    answers = together(writer, Gate(faulty), append(10), [append(11), tag])
    assert isinstance(answers[1], KeyboardInterrupt)
    assert committed(answers[2]).version == 3
    assert Log(bucket, world).state.blocks.ulids() == [ulid(10)]


def test_a_change_that_no_reader_could_follow_is_never_sent(bucket: MemoryBucket, log: Log) -> None:
    log.commit(append(10))
    strange = Planned(
        operation=Operation.REVERT, commit=ulid(900), plan=Draft(excepts={ulid(10): (ulid(11),)})
    )
    with pytest.raises(Invalid, match="was not sent"):
        log.commit(strange)
    assert log.poll().version == 2

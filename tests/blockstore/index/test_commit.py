"""A commit, fault by fault (protocol 3.3): what it returns, what it costs, and that nothing is
applied twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Conflict,
    Contended,
    Indeterminate,
    NoSpace,
    Throttled,
    Unanswered,
    Unavailable,
)
from blockstore.format import Job
from blockstore.index.change import Append, Draft
from blockstore.index.checkpoint_name import name_of
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation, decode_entry
from blockstore.index.log import Log
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.world import World
from tests.blockstore.index.test_read import collect
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import Planned, append, block, ulid

Where = Callable[[Call], bool]


def creating(entry: int) -> Where:
    return lambda call: call.method == "put_if_absent" and call.key == entry_key(entry)


def reading(key: str) -> Where:
    return lambda call: call.method == "get" and call.key == key


def failing(where: Where, error: BlockstoreError, times: int = 1) -> Callable[[Call], None]:
    """A hook that raises at the first calls that match."""
    left = [times]

    def hook(call: Call) -> None:
        if left[0] and where(call):
            left[0] -= 1
            raise error

    return hook


def doing(where: Where, action: Callable[[], object]) -> Callable[[Call], None]:
    """A hook that acts at the first call that matches."""
    done: list[Call] = []

    def hook(call: Call) -> None:
        if not done and where(call):
            done.append(call)
            action()

    return hook


LOST = Unanswered("the answer was lost")


@pytest.fixture
def faulty(bucket: MemoryBucket, log: Log) -> FaultyBucket:
    return FaultyBucket(bucket)


@pytest.fixture
def writer(faulty: FaultyBucket, world: World) -> Log:
    """A handle whose bucket misbehaves, its state read and the store's clock read."""
    writer = Log(faulty, world, patience_s=5)
    writer.commit(append(1))
    return writer


def entries(bucket: MemoryBucket, world: World) -> list[str]:
    """The commit ids of the history, oldest first."""
    return [entry.commit for entry in Log(bucket, world).entries()]


def once(bucket: MemoryBucket, world: World, *numbers: int) -> None:
    """Each block is live exactly once, and nothing else is."""
    assert Log(bucket, world).state.blocks.ulids() == [
        ulid(number) for number in sorted((1, *numbers))
    ]


def test_a_publish_costs_one_put_and_three_conditional_gets(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(1))
    metered.reset()
    committed = writer.commit(append(2))
    assert committed.version == 3
    assert metered.counts == {"put_if_absent": 1, "get": 3}, (
        "the entry below, before and after; the boundary"
    )
    assert metered.bytes["get"] == 0, "304"


def test_a_lost_race_costs_a_get_the_looks_of_step_5_and_a_put(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(1))
    log.commit(append(2))
    metered.reset()
    assert writer.commit(append(3)).version == 4
    assert metered.counts == {"put_if_absent": 2, "get": 6}
    once(bucket, world, 2, 3)


def test_a_writer_far_behind_catches_up_without_losing_every_race(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(1))
    for number in range(100, 140):
        log.commit(append(number))
    metered.reset()
    writer.commit(append(2))
    assert metered.counts["put_if_absent"] == 3
    assert metered.counts["list"] == 0


@pytest.mark.parametrize(
    "error",
    [LOST, Unavailable("500"), Contended("409"), Throttled("503")],
    ids=lambda one: str(one),
)
@pytest.mark.parametrize("times", [1, 3])
def test_the_same_entry_goes_to_the_same_id_until_there_is_an_answer(
    bucket: MemoryBucket,
    world: World,
    faulty: FaultyBucket,
    writer: Log,
    error: BlockstoreError,
    times: int,
) -> None:
    faulty.before.append(failing(creating(3), error, times))
    assert writer.commit(append(2)).version == 3
    once(bucket, world, 2)


def test_a_lost_answer_is_found_again_under_the_same_id(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.after.append(failing(creating(3), LOST))
    committed = writer.commit(append(2))
    assert (committed.version, committed.already) == (3, False)
    assert [one.key for one in faulty.calls].count(entry_key(3)) == 3, "PUT, PUT again, GET"
    once(bucket, world, 2)


def test_a_lost_answer_to_a_put_that_another_has_won_is_a_lost_race(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.before.append(doing(creating(3), lambda: log.commit(append(7))))
    faulty.before.append(failing(creating(3), LOST))
    assert writer.commit(append(2)).version == 4
    once(bucket, world, 2, 7)


def test_a_put_that_is_never_answered_is_indeterminate_and_settled_first(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    hook = failing(creating(3), LOST, times=10**9)
    faulty.before.append(hook)
    change = append(2)
    with pytest.raises(Indeterminate, match="index entry 3") as info:
        writer.commit(change)
    assert (info.value.entry, info.value.commit) == (3, change.commit)
    with pytest.raises(Unavailable, match="not settled yet"):
        writer.commit(append(5))
    faulty.before.remove(hook)
    assert writer.commit(append(5)).version == 4, "the earlier one took its id first"
    assert writer.commit(change).already
    once(bucket, world, 2, 5)


def test_a_put_delivered_minutes_later_is_found(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    sent: list[bytes] = []
    bytes_of = faulty.put_if_absent

    def late(key: str, data: bytes) -> str:
        if key == entry_key(3) and len(sent) < 10**6:
            sent.append(data)
            faulty.inner.now_ms()
            raise LOST
        return bytes_of(key, data)

    faulty.put_if_absent = late  # type: ignore[method-assign]
    change = append(2)
    with pytest.raises(Indeterminate):
        writer.commit(change)
    commits = {decode_entry(data, entry_id=3).commit for data in sent}
    assert (len(set(sent)), commits) == (len(sent), {change.commit}), (
        "no bytes twice, and one commit"
    )
    bucket.put_if_absent(entry_key(3), sent[0])
    faulty.put_if_absent = bytes_of  # type: ignore[method-assign]
    again = writer.commit(change)
    assert (again.version, again.already) == (3, True)
    once(bucket, world, 2)


@pytest.mark.parametrize("error", [Throttled("503"), Contended("409")], ids=str)
def test_what_was_certainly_not_applied_is_unavailable(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log, error: BlockstoreError
) -> None:
    faulty.before.append(failing(creating(3), error, times=10**9))
    with pytest.raises(type(error)):
        writer.commit(append(2))
    faulty.before.clear()
    assert writer.commit(append(5)).version == 3
    once(bucket, world, 5)


@pytest.mark.parametrize("error", [NoSpace("disk full"), AccessDenied("403")], ids=str)
def test_a_refusal_of_the_store_is_passed_on_at_once(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log, error: BlockstoreError
) -> None:
    faulty.before.append(failing(creating(3), error))
    with pytest.raises(type(error)):
        writer.commit(append(2))
    assert [one.key for one in faulty.calls].count(entry_key(3)) == 1
    once(bucket, world)


def test_a_refusal_after_a_lost_answer_is_indeterminate(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    refusal = failing(creating(3), AccessDenied("403"))
    faulty.after.append(doing(creating(3), lambda: faulty.before.append(refusal)))
    faulty.after.append(failing(creating(3), LOST))
    change = append(2)
    with pytest.raises(Indeterminate):
        writer.commit(change)
    assert writer.commit(change).already
    once(bucket, world, 2)


@pytest.mark.parametrize("key", [BOUNDARY, entry_key(3)], ids=["boundary", "entry"])
def test_an_answer_missing_after_the_create_is_indeterminate_and_resolved(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log, key: str
) -> None:
    if key == entry_key(3):
        faulty.after.append(failing(creating(3), LOST))
    faulty.before.append(failing(reading(key), Unavailable("no answer")))
    change = append(2)
    with pytest.raises(Indeterminate, match="index entry 3"):
        writer.commit(change)
    assert writer.commit(append(5)).version == 4
    again = writer.commit(change)
    assert (again.version, again.already) == (3, True)
    once(bucket, world, 2, 5)


def test_a_fresh_process_resolves_an_append_by_its_blocks(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.before.append(failing(reading(BOUNDARY), Unavailable("no answer")))
    with pytest.raises(Indeterminate):
        writer.commit(append(2))
    again = Log(bucket, world).commit(Append(commit=ulid(900), blocks=(block(2),)))
    assert (again.version, again.already) == (3, True)
    once(bucket, world, 2)


def test_taken_and_then_gone_is_a_cold_start(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, writer: Log
) -> None:
    """412, then 404: others have filled the id and the collector has passed it."""

    def overtake() -> None:
        for number in range(100, 105):
            log.commit(append(number))

    faulty.before.append(doing(creating(3), overtake))
    faulty.before.append(doing(reading(entry_key(3)), lambda: collect(bucket, log, 6)))
    assert writer.commit(append(2)).version == 8
    once(bucket, world, 2, *range(100, 105))


def test_a_stale_writer_creates_a_zombie_and_is_refused_by_the_boundary(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, writer: Log
) -> None:
    """The writer stalls before its PUT. The entry is created under a collected id; step 5 refuses
    it, and the append finds its place at the end."""

    def stall() -> None:
        for number in range(100, 105):
            log.commit(append(number))
        collect(bucket, log, 6)

    faulty.before.append(doing(creating(3), stall))
    committed = writer.commit(append(2))
    assert committed.version == 8
    assert bucket.get(entry_key(3)).data, "the refused file stays for the collector"
    once(bucket, world, 2, *range(100, 105))


def test_a_refused_entry_that_another_has_inherited_is_applied_once(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, writer: Log
) -> None:
    """Created in time, folded by others, collected, and only then checked: refused does not mean
    not applied."""

    def inherit() -> None:
        for number in range(100, 105):
            log.commit(append(number))
        collect(bucket, log, 6)

    faulty.after.append(doing(creating(3), inherit))
    change = Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"a": 1}))
    committed = writer.commit(change)
    assert (committed.version, committed.already) == (3, True)
    state = Log(bucket, world).state
    assert state.version == 8
    assert state.tags == {"a": 1}


def test_a_cached_boundary_never_accepts(
    bucket: MemoryBucket, world: World, log: Log, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.after.append(doing(creating(3), lambda: bucket.put(BOUNDARY, b"3")))
    write_checkpoint(bucket, log.poll())
    with pytest.raises(BlockstoreError):
        writer.commit(append(2))


@pytest.mark.parametrize("operation", [Operation.TAG, Operation.APPEND])
def test_a_fate_that_was_collected_is_decided_by_block_or_stays_unknown(
    bucket: MemoryBucket,
    world: World,
    log: Log,
    faulty: FaultyBucket,
    writer: Log,
    monkeypatch: pytest.MonkeyPatch,
    operation: Operation,
) -> None:
    """Indeterminate, then out of the window, then below the boundary."""
    monkeypatch.setattr("blockstore.index.commit_ids.WINDOW_ENTRIES", 3)
    assert isinstance(world.clock, ManualClock)
    faulty.before.append(failing(reading(BOUNDARY), Unavailable("no answer")))
    tag = Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"a": 1}))
    change = append(2) if operation is Operation.APPEND else tag
    with pytest.raises(Indeterminate):
        writer.commit(change)
    for number in range(100, 106):
        world.clock.advance(3_600)
        log.commit(append(number))
    collect(bucket, log, 8)
    if operation is Operation.APPEND:
        assert writer.commit(change).already
    else:
        assert writer.commit(append(5)).version == 10, "the handle goes on"
        for _ in range(2):
            with pytest.raises(
                Indeterminate, match="entry was collected before its result was known"
            ):
                writer.commit(change)
    state = Log(bucket, world).state
    assert (ulid(2) in state.blocks) == (operation is Operation.APPEND)


@pytest.mark.parametrize("applied", [True, False])
def test_a_fate_below_the_window_is_read_from_its_entry(
    bucket: MemoryBucket,
    world: World,
    log: Log,
    faulty: FaultyBucket,
    writer: Log,
    monkeypatch: pytest.MonkeyPatch,
    applied: bool,
) -> None:
    monkeypatch.setattr("blockstore.index.commit_ids.WINDOW_ENTRIES", 3)
    assert isinstance(world.clock, ManualClock)
    change = Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"a": 1}))
    hook = failing(creating(3), LOST, times=10**9)
    (faulty.after if applied else faulty.before).append(hook)
    if applied:
        faulty.before.append(failing(reading(entry_key(3)), Unavailable("no answer")))
    with pytest.raises(Indeterminate):
        writer.commit(change)
    faulty.before.clear()
    faulty.after.clear()
    for number in range(100, 106):
        world.clock.advance(3_600)
        log.commit(append(number))
    committed = writer.commit(change)
    assert (committed.version, committed.already) == ((3, True) if applied else (9, False))
    commits = entries(bucket, world)
    assert commits.count(change.commit) == 1


def test_a_conflict_leaves_nothing_behind(bucket: MemoryBucket, world: World, writer: Log) -> None:
    with pytest.raises(Conflict):
        writer.commit(
            Planned(operation=Operation.EXPIRE, commit=ulid(900), plan=Draft(remove=(ulid(77),)))
        )
    assert writer.commit(append(2)).version == 3
    once(bucket, world, 2)


def test_a_job_is_committed_once_whoever_retries_it(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.before.append(failing(reading(BOUNDARY), Unavailable("no answer")))
    job = Job(app="nightly", batch=1)
    with pytest.raises(Indeterminate):
        writer.commit(append(2, job=job))
    again = Log(bucket, world).commit(append(60, job=job))
    assert (again.version, again.already) == (3, True)
    assert [meta.ulid for meta in again.added] == [ulid(2)]
    once(bucket, world, 2)


def test_an_entry_carries_its_writers_time_but_not_a_future_that_the_store_does_not_know(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    fast = World.manual(now_ms=world.clock.now_ms() + 3_600_000)
    Log(bucket, fast).commit(append(1))
    Log(bucket, world).commit(append(2))
    times = [entry.time - world.clock.now_ms() for entry in log.entries()]
    assert times == [0, 300_000, 300_000], "never below the entry before"


def test_an_entry_says_who_wrote_it_and_what_checkpoint_it_knew(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 170):
        log.commit(append(number))
    entry = decode_entry(bucket.get(entry_key(70)).data, entry_id=70)
    assert entry.checkpoint == name_of(64, bucket.get(checkpoint_key(64)).data)
    assert ", blockstore, " in entry.by


def claim() -> Planned:
    """A change that only its commit id distinguishes from another's."""
    return Planned(
        operation=Operation.EPOCH, commit=ulid(77), plan=Draft(epochs={"compactor": (1, ulid(77))})
    )


def test_a_check_that_is_denied_after_the_create_is_indeterminate(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    faulty.before.append(failing(reading(BOUNDARY), AccessDenied("the credentials have expired")))
    with pytest.raises(Indeterminate, match="index entry 3"):
        writer.commit(claim())
    assert entries(bucket, world)[-1] == ulid(77)
    assert writer.commit(claim()).version == 3


def test_a_refused_entry_is_not_called_unsent_when_nobody_answers_afterwards(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    def inherit() -> None:
        other = Log(bucket, world)
        other.commit(append(9))
        write_checkpoint(bucket, other.at(3))
        bucket.put(BOUNDARY, b"3")

    faulty.after.append(doing(creating(3), inherit))
    faulty.before.append(failing(lambda call: call.method == "list", Unavailable("no answer")))
    with pytest.raises(Indeterminate, match="index entry 3"):
        writer.commit(claim())
    assert Log(bucket, world).state.commits.find(ulid(77)) == 3, "it is in the index all the same"
    assert writer.commit(claim()).version == 3


def test_an_operation_tried_again_before_it_can_be_settled_is_still_indeterminate(
    bucket: MemoryBucket, world: World, faulty: FaultyBucket, writer: Log
) -> None:
    silent = failing(reading(BOUNDARY), Unavailable("no answer"), times=10_000)
    faulty.before.append(silent)
    for _ in range(2):
        with pytest.raises(Indeterminate):
            writer.commit(claim())
    with pytest.raises(Unavailable, match="nothing else was sent"):
        writer.commit(append(5))
    faulty.before.remove(silent)
    assert writer.commit(claim()).version == 3


def test_a_machine_that_slept_dates_its_entries_by_the_day_on_which_it_wakes(
    bucket: MemoryBucket, world: World, writer: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.commit(append(60))
    clock = world.clock
    assert isinstance(clock, ManualClock)
    fallen = clock.monotonic_s()
    monkeypatch.setattr(clock, "monotonic_s", lambda: fallen)
    clock.advance(8 * 3600)
    woken = clock.now_ms()
    writer.commit(append(61))
    assert writer.state.time_ms == woken
    assert writer.as_of(woken - 3_600_000).version == writer.state.version - 1

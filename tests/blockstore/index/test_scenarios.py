"""The scenarios that an index must survive, each on the real code, from the real collector to the
fresh process.

Deeper enumerations are next to their subjects: commits in ``test_crash.py``, collection in
``test_gc_crash.py``, tags in ``test_tags.py``. Here each scenario has one name and one story.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import (
    AlreadyExists,
    BlockCondemned,
    BlockstoreError,
    BoundaryLost,
    Contended,
    Fenced,
    Indeterminate,
    Unanswered,
    Unavailable,
    VersionExpired,
)
from blockstore.format import VisibleBy
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Change, Draft, Expire, RaiseWatermarks
from blockstore.index.entry import Operation, decode_entry
from blockstore.index.epochs import Held, claim
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.tags import tag, untag
from blockstore.names import BOUNDARY, CHECKPOINTS, HINT, INDEX, entry_key, parse_entry
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.index_data import DEFINITION, Planned, append, block, merge, ulid
from tests.support.tally import tally

OLD_S = 49 * 3600


@pytest.fixture
def grown(log: Log) -> Log:
    """Versions 1 to 6, with blocks 100 to 104."""
    for number in range(100, 105):
        log.commit(append(number))
    return log


def collected(log: Log, world: World, number: int = 800) -> int:
    """Everything so far grows old, one more block comes, the collector runs; returns the
    boundary."""
    world.clock.sleep(OLD_S)
    log.commit(append(number))
    return collect(log, world).boundary


def once(bucket: Bucket, world: World, *numbers: int) -> None:
    """A fresh process finds each block exactly once, and no other."""
    state = Log(bucket, world).state
    sources = [source for one in state.blocks for source in one.meta.sources]
    assert sorted(sources) == sorted(map(ulid, numbers))


def creating(entry: int) -> Callable[[Call], bool]:
    return lambda call: call.method == "put_if_absent" and call.key == entry_key(entry)


def first_time(
    where: Callable[[Call], bool], action: Callable[[], object]
) -> Callable[[Call], None]:
    """A hook that acts at the first call that matches."""
    done: list[Call] = []

    def hook(call: Call) -> None:
        if not done and where(call):
            done.append(call)
            action()

    return hook


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


def entries(bucket: Bucket) -> list[int]:
    found = (parse_entry(info.key) for info in bucket.list(INDEX, recursive=False))
    return sorted(one for one in found if one is not None)


GROWN = (100, 101, 102, 103, 104)


def test_a_stalled_writer_that_wakes_after_gc_is_refused_warned_of_and_applied_at_the_end(
    bucket: MemoryBucket, world: World, grown: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """It stalls between its look at the entry below and its PUT: before that look it would see that
    the entry was collected."""
    faulty = FaultyBucket(bucket)
    stalled = Log(faulty, world)
    stalled.commit(append(105))

    def stall(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(8):
            faulty.before.clear()
            for number in (106, 107):
                grown.commit(append(number))
            assert collected(grown, world) == 8

    faulty.before.append(stall)
    with caplog.at_level(logging.WARNING):
        committed = stalled.commit(append(200))
    assert committed.version == 11
    refusal = (
        f"index entry 8 of memory://, created by commit {ulid(500_200)} (append), is at or below "
        "the boundary 8"
    )
    assert refusal in caplog.text
    assert stalled.boundary.counts.refusals == 1
    once(bucket, world, *GROWN, 105, 106, 107, 800, 200)
    assert entries(bucket) == [8, 9, 10, 11], "the refused file stays for the next pass"
    collect(grown, world)
    assert entries(bucket) == [9, 10, 11]


def test_an_entry_that_was_inherited_and_then_refused_is_applied_once(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    """Created in time, folded by others, collected, and only then checked."""
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    writer.poll()

    def inherit() -> None:
        grown.commit(append(105))
        assert collected(grown, world) == 7

    faulty.after.append(first_time(creating(7), inherit))
    change = Expire(commit=ulid(900), read={ulid(100): frozenset()}, reason="manual")
    committed = writer.commit(change)
    assert (committed.version, committed.already) == (7, True)
    once(bucket, world, *GROWN[1:], 105, 800)
    assert Log(bucket, world).state.version == 9


@pytest.mark.parametrize(
    "resends", [False, True], ids=["without library resend", "with library resend"]
)
@pytest.mark.parametrize("applied", [False, True], ids=["lost on the way", "applied"])
def test_a_lost_answer_is_applied_exactly_once(
    bucket: MemoryBucket, world: World, grown: Log, resends: bool, applied: bool
) -> None:
    """A client library that resends by itself turns its own success into a 412."""
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    writer.poll()
    lost = Unanswered("the answer was lost")
    if applied:
        error: BaseException = AlreadyExists("412 to the second copy") if resends else lost
        faulty.after.append(first_time(creating(7), failing(error)))
    else:
        faulty.before.append(first_time(creating(7), failing(lost)))
        if resends:
            faulty.after.append(
                first_time(creating(7), failing(AlreadyExists("412 to the second copy")))
            )
    assert writer.commit(append(200)).version == 7
    once(bucket, world, *GROWN, 200)


def test_a_put_that_is_delivered_after_gc_is_no_part_of_the_history(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    """Sent, without a response; others take the id, the collector passes it and deletes it; then
    the first copy arrives."""
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world, patience_s=1)
    writer.poll()
    sent: list[bytes] = []
    put = faulty.put_if_absent

    def swallow(key: str, data: bytes) -> str:
        if key == entry_key(7):
            sent.append(data)
            raise Unanswered("somewhere in the network")
        return put(key, data)

    faulty.put_if_absent = swallow  # type: ignore[method-assign]
    change = append(200)
    with pytest.raises(Indeterminate):
        writer.commit(change)
    for number in (105, 106):
        grown.commit(append(number))
    assert collected(grown, world) == 7
    commits = {decode_entry(data, entry_id=7).commit for data in sent}
    assert (len(set(sent)), commits) == (len(sent), {change.commit}), (
        "no bytes twice, and one commit"
    )
    bucket.put_if_absent(entry_key(7), sent[0])
    once(bucket, world, *GROWN, 105, 106, 800)
    faulty.put_if_absent = put  # type: ignore[method-assign]
    assert writer.commit(change).version == 10
    once(bucket, world, *GROWN, 105, 106, 800, 200)
    collect(grown, world)
    assert entries(bucket) == [8, 9, 10]


@pytest.mark.parametrize("times", [1, 5])
def test_a_409_and_then_a_200_is_one_entry(
    bucket: MemoryBucket, world: World, grown: Log, times: int
) -> None:
    faulty = FaultyBucket(bucket)
    for _ in range(times):
        faulty.before.append(first_time(creating(7), failing(Contended("409"))))
    assert Log(faulty, world).commit(append(200)).version == 7
    assert [call.key for call in faulty.writes if call.key == entry_key(7)] == [entry_key(7)] * (
        times + 1
    )
    once(bucket, world, *GROWN, 200)


def test_a_412_and_then_a_404_starts_cold(bucket: MemoryBucket, world: World, grown: Log) -> None:
    """Taken when it was written; gone when it was read: the collector was faster."""
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    writer.poll()

    def overtake() -> None:
        grown.commit(append(105))
        grown.commit(append(106))

    faulty.before.append(first_time(creating(7), overtake))
    gone = first_time(
        lambda call: call.method == "get" and call.key == entry_key(7),
        lambda: collected(grown, world),
    )
    faulty.before.append(gone)
    assert writer.commit(append(200)).version == 10
    assert entries(bucket) == [8, 9, 10]
    once(bucket, world, *GROWN, 105, 106, 800, 200)


def test_a_name_that_is_called_taken_and_missing_for_ever_is_indeterminate_after_the_deadline(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    class Odd(Wrapper):
        puts = 0

        def put_if_absent(self, key: str, data: bytes) -> str:
            if key == entry_key(7):
                self.puts += 1
                raise AlreadyExists("412")
            return self.inner.put_if_absent(key, data)

    odd = Odd(bucket)
    started = world.clock.monotonic_s()
    with pytest.raises(Indeterminate, match="was reported as taken and then missing"):
        Log(odd, world, patience_s=20).commit(append(200))
    assert 20 <= world.clock.monotonic_s() - started < 40
    assert odd.puts < 50, "it pauses"
    once(bucket, world, *GROWN)


def test_a_boundary_read_that_fails_after_the_create_is_resolved_by_the_same_handle(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    writer.commit(append(105))
    faulty.after.append(
        first_time(
            creating(8),
            lambda: faulty.before.append(
                first_time(lambda call: call.key == BOUNDARY, failing(Unavailable("no answer")))
            ),
        )
    )
    change = append(200)
    with pytest.raises(Indeterminate, match="index entry 8"):
        writer.commit(change)
    assert writer.commit(append(201)).version == 9
    again = writer.commit(change)
    assert (again.version, again.already) == (8, True)
    once(bucket, world, *GROWN, 105, 200, 201)


EVERYONE: dict[str, Callable[[Bucket, World], object]] = {
    "reads": lambda bucket, world: Log(bucket, world).poll(),
    "writes": lambda bucket, world: Log(bucket, world).commit(append(200)),
    "collects": lambda bucket, world: collect(Log(bucket, world), world),
    "creates": lambda bucket, world: create(bucket, world, DEFINITION),
    "tags": lambda bucket, world: tag(Log(bucket, world), world, "a"),
    "claims": lambda bucket, world: claim(Log(bucket, world), world, "compactor"),
}


@pytest.mark.parametrize("who", EVERYONE)
def test_a_boundary_that_is_missing_in_a_fresh_process_stops_it(
    bucket: MemoryBucket, world: World, grown: Log, who: str
) -> None:
    assert collected(grown, world) == 5
    bucket.delete([BOUNDARY])
    before = {info.key: bucket.get(info.key).data for info in bucket.list()}
    with pytest.raises(BoundaryLost, match=BOUNDARY):
        EVERYONE[who](bucket, world)
    assert {info.key: bucket.get(info.key).data for info in bucket.list()} == before


@pytest.mark.parametrize("found", [b"", b"five", b"-5", b"5\n", b"99999999999999999999"])
@pytest.mark.parametrize("who", EVERYONE)
def test_a_garbled_boundary_stops_everyone(
    bucket: MemoryBucket, world: World, grown: Log, who: str, found: bytes
) -> None:
    bucket.put(BOUNDARY, found)
    before = {info.key: bucket.get(info.key).data for info in bucket.list()}
    with pytest.raises(BlockstoreError) as info:
        EVERYONE[who](bucket, world)
    assert isinstance(info.value, BoundaryLost) or who == "creates"
    assert {info.key: bucket.get(info.key).data for info in bucket.list()} == before


def test_a_boundary_that_falls_stops_whoever_has_seen_it(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    assert collected(grown, world) == 5
    bucket.put(BOUNDARY, b"4")
    acts: list[Callable[[], object]] = [
        grown.poll,
        lambda: grown.commit(append(200)),
        lambda: collect(grown, world),
    ]
    for act in acts:
        with pytest.raises(BoundaryLost, match="fell from 5 to 4"):
            act()
    assert entries(bucket)[:2] == [6, 7], "nothing was deleted"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("k", range(1, 25))
def test_two_gcs_in_every_order_leave_the_same(
    bucket: MemoryBucket, world: World, grown: Log, order: tuple[int, int], k: int
) -> None:
    """One knows the table of today, the other that of two days later; each is overtaken by the
    other at every call."""
    world.clock.sleep(OLD_S)
    grown.commit(append(105))
    faulty = FaultyBucket(bucket)
    first = Log(faulty, world)
    first.poll()
    if order == (1, 0):
        world.clock.sleep(OLD_S)
        grown.commit(append(106))

    def second() -> None:
        if order == (0, 1):
            world.clock.sleep(OLD_S)
            grown.commit(append(106))
        collect(Log(bucket, world), world)

    at = len(faulty.calls) + k
    faulty.before.append(first_time(lambda call: call.number == at, second))
    collect(first, world)
    collect(Log(bucket, world), world)
    numbers = (*GROWN, 105, 106) if order == (1, 0) or len(faulty.calls) >= at else (*GROWN, 105)
    once(bucket, world, *numbers)
    assert int(bucket.get(BOUNDARY).data) == (6 if len(numbers) == 7 else 5)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_gc_whose_clock_is_an_hour_off_collects_by_the_stores(
    bucket: MemoryBucket, world: World, clock: ManualClock, grown: Log, hours: int
) -> None:
    clock.advance(47.5 * 3600)
    grown.commit(append(105))
    off = World.manual(now_ms=clock.now_ms() + hours * 3_600_000)
    assert collect(Log(bucket, off), off).boundary == 0, "47.5 hours"
    clock.advance(3600)
    off = World.manual(now_ms=clock.now_ms() + hours * 3_600_000)
    assert collect(Log(bucket, off), off).boundary == 5, "48.5 hours"


@pytest.mark.parametrize(
    "where", ["before the listing", "after the listing", "before the checkpoint", "before an entry"]
)
def test_a_cold_read_whose_list_and_gets_meet_gc_starts_again(
    bucket: MemoryBucket, world: World, grown: Log, where: str
) -> None:
    collected(grown, world)
    world.clock.sleep(OLD_S)
    grown.commit(append(801))
    faulty = FaultyBucket(bucket)
    meets: dict[str, Callable[[Call], bool]] = {
        "before the listing": lambda call: call.method == "list",
        "after the listing": lambda call: call.method == "list",
        "before the checkpoint": lambda call: (
            call.key.startswith(CHECKPOINTS) and call.method == "get"
        ),
        "before an entry": lambda call: call.key == entry_key(7),
    }
    hooks = faulty.after if where.startswith("after") else faulty.before
    hooks.append(first_time(meets[where], lambda: collect(Log(bucket, world), world)))
    assert Log(faulty, world).state == grown.poll()
    assert entries(bucket) == [7, 8]


@pytest.mark.parametrize("behind", [1, 5, 500])
@pytest.mark.parametrize("gc", [False, True], ids=["", "and the collector has passed it"])
def test_a_warm_reader_that_is_behind_reads_the_latest(
    bucket: MemoryBucket, world: World, grown: Log, behind: int, gc: bool
) -> None:
    metered = Metered(bucket)
    reader = Log(metered, world)
    assert reader.state.version == 6
    for number in range(behind):
        grown.commit(append(1_000 + number))
    if gc:
        collected(grown, world)
    metered.reset()
    state = reader.poll()
    assert state == grown.poll()
    assert state == Log(bucket, world).state
    if not gc and behind < 500:
        assert metered.counts["list"] == 0, "a poll"


def test_stray_names_are_ignored_by_readers_writers_and_gc(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    strays = [
        "index/00000000000000000099.json.tmp",
        "index/000000000000000000099.json",
        "index/+0000000000000000099.json",
        "index/٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٩.json",
        "index/latest",
        "index/checkpoints/00000000000000000099.parquet.part",
        "index/checkpoints/deep/00000000000000000099.parquet",
        "index/deep/00000000000000000099.json",
        "gc/index.boundary.bak",
    ]
    for key in strays:
        bucket.put(key, b"99")
    assert Log(bucket, world).state.version == 6
    assert Log(bucket, world).commit(append(200)).version == 7
    grown.poll()
    assert collected(grown, world) == 6
    once(bucket, world, *GROWN, 200, 800)
    assert {info.key for info in bucket.list()} >= {*strays}


@pytest.mark.parametrize("k", range(1, 9))
def test_a_tag_that_races_gc_keeps_its_version_or_says_that_it_expired(
    bucket: MemoryBucket, world: World, grown: Log, k: int
) -> None:
    world.clock.sleep(OLD_S)
    grown.commit(append(105))
    old = grown.at(3)
    faulty = FaultyBucket(bucket)
    tagger = Log(faulty, world)
    tagger._state = grown.state
    faulty.before.append(
        first_time(lambda call: call.number == k, lambda: collect(Log(bucket, world), world))
    )
    try:
        tag(tagger, world, "q3", 3)
    except VersionExpired:
        assert Log(bucket, world).state.tags == {}
    else:
        collect(Log(bucket, world), world)
        assert Log(bucket, world).tagged("q3") == old


def test_a_stalled_commit_of_an_index_block_is_condemned_by_the_horizon(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    """Planned, uploaded, stalled; the horizon passes the block; a removal of debris need not fear
    the commit."""
    held = claim(grown, world, "compactor")
    parents = [block(100), block(101)]
    made = merge(200, parents)
    draft = Draft(add=(AddedBlock(meta=made),), remove=tuple(one.ulid for one in parents))
    stalled = Log(bucket, world)
    stalled.poll()
    faulty = FaultyBucket(bucket)
    late = Log(faulty, world)
    late.poll()

    def raise_horizon() -> None:
        grown.commit(RaiseWatermarks(commit=ulid(901), epoch=held.epoch, horizon=ulid(300)))

    faulty.before.append(first_time(creating(8), raise_horizon))
    for log in (late, stalled):
        with pytest.raises(BlockCondemned, match=made.ulid):
            log.commit(Planned(operation=Operation.COMPACT, commit=world.ids.ulid(), plan=draft))
    index_block = Append(commit=ulid(902), blocks=(block(250, visible_by=VisibleBy.INDEX),))
    with pytest.raises(BlockCondemned, match="upload its rows again"):
        stalled.commit(index_block)
    once(bucket, world, *GROWN)


def held_work(held: Held) -> list[Change]:
    """What a compactor commits under its claim."""
    return [
        Planned(
            operation=Operation.COMPACT,
            commit=ulid(910),
            plan=Draft(
                add=(AddedBlock(meta=merge(300, [block(100), block(101)])),),
                remove=(ulid(100), ulid(101)),
            ),
            role=held.role,
            epoch=held.epoch,
        ),
        RaiseWatermarks(commit=ulid(911), epoch=held.epoch, horizon=ulid(50)),
        Expire(
            commit=ulid(912),
            read={ulid(102): frozenset()},
            reason="retention",
            role=held.role,
            epoch=held.epoch,
        ),
    ]


@pytest.mark.parametrize("lost", [False, True], ids=["", "with lost answers"])
def test_fencing_at_every_step_lets_a_change_in_before_the_claim_or_not_at_all(
    world: World, lost: bool
) -> None:
    tried = 0
    for place in range(3):
        for k in range(1, 12):
            fresh = World.manual()
            bucket = MemoryBucket(fresh.clock)
            log = create(bucket, fresh, DEFINITION)
            for number in GROWN:
                log.commit(append(number))
            held = claim(log, fresh, "compactor")
            change = held_work(held)[place]
            faulty = FaultyBucket(bucket, lose_answer={k} if lost else ())
            compactor = Log(faulty, fresh)
            faulty.before.append(
                first_time(
                    lambda call, k=k: call.number == k,  # type: ignore[misc]
                    lambda bucket=bucket, fresh=fresh: claim(
                        Log(bucket, fresh), fresh, "compactor"
                    ),  # type: ignore[misc]
                )
            )
            outcome = settle(compactor, change)
            history = list(Log(bucket, fresh).entries())
            mine = [one.id for one in history if one.commit == change.commit]
            claims = [one.id for one in history if one.operation == Operation.EPOCH]
            assert len(mine) == (1 if outcome else 0)
            if mine and len(claims) > 1:
                assert mine[0] < claims[1], "committed after another had claimed the role"
            if len(claims) > 1:
                with pytest.raises(Fenced):
                    compactor.commit(
                        RaiseWatermarks(commit=ulid(990), epoch=held.epoch, horizon=ulid(60))
                    )
            tried += 1
    tally("crash points", tried)


def settle(log: Log, change: Change) -> bool:
    """Whether the change was committed; requested again until it is certain."""
    for _ in range(5):
        try:
            log.commit(change)
        except (Indeterminate, Unavailable):
            continue
        except Fenced:
            return False
        return True
    raise AssertionError("never certain")


def test_nothing_that_gc_readers_taggers_or_writers_write_looks_like_fencing(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    held = claim(grown, world, "compactor")
    compactor = Log(bucket, world)
    compactor.poll()
    shard = claim(Log(bucket, world), world, "compactor/3")
    tag(Log(bucket, world), world, "a", 3)
    collected(Log(bucket, world), world)
    bucket.put(HINT, b"garbage")
    untag(Log(bucket, world), world, "a")
    collect(Log(bucket, world), world, held=held)
    for change in held_work(held):
        assert compactor.commit(change).version is not None
    assert Log(bucket, world).state.epochs[shard.role] == shard.epoch


class NoCreate(Wrapper):
    """A store that ignores If-None-Match: two creates both succeed."""

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.inner.put(key, data)


class NoReplace(Wrapper):
    """A store that ignores If-Match."""

    def refuses_stale_writes(self) -> bool | None:
        return None

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put(key, data)


class NoNotModified(Wrapper):
    """A store that ignores If-None-Match of a GET."""

    def get(self, key: str, *, if_none_match: str | None = None):  # type: ignore[no-untyped-def]
        return self.inner.get(key)


def test_a_store_that_lacks_if_match_keeps_its_history_and_works(
    bucket: MemoryBucket, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = NoReplace(bucket)
    log = create(store, world, DEFINITION)
    for number in GROWN:
        log.commit(append(number))
    world.clock.sleep(OLD_S)
    log.commit(append(105))
    with caplog.at_level(logging.WARNING):
        done = collect(log, world)
    assert (done.boundary, done.entries) == (0, 0)
    assert "is not collected" in caplog.text
    assert log.at(2).version == 2
    once(store, world, *GROWN, 105)


def test_a_store_that_lacks_304_answers_costs_bytes_only(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    store = NoNotModified(bucket)
    log = Log(store, world)
    assert log.commit(append(105)).version == 7
    assert collected(log, world) == 6
    once(store, world, *GROWN, 105, 800)


def test_a_killed_writer_leaves_nothing_that_stops_the_others(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    for k in range(1, 12):
        faulty = FaultyBucket(bucket, kill_after=k)
        try:
            Log(faulty, world).commit(append(1_000 + k))
        except Killed:
            pass
        assert Log(bucket, world).commit(append(2_000 + k)).version is not None

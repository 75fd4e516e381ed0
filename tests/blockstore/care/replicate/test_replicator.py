"""Replication: the same table elsewhere, whole at every moment, whatever is killed and however the
source goes on."""

from __future__ import annotations

import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.care.rebuild import plan_rebuild, rebuild
from blockstore.care.replicate.replicator import Replicator
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import Conflict, Corrupt, Invalid, NotFound, ObjectMissing
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import RaiseWatermarks
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.lifecycle.mark import place_deletion, withdraw_deletion
from blockstore.names import (
    BOUNDARY,
    CHECKPOINTS,
    HINT,
    checkpoint_key,
    deletion_mark_key,
    entry_key,
    meta_key,
    no_compact_mark_key,
    object_key,
)
from blockstore.table import Table
from tests.blockstore.care.replicate.replicas import (
    HOUR,
    SCENES,
    Pair,
    collected,
    empty,
    fresh,
    go_on,
    rows_in,
    unindexed,
)
from tests.blockstore.care.scene import SCHEMA, Care, worn
from tests.blockstore.care.ship.devices import Device
from tests.support.faulty import FaultyBucket, Killed
from tests.support.lying import lie
from tests.support.sealing import forged
from tests.support.tally import tally


@pytest.fixture(params=SCENES)
def pair(request: pytest.FixtureRequest) -> Pair:
    made = SCENES[request.param]()
    made.remember()
    return made


def test_a_replica_is_the_source(pair: Pair) -> None:
    report = pair.replicate()
    assert report.blocks > 0
    assert report.bytes > 0
    assert report.version == (pair.source.open().poll() if pair.indexed else None)
    pair.check_equal()


def test_a_second_pass_copies_nothing(pair: Pair) -> None:
    pair.replicate()
    faulty, metered = FaultyBucket(pair.target), Metered(pair.source.bucket)
    report = pair.replicate(metered, faulty)
    assert (report.blocks, report.entries, report.marked, report.withdrawn) == (0, 0, 0, 0)
    assert faulty.writes == []
    assert metered.bytes["get_range"] == 0


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_any_call_its_readers_see_an_earlier_version_and_the_next_pass_ends_it(
    scene: str, side: str
) -> None:
    def run(pair: Pair, **faults: object) -> FaultyBucket:
        faulty = FaultyBucket(pair.source.bucket if side == "source" else pair.target, **faults)  # type: ignore[arg-type]
        try:
            pair.replicate(**{side: faulty})
        except (Killed, bs.BlockstoreError):
            pass
        return faulty

    made = SCENES[scene]()
    made.remember()

    def again() -> Pair:
        target = MemoryBucket(made.source.world.clock, "memory://replica")
        for found in made.target.list():
            target.put(found.key, made.target.get(found.key).data)
        return Pair(made.source, target, made.indexed, made.versions)

    whole = again()
    calls = run(whole).calls
    whole.check_equal()
    assert len(calls) > 15
    for call in calls:
        # Killed before call k + 1 is killed after call k; the lost answer to a read is only a
        # pause.
        for fault in ("kill_before", "lose_answer") if call.writes else ("kill_before",):
            tally("crash points")
            pair, point = again(), f"{side}: {fault} {call}"
            run(pair, **{fault: {call.number} if fault == "lose_answer" else call.number})
            pair.check_reader(point)
            pair.replicate()
            assert contents(pair.target) == contents(whole.target), point


def contents(bucket: MemoryBucket) -> dict[str, bytes]:
    """Everything but the hint, which may be stale or missing."""
    return {found.key: bucket.get(found.key).data for found in bucket.list() if found.key != HINT}


def test_a_reader_sees_an_earlier_version_whole_after_every_write(pair: Pair) -> None:
    faulty = FaultyBucket(pair.target)
    faulty.after.append(lambda call: pair.check_reader(f"after {call}") if call.writes else None)
    pair.replicate(target=faulty)
    assert len(faulty.writes) > 10


def test_a_polling_reader_is_never_led_astray(pair: Pair) -> None:
    """One handle, opened before, that polls after every write."""
    if not pair.indexed:
        return
    faulty = FaultyBucket(pair.target)
    readers: list[Table] = []
    seen = [0]

    def poll(call: object) -> None:
        try:
            reader = readers[0] if readers else Table.open_bucket(pair.target, pair.source.world)
            readers[:] = [reader]
            seen.append(reader.poll())
        except NotFound:
            assert len(seen) == 1
            return
        read = (
            reader.snapshot(version=seen[-1])
            if seen[-1] == reader.log.state.version
            else reader.snapshot()
        )
        assert rows_in(read.scan(columns=["writer", "row"]).to_table()) == pair.versions[seen[-1]]

    faulty.after.append(lambda call: poll(call) if call.writes else None)
    pair.replicate(target=faulty)
    assert seen == sorted(seen)
    assert seen[-1] == pair.source.open().poll()


def test_the_source_goes_on_while_it_is_copied() -> None:
    """Its boundary passes what was being copied, and what no version names any more is removed."""
    pair = fresh()
    faulty = FaultyBucket(pair.source.bucket)
    moved = []

    def move(call: object) -> None:
        if getattr(call, "key", "").startswith("index/0") and not moved:
            moved.append(call)
            go_on(pair, "g", "h")

    faulty.before.append(move)
    pair.replicate(source=faulty)
    assert moved
    pair.check_reader()
    pair.replicate()
    pair.check_equal()


def test_an_entry_that_was_collected_and_came_back_is_never_copied() -> None:
    """A writer that stalled before its PUT creates an id anew that the boundary has passed."""
    pair = fresh()
    pair.replicate()
    pair.source.append("g")
    pair.remember()
    wanted = entry_key(pair.source.open().poll())
    zombie = forged(
        pair.source.bucket.get(wanted).data, lambda data: data.replace(b'"by":"', b'"by":"zombie ')
    )
    faulty = FaultyBucket(pair.source.bucket)
    came_back = []

    def stall(call: object) -> None:
        if (getattr(call, "method", ""), getattr(call, "key", "")) == (
            "get",
            wanted,
        ) and not came_back:
            # The pass has polled the source before; this is the read of the page that it copies.
            if sum(one.key == wanted for one in faulty.calls) < 2:
                return
            go_on(pair, "h", "i")
            pair.source.bucket.put(wanted, zombie)
            came_back.append(call)

    faulty.before.append(stall)
    pair.replicate(source=faulty)
    assert came_back
    assert pair.source.open().log.boundary.read() >= int(wanted[6:26])
    pair.source.bucket.delete([wanted])
    pair.replicate()
    pair.check_equal()
    assert wanted not in pair.replica().objects()


def test_it_follows_version_by_version() -> None:
    pair = fresh()
    replicator = Replicator(pair.source.bucket, pair.target, pair.source.world)
    replicator.once()
    for writer in ("g", "h", "i"):
        pair.source.append(writer)
        pair.remember()
        report = replicator.once()
        assert (report.entries, report.blocks) == (1, 1)
        pair.check_equal(writer)
    untouched = pair.source.open().log.state.version
    assert replicator.once().version == untouched


def test_cold_readers_of_a_long_history_begin_at_a_checkpoint() -> None:
    pair = fresh()
    write_checkpoint(pair.source.bucket, pair.source.open().log.state)
    newest = pair.source.open().poll()
    pair.replicate()
    copied = pair.replica().bucket.get(checkpoint_key(newest)).data
    assert copied == pair.source.bucket.get(checkpoint_key(newest)).data, (
        "the bytes that entries name"
    )


def test_a_damaged_checkpoint_of_the_source_is_not_copied_and_stops_nothing() -> None:
    pair = fresh()
    write_checkpoint(pair.source.bucket, pair.source.open().log.state)
    newest = pair.source.open().poll()
    lie(pair.source.bucket, newest)
    pair.replicate()
    pair.check_equal("the rest")
    assert checkpoint_key(newest) not in pair.replica().objects(CHECKPOINTS)


def test_marks_are_placed_as_the_source_has_them_and_withdrawn_with_it() -> None:
    pair = fresh()
    source = pair.source
    pair.replicate()
    a, d = source.blocks["a"], source.blocks["d"]
    for key in (deletion_mark_key(a), no_compact_mark_key(d)):
        assert pair.target.get(key).data == source.bucket.get(key).data
    withdraw_deletion(source.bucket, source.world, a)
    place_deletion(source.bucket, source.world, source.blocks["b"], MarkReason.SUPERSEDED)
    report = pair.replicate()
    assert (report.marked, report.withdrawn) == (1, 1)
    assert deletion_mark_key(a) not in pair.replica().objects()
    assert deletion_mark_key(source.blocks["b"]) in pair.replica().objects()


def test_a_mark_that_was_changed_at_the_source_is_changed() -> None:
    pair = unindexed()
    source, ulid = pair.source, pair.source.blocks["e"]
    pair.replicate()
    withdraw_deletion(source.bucket, source.world, ulid)
    source.world.clock.sleep(1)
    place_deletion(source.bucket, source.world, ulid, MarkReason.RETENTION, "too old")
    assert pair.replicate().marked == 1
    assert (
        pair.target.get(deletion_mark_key(ulid)).data
        == source.bucket.get(deletion_mark_key(ulid)).data
    )


def test_what_the_source_has_removed_stays_and_is_counted() -> None:
    pair = unindexed()
    pair.replicate()
    gone = pair.source.blocks["a"]
    pair.source.bucket.delete(pair.source.objects(gone))
    report = pair.replicate()
    assert report.left_behind == 1
    assert meta_key(gone) in pair.replica().objects()


def test_a_replica_that_somebody_wrote_to_is_forked_and_nothing_of_it_is_touched() -> None:
    pair = fresh()
    pair.replicate()
    pair.replica().append("other")
    version = pair.replica().open().poll()
    before = contents(pair.target)
    with pytest.raises(Conflict, match=f"version {version}"):
        pair.replicate()
    pair.source.append("g")
    with pytest.raises(Conflict, match=f"version {version}"):
        pair.replicate()
    pair.source.append("h")
    with pytest.raises(Conflict, match=f"version {version}"):
        pair.replicate()
    assert contents(pair.target) == before


def test_a_writer_that_comes_between_is_met_at_its_entry() -> None:
    pair = fresh()
    pair.replicate()
    pair.source.append("g")
    pair.remember()
    wanted = entry_key(pair.source.open().poll())
    faulty = FaultyBucket(pair.target)
    faulty.before.append(
        lambda call: (
            pair.replica().append("other")
            if (call.method, call.key) == ("put_if_absent", wanted)
            else None
        )  # type: ignore[func-returns-value]
    )
    with pytest.raises(Conflict, match="not a replica"):
        pair.replicate(target=faulty)


def test_another_table_is_no_replica() -> None:
    pair, other = fresh(), worn()
    stranger = Pair(other, empty(other))
    other.append("other")
    stranger.replicate()
    with pytest.raises(Conflict, match="not a replica"):
        Replicator(pair.source.bucket, stranger.target, other.world).once()
    blocks = unindexed()
    blocks.target = MemoryBucket(blocks.source.world.clock, "memory://replica")
    created = Care(blocks.target, other.world, {})
    Device(blocks.target, other.world).build("x")
    with pytest.raises(Conflict, match="another table"):
        blocks.replicate()
    with pytest.raises(Conflict, match="another table"):
        fresh().replicate(target=created.bucket)


def raise_floor(source: Care, floor: str) -> None:
    log = source.open().log
    held = claim(log, source.world, COMPACTOR)
    for horizon, above in ((floor, None), (None, floor)):
        commit = source.world.ids.ulid()
        log.commit(
            RaiseWatermarks(commit=commit, epoch=held.epoch, horizon=horizon, floor=above, keep=())
        )


def rebuild_index(source: Care) -> None:
    """The newest entry is lost, and the index is rebuilt: it remembers no commit."""
    source.append("lost")
    source.bucket.put(entry_key(source.open().poll()), b"garbage")
    rebuild(source.bucket, source.world, plan_rebuild(source.bucket, source.world))


@pytest.mark.parametrize("writers", [(), ("x", "y")])
def test_another_table_is_no_replica_of_one_that_remembers_no_commit(
    writers: tuple[str, ...],
) -> None:
    source = worn().copy()
    other = Care(MemoryBucket(source.world.clock, "memory://other"), source.world, {})
    index_log.create(other.bucket, other.world, Definition.create(SCHEMA))
    for writer in writers:
        other.append(writer)
    source.world.clock.sleep(40 * 24 * HOUR)
    raise_floor(source, ulid_at(source.world.clock.now_ms() - 30 * 24 * HOUR * 1000))
    rebuild_index(source)
    before = contents(other.bucket)
    with pytest.raises(Conflict, match="another table"):
        Replicator(source.bucket, other.bucket, source.world).once()
    assert contents(other.bucket) == before


@pytest.mark.parametrize("floor", ["none", "above all", "between"])
def test_a_replica_of_before_a_rebuild_goes_on(floor: str) -> None:
    pair = fresh()
    source = pair.source
    source.world.clock.sleep(40 * 24 * HOUR)
    between = ulid_at(source.world.clock.now_ms() - HOUR * 1000)
    source.append("g")
    pair.remember()
    source.world.clock.sleep(HOUR)
    pair.replicate()
    before = pair.replica().open().poll()
    if floor != "none":
        now = ulid_at(source.world.clock.now_ms())
        raise_floor(source, between if floor == "between" else now)
    rebuild_index(source)
    pair.remember()
    assert not source.open().log.state.commits.covers(before)
    pair.replicate()
    pair.check_equal()


def test_a_table_without_an_index_is_not_copied_into_one_with_an_index() -> None:
    pair, other = unindexed(), fresh()
    other.replicate()
    with pytest.raises(Conflict, match="has an index"):
        pair.replicate(target=other.target)


def test_nothing_is_no_table_and_a_table_is_not_its_own_replica() -> None:
    pair = fresh()
    with pytest.raises(NotFound, match="no table"):
        Replicator(
            empty(pair.source),
            MemoryBucket(pair.source.world.clock, "memory://x"),
            pair.source.world,
        ).once()
    with pytest.raises(Invalid, match="the source itself"):
        Replicator(pair.source.bucket, pair.source.bucket, pair.source.world)


def test_a_damaged_block_that_a_version_names_stops_before_that_version() -> None:
    pair = fresh()
    source = pair.source
    damaged = source.blocks["e"]
    key = next(key for key in source.objects(damaged) if "/chunks/" in key)
    whole = source.bucket.get(key).data
    source.bucket.put(key, bytes(reversed(whole)))
    with pytest.raises(Corrupt, match=damaged):
        pair.replicate()
    assert key not in pair.replica().objects()
    pair.check_reader()
    source.bucket.put(key, whole)
    pair.replicate()
    pair.check_equal()


def test_a_block_that_is_gone_although_a_version_names_it_is_told() -> None:
    pair = fresh()
    pair.source.bucket.delete(pair.source.objects(pair.source.blocks["e"]))
    with pytest.raises(Corrupt, match=pair.source.blocks["e"]):
        pair.replicate()
    pair.check_reader()


@pytest.mark.parametrize("damage", ["chunk", "meta", "missing"])
def test_a_damaged_block_that_no_version_names_is_left_out_by_name_and_the_others_go_on(
    damage: str,
) -> None:
    pair = unindexed()
    source, ulid = pair.source, pair.source.blocks["b"]
    key = next(key for key in source.objects(ulid) if "/chunks/" in key)
    if damage == "chunk":
        source.edit(key, lambda data: bytes(reversed(data)))
    elif damage == "meta":
        source.edit(meta_key(ulid), lambda data: data[:-5])
    else:
        source.bucket.delete([key])
    report = pair.replicate()
    assert [refused.ulid for refused in report.refused] == [ulid]
    assert ulid in report.refused[0].reason
    assert meta_key(ulid) not in pair.replica().objects()
    assert {key[:26] for key in pair.replica().objects()} >= set(source.blocks.values()) - {ulid}


def test_a_replica_that_is_being_cleaned_is_told_so() -> None:
    pair = fresh()
    victim = pair.source.blocks["e"]
    faulty = FaultyBucket(pair.target)
    faulty.after.append(
        lambda call: (
            pair.target.delete(pair.replica().objects(object_key(victim, "chunks/")))
            if call.key == meta_key(victim)
            else None
        )
    )
    with pytest.raises(Conflict, match="only replicate may change a replica"):
        pair.replicate(target=faulty)


def test_a_store_that_ignores_conditions_cannot_hold_a_replica_of_a_collected_table() -> None:
    class Ignores(FaultyBucket):
        def refuses_stale_writes(self) -> bool:
            return False

    pair = collected()
    before = pair.replica().objects()
    with pytest.raises(Invalid, match="cannot advance"):
        pair.replicate(target=Ignores(pair.target))
    assert pair.replica().objects() == before


def test_a_replica_becomes_a_table_of_its_own() -> None:
    """Once replication has ended: written to, compacted, cleaned."""
    pair = collected()
    pair.replicate()
    replica = pair.replica()
    replica.append("own")
    log = replica.open().log
    assert log.boundary.read() >= pair.source.open().log.boundary.read()
    held = claim(log, replica.world, COMPACTOR)
    before = replica.found()
    for _ in range(3):
        replica.world.clock.sleep(49 * HOUR)
        collect(replica.open().log, replica.world)
        Cleaner(replica.open(), held).run()
    assert replica.found() == before
    with pytest.raises(ObjectMissing):
        replica.bucket.get(entry_key(1))


def test_a_lost_boundary_at_either_end_stops_everything(pair: Pair) -> None:
    if not pair.indexed:
        return
    pair.replicate()
    for bucket in (pair.target, pair.source.bucket):
        kept = bucket.get(BOUNDARY).data
        bucket.delete([BOUNDARY])
        with pytest.raises(bs.BoundaryLost):
            pair.replicate()
        bucket.put(BOUNDARY, kept)


def test_a_block_that_the_source_hides_is_hidden_in_the_replica_before_it_is_complete() -> None:
    pair = unindexed()
    ulid = pair.source.blocks["e"]
    faulty = FaultyBucket(pair.target)
    pair.replicate(target=faulty)
    written = [call.key for call in faulty.writes]
    assert written.index(deletion_mark_key(ulid)) < written.index(meta_key(ulid))

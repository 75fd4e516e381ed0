"""Handles on tables whose checkpoints are roots: what they share, what they rely on, and what they
do when leaves are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import (
    Corrupt,
    HistoryReplaced,
    NewerFormat,
    SnapshotExpired,
    Unavailable,
)
from blockstore.format import features
from blockstore.index import log as log_module
from blockstore.index.change import MoveToTree
from blockstore.index.checkpoint import decode_checkpoint, encode_root
from blockstore.index.checkpoint_name import every
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.state import State
from blockstore.index.tags import tag
from blockstore.index.tree import believed
from blockstore.index.tree.open import base_of
from blockstore.index.tree.write import write_root
from blockstore.names import CHECKPOINTS, LEAVES, UNNAMED, checkpoint_key, meta_key
from blockstore.operations.tree import move_to_tree
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.support.index_data import DEFINITION, append, compaction, merge, ulid
from tests.support.put_back import copy_of, put_back
from tests.support.trees import leaf_keys, read_root

DAY_S = 24 * 3600


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    for number in range(600):
        bucket.put(meta_key(ulid(number)), b"{}")
    return bucket


@pytest.fixture
def clock(world: World) -> ManualClock:
    assert isinstance(world.clock, ManualClock)
    return world.clock


@pytest.fixture
def log(bucket: MemoryBucket, world: World, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A table with a root after every fourth entry; 40 blocks."""
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    log = create(bucket, world, DEFINITION)
    move_to_tree(log, world)
    for number in range(100, 140):
        log.commit(append(number))
    return log


def roots(bucket: MemoryBucket) -> list[int]:
    return sorted(int(info.key[-28:-8]) for info in bucket.list(CHECKPOINTS))


def age(log: Log, world: World, clock: ManualClock, numbers: range) -> None:
    """Let the boundary pass everything that is there, with some commits after it."""
    clock.advance(3 * DAY_S)
    for number in numbers:
        log.commit(append(number))


def test_roots_share_leaves_and_open_as_the_fold(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    assert every(10) == 64
    first, second = read_root(bucket, 36), read_root(bucket, 40)
    assert second.base == 36
    assert len(first.keys & second.keys) > len(first.keys) / 2
    assert log.state.root == 40
    fresh = Log(bucket, world).poll()
    assert fresh == log.state
    assert fresh.root == 40
    assert fresh.blocks.ulids() == [ulid(number) for number in range(100, 140)]
    assert Log(bucket, world).at(17) == log.at(17)


def test_an_older_release_refuses_by_name(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "KNOWN", features.KNOWN - {"tree"})
    with pytest.raises(NewerFormat, match="'tree'"):
        Log(bucket, world).poll()


def test_a_table_that_was_not_moved_has_no_leaves(
    bucket: MemoryBucket, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    log = create(bucket, world, DEFINITION)
    for number in range(100, 110):
        log.commit(append(number))
    assert not leaf_keys(bucket)
    before = bucket.get(checkpoint_key(8)).data
    assert Log(bucket, world).at(8).root is None
    # A checkpoint of before the move stays readable after it.
    log.commit(MoveToTree(commit=ulid(400)))
    for number in range(110, 114):
        log.commit(append(number))
    assert bucket.get(checkpoint_key(8)).data == before
    assert Log(bucket, world).at(8) == log.at(8)
    assert Log(bucket, world).poll().root == 16


def test_a_commit_loads_no_leaf_but_the_last(bucket: MemoryBucket, world: World, log: Log) -> None:
    """What a commit looks at does not grow with the table."""
    fresh = Log(bucket, world)
    fresh.poll()
    first = read_root(bucket, 40).blocks[0]
    bucket.delete([first.key])
    fresh.commit(append(300))
    assert fresh.state.version == 43


# 1, 6: a root of a replaced history is no base


def test_a_root_of_a_replaced_history_is_never_a_base(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    copy = copy_of(bucket)
    log.commit(append(200))
    log.commit(append(201))  # version 44, with a root
    stale = bucket.get(checkpoint_key(44)).data
    assert decode_checkpoint(stale, version=44).version == 44
    put_back(bucket, copy)
    bucket.put(checkpoint_key(44), stale)  # left behind by a writer that stalled
    again = Log(bucket, world)
    again.poll()
    for number in range(210, 216):
        again.commit(append(number))
    assert again.state.version == 48
    assert bucket.get(checkpoint_key(44)).data == stale
    root = read_root(bucket, 48)
    assert root.base == 40, "the root that this handle had opened"
    wanted = [ulid(number) for number in (*range(100, 140), *range(210, 216))]
    assert Log(bucket, world).poll().blocks.ulids() == wanted
    assert read_root(bucket, 48).keys <= leaf_keys(bucket)


def test_a_root_of_a_later_version_is_never_a_base(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    state = log.state
    root = base_of(state)
    assert root is not None
    later = replace(root, version=state.version + 1)
    data = encode_root(state, replace(root, version=state.version, base=state.version + 1))
    with pytest.raises(Corrupt):
        decode_checkpoint(data, version=state.version)
    assert later.version > state.version
    wrong = replace(state, version=root.version - 1)
    with pytest.raises(AssertionError, match="of a version before"):
        write_root(bucket, wrong, log.reader.leaves)


def test_a_base_that_another_put_in_its_place_is_not_believed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The root from which leaves would be taken is compared before: the new one has its own."""
    log.commit(append(200))
    state = log.state
    assert state.root == 40
    other = write_checkpoint(bucket, Log(bucket, world).at(39)).state
    assert other is not None
    bucket.put(checkpoint_key(40), b"another one")
    written = write_root(bucket, state, log.reader.leaves)
    assert written.state is not None
    made = base_of(written.state)
    assert made is not None
    assert {leaf.generation for leaf in made.leaves} == {made.version}


def test_a_checkpoint_looks_at_roots_and_reads_none_that_its_handle_has_written(
    bucket: MemoryBucket, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten million blocks it would read for a second."""
    read: list[int] = []

    def decode(data: bytes, *, version: int, **rest: Any) -> State:
        read.append(version)
        return decode_checkpoint(data, version=version, **rest)

    monkeypatch.setattr(believed, "decode_checkpoint", decode)
    for number in range(200, 208):
        log.commit(append(number))
    assert read == []
    assert log.state.root == 48
    assert read_root(bucket, 48) == base_of(log.state)
    assert read_root(bucket, 44) != base_of(log.state)
    bucket.put(checkpoint_key(48), bucket.get(checkpoint_key(44)).data)
    for number in range(208, 212):
        log.commit(append(number))
    assert read == [48], "other bytes than it has written are read"
    assert {leaf.generation for leaf in read_root(bucket, 52).leaves} == {52}


def test_a_root_whose_base_the_boundary_passed_is_proven_by_the_root_at_the_boundary(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    """Else each open of a quiet table would pass over its newest root."""
    age(log, world, clock, range(300, 303))
    assert read_root(bucket, 44).base == 40
    assert [collect(log, world).boundary for _ in range(3)] == [40, 41, 41]
    assert read_root(bucket, 41).base == 40
    assert Log(bucket, world).poll().root == 44


# 2: the boundary moves only over whole roots


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_the_boundary_stops_below_a_root_that_is_not_whole(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log, damage: str
) -> None:
    age(log, world, clock, range(300, 302))
    wanted = 41
    assert log.state.version == 44
    write_checkpoint(bucket, log.at(wanted))
    root = read_root(bucket, wanted)
    own = next(leaf for leaf in root.blocks if leaf.generation == wanted)
    good = bucket.get(own.key).data
    if damage == "missing":
        bucket.delete([own.key])
    else:
        bucket.put(own.key, good[:-1] + bytes([good[-1] ^ 1]))
    assert collect(Log(bucket, world), world).boundary == 40
    assert collect(Log(bucket, world), world).boundary == 40
    bucket.put(own.key, good)
    assert collect(Log(bucket, world), world).boundary == wanted


def test_the_boundary_stays_where_its_own_root_lost_a_leaf(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    age(log, world, clock, range(300, 303))
    assert collect(log, world).boundary == 40
    assert collect(log, world).boundary == 41
    age(log, world, clock, range(303, 309))
    lost = read_root(bucket, 41).blocks[0]
    good = bucket.get(lost.key).data
    bucket.delete([lost.key])
    there = roots(bucket)
    with pytest.raises(Corrupt, match="is missing"):
        collect(Log(bucket, world), world)
    assert log.boundary.read() == 41
    assert roots(bucket) == there, "and nothing is built on it"
    bucket.put(lost.key, good)
    assert collect(Log(bucket, world), world).boundary > 41


# 4: a handle leaves an old root


def test_a_quiet_handle_leaves_a_root_that_the_boundary_has_passed(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    quiet = Log(bucket, world)
    log.commit(append(200))
    assert quiet.poll().root == 40
    assert quiet.state.version == 43
    clock.advance(3 * DAY_S)
    other = Log(bucket, world)
    write_checkpoint(bucket, other.poll())
    assert [collect(other, world).boundary for _ in range(2)] == [40, 42]
    assert quiet.poll().version == 43
    assert quiet.state.root is not None
    assert quiet.state.root >= 42
    assert quiet.state.blocks.ulids()[-1] == ulid(200)


def test_a_poll_that_looks_only_at_its_entry_reads_the_boundary_now_and_then(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    quiet = Log(bucket, world)
    log.commit(append(200))
    quiet.poll()
    other = Log(bucket, world)
    clock.advance(3 * DAY_S)
    write_checkpoint(bucket, other.poll())
    collect(other, world)
    collect(other, world)
    for _ in range(80):
        quiet.take(quiet.reader.advance(quiet.state, looks_at_own=True))
        clock.advance(20)
    assert quiet.state.root is not None
    assert quiet.state.root >= 42


# 5: a commit goes on from a root that is there


def collected_leaves(bucket: MemoryBucket, world: World, clock: ManualClock, log: Log) -> None:
    """Let another process merge everything, and collect what nobody names then."""
    other = Log(bucket, world)
    live = [block.meta for block in other.poll().blocks]
    other.commit(compaction(5_000, merge(400, live), live))
    for _ in range(4):
        age(other, world, clock, range(410 + 8 * _, 410 + 8 * _ + 8))
        collect(other, world)


def test_a_commit_goes_on_where_leaves_of_its_root_were_collected(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    old = read_root(bucket, 40)
    sleeping = Log(bucket, world)
    known = sleeping.poll()
    collected_leaves(bucket, world, clock, log)
    assert not old.keys <= leaf_keys(bucket), "some of its leaves are gone"
    done = sleeping.commit(append(500))
    assert done.version is not None
    assert ulid(500) in Log(bucket, world).poll().blocks
    assert known.root == 40


def test_a_commit_whose_leaves_are_lost_for_good_ends_with_an_error(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Every root names the leaf: nothing is taken for new or for absent, and it does not go on for
    ever."""
    root = read_root(bucket, 40)
    for key in leaf_keys(bucket):
        bucket.delete([key])
    for version in roots(bucket):
        if version < 40:
            bucket.delete([checkpoint_key(version)])
    fresh = Log(bucket, world)
    fresh.poll()
    again = append(103)  # a source that is accounted
    fresh_version = fresh.state.version
    bucket.delete([f"index/{entry:020d}.json" for entry in range(1, 41)])
    with pytest.raises((Unavailable, Corrupt)):
        fresh.commit(again)
    assert Log(bucket, world).reader.entries(0)[-1] == fresh_version
    assert root.keys


# 7: sums


@pytest.mark.parametrize(
    "change",
    [
        {"max_time": 0, "min_time": 0, "max_min_time": 0, "min_max_time": 0},
        {"streams": ("{}",)},
        {"source_low": ulid(900), "source_high": ulid(901)},
        {"changes": 5},
        {"chunks": 77},
        {"excepted": 3},
        {"key": None},
        {"rows": 1},
    ],
)
def test_wrong_sums_are_damage_and_leave_nothing_out(
    bucket: MemoryBucket, world: World, log: Log, change: dict[str, object]
) -> None:
    state = log.state
    root = base_of(state)
    assert root is not None
    first = root.blocks[0]
    wrong = replace(first, sums=replace(first.sums, **change))  # type: ignore[arg-type]
    lying = replace(root, blocks=(wrong, *root.blocks[1:]))
    at = Log(bucket, world).at(40)
    bucket.put(checkpoint_key(40), encode_root(at, lying))
    fresh = Log(bucket, world).poll()
    assert fresh.root == 40
    with pytest.raises(Corrupt, match="sums"):
        list(fresh.blocks)
    with pytest.raises(Corrupt, match="sums"):
        _ = fresh.blocks.get(ulid(100))
    from blockstore.care.survey import read_checkpoint

    with pytest.raises(Corrupt, match="not whole"):
        read_checkpoint(bucket, 40)


# 8: shares are computed before anything is sent


def test_a_root_sends_only_what_changed(bucket: MemoryBucket, world: World, log: Log) -> None:
    before = leaf_keys(bucket)
    log.commit(append(200))
    log.commit(append(201))
    sent = leaf_keys(bucket) - before
    root = read_root(bucket, 44)
    assert sent == {leaf.key for leaf in root.leaves if leaf.generation == 44}
    assert len(sent) < len(root.leaves) / 2
    # Written again by another process, of the same version: nothing is sent.
    before = leaf_keys(bucket)
    write_checkpoint(bucket, Log(bucket, world).poll())
    assert leaf_keys(bucket) == before


# 9: scans


def test_a_scan_is_planned_again_where_leaves_of_its_snapshot_were_collected(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    fresh = Log(bucket, world)
    snapshot = Snapshot.of(fresh.poll())
    wanted = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot).count()
    # Another process has written a root of this version, with leaves of its own; those of the
    # snapshot's root are gone.
    mine = read_root(bucket, 40)
    tag(Log(bucket, world), world, "kept")
    bucket.delete([checkpoint_key(version) for version in roots(bucket) if version < 42])
    bucket.delete(sorted(mine.keys - read_root(bucket, 42).keys))
    held = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    assert held.count() == wanted
    assert len(held.scan(where="key = 3").plan.chunks) == 40
    assert len(held.scan().plan.chunks) == 40


def test_a_scan_of_a_replaced_history_is_no_other_version(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    copy = copy_of(bucket)
    log.commit(append(200))
    snapshot = Snapshot.of(Log(bucket, world).poll())
    put_back(bucket, copy)
    other = Log(bucket, world)
    other.commit(append(210))
    bucket.delete([read_root(bucket, 40).blocks[0].key])
    held = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    with pytest.raises((HistoryReplaced, Corrupt, SnapshotExpired)):
        _ = held.scan().plan


# 11: a missing leaf is never empty


def test_a_missing_leaf_is_an_error_and_never_absent(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    root = read_root(bucket, 40)
    state = Log(bucket, world).poll()
    sources, blocks = root.sources[0], root.blocks[0]
    bucket.delete([sources.key, blocks.key])
    with pytest.raises(SnapshotExpired, match="is not there"):
        _ = sources.sums.first in state.accounted
    with pytest.raises(SnapshotExpired):
        state.accounted.held([sources.sums.first])
    with pytest.raises(SnapshotExpired):
        state.accounted.array()
    with pytest.raises(SnapshotExpired):
        _ = blocks.sums.first in state.blocks
    with pytest.raises(SnapshotExpired):
        state.blocks.get(blocks.sums.first)
    with pytest.raises(SnapshotExpired):
        list(state.blocks)
    with pytest.raises(SnapshotExpired):
        state.blocks.sources()
    with pytest.raises(SnapshotExpired):
        state.blocks.holding([blocks.sums.first])


def test_a_handle_that_missed_a_leaf_passes_over_its_root(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    whole = list(log.state.blocks)
    fresh = Log(bucket, world)
    state = fresh.poll()
    own = next(leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40)
    bucket.delete([own.key])
    with pytest.raises(SnapshotExpired):
        list(state.blocks)
    again = fresh.poll()
    assert again.root == 36
    assert list(again.blocks) == whole


# collection


def test_leaves_go_after_two_looks_a_delay_apart_and_none_that_is_named(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    collected_leaves(bucket, world, clock, log)
    boundary = log.boundary.read()
    named = set()
    for version in roots(bucket):
        if version >= boundary:
            named |= read_root(bucket, version).keys
    there = leaf_keys(bucket)
    assert named <= there
    old = {key for key in there - named if int(key[-20:]) < boundary}
    listed = bucket.get(UNNAMED).data.decode()
    assert all(key in listed for key in old), "seen once, and waiting"
    assert Log(bucket, world).poll() == log.poll()


def test_one_look_removes_nothing(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    other = Log(bucket, world)
    live = [block.meta for block in other.poll().blocks]
    other.commit(compaction(5_000, merge(400, live), live))
    age(other, world, clock, range(410, 420))
    before = leaf_keys(bucket)
    assert collect(other, world).leaves == 0
    assert before <= leaf_keys(bucket)
    clock.advance(DAY_S)
    assert collect(other, world).leaves == 0, "half a delay later"
    clock.advance(1.5 * DAY_S)
    assert collect(other, world).leaves > 0


def test_a_tag_keeps_its_leaves(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    tag(log, world, "kept")
    pinned = read_root(bucket, 42)
    assert {leaf.generation for leaf in pinned.leaves} == {42}, "its own, whatever others do"
    wanted = list(log.at(42).blocks)
    collected_leaves(bucket, world, clock, log)
    assert log.boundary.read() > 42
    assert pinned.keys <= leaf_keys(bucket)
    assert list(Log(bucket, world).tagged("kept").blocks) == wanted


def test_what_a_copy_put_back_brings_is_looked_at_anew(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    """The list of an index with a higher boundary says nothing about one with a lower."""
    copy = copy_of(bucket)
    collected_leaves(bucket, world, clock, log)
    listed = bucket.get(UNNAMED)
    put_back(bucket, copy)
    bucket.put(UNNAMED, listed.data)
    again = Log(bucket, world)
    again.poll()
    whole = list(again.state.blocks)
    collect(again, world)
    assert list(Log(bucket, world).poll().blocks) == whole
    assert all(info.key for info in bucket.list(LEAVES))

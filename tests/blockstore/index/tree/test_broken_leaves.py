"""Leaves that are missing or damaged, and handles that stay on old roots: no process stops for
them."""

from __future__ import annotations

from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt, SnapshotExpired, VersionExpired
from blockstore.export.shown import planned
from blockstore.index import log as log_module
from blockstore.index.change import Draft
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.tags import tag
from blockstore.index.tree import loading
from blockstore.names import (
    CHECKPOINTS,
    LEAVES,
    checkpoint_key,
    entry_key,
    meta_key,
    parse_checkpoint,
)
from blockstore.operations.tree import move_to_tree
from blockstore.scan import candidates, many_chunks, plan
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.support.index_data import DEFINITION, Planned, append, compaction, merge, ulid
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
    """A table with a root after every fourth entry; 40 blocks, version 42."""
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    log = create(bucket, world, DEFINITION)
    move_to_tree(log, world)
    for number in range(100, 140):
        log.commit(append(number))
    return log


def roots(bucket: MemoryBucket) -> list[int]:
    found = [parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS)]
    return sorted(one for one in found if one is not None)


def flip(bucket: MemoryBucket, key: str) -> None:
    data = bucket.get(key).data
    bucket.put(key, data[:-1] + bytes([data[-1] ^ 1]))


def lose(bucket: MemoryBucket, key: str) -> None:
    bucket.delete([key])


damages = pytest.mark.parametrize("damage", [flip, lose])


def test_a_writer_that_only_commits_leaves_a_root_that_the_boundary_has_passed(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its next root would share nothing, and each leaf that it loads may be gone."""
    monkeypatch.setattr(log_module, "every", lambda blocks: 10**9)
    log.commit(append(200))
    clock.advance(3 * DAY_S)
    other = Log(bucket, world)
    write_checkpoint(bucket, other.poll())
    assert [collect(other, world).boundary for _ in range(2)] == [40, 42]
    assert log.state.root == 40
    log.commit(append(201))
    log.commit(append(202))
    assert log.state.root in (42, 43)
    monkeypatch.setattr(log_module, "every", lambda blocks: 1)
    log.commit(append(203))
    newest = read_root(bucket, log.state.version)
    assert newest.base in (42, 43)
    assert log.state.root == newest.version


def test_a_root_that_is_not_relied_on_makes_its_writer_read_again(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process moves the boundary over the base while the root is on its way."""
    log.commit(append(200))
    real = bucket.put_if_absent

    def put(key: str, data: bytes) -> Any:
        if key == checkpoint_key(44):
            clock.advance(3 * DAY_S)
            other = Log(bucket, world)
            live = [block.meta for block in other.poll().blocks]
            monkeypatch.setattr(log_module, "every", lambda blocks: 10**9)
            other.commit(compaction(5_000, merge(400, live), live))
            other.commit(append(300))
            clock.advance(3 * DAY_S)
            other.commit(append(301))
            write_checkpoint(bucket, other.at(46))
            assert [collect(other, world).boundary for _ in range(1)] == [46]
        return real(key, data)

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "put_if_absent", put)
        log.commit(append(201))
    assert log.state.root == 46
    assert log.state.version == 47


@damages
def test_a_root_whose_leaf_is_damaged_is_passed_over_by_who_must_load_it(
    bucket: MemoryBucket, world: World, log: Log, damage: Any
) -> None:
    """The entries after the root touch it."""
    own = next(leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40)
    live = [one.meta for one in log.poll().blocks if one.ulid >= own.sums.first]
    log.commit(compaction(5_000, merge(400, live), live))
    wanted = log.state.blocks.ulids()
    damage(bucket, own.key)
    for number in range(3):
        fresh = Log(bucket, world)
        assert fresh.poll().root == (44 if number else 36)
        assert [one.ulid for one in fresh.state.blocks][: len(wanted)] == wanted
        fresh.commit(append(450 + number))
        assert fresh.poll().version == fresh.state.version


@damages
def test_a_commit_goes_on_where_its_state_must_load_a_damaged_leaf(
    bucket: MemoryBucket, world: World, log: Log, damage: Any
) -> None:
    handle = Log(bucket, world)
    handle.poll()
    own = next(leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40)
    live = [one.meta for one in log.state.blocks if one.ulid >= own.sums.first]
    damage(bucket, own.key)
    done = handle.commit(compaction(5_000, merge(400, live), live))
    assert done.version == 43
    assert handle.state.root == 36


@damages
def test_polls_and_appends_go_on_where_every_root_lost_a_leaf(
    bucket: MemoryBucket, world: World, log: Log, damage: Any
) -> None:
    """What needs it fails, and says that it is lost: nothing is taken for absent."""
    log.boundary.advance(36)
    bucket.delete([checkpoint_key(version) for version in roots(bucket) if version < 36])
    bucket.delete([entry_key(entry) for entry in range(1, 37)])
    first = read_root(bucket, 40).blocks[0]
    assert first.key in read_root(bucket, 36).keys
    handle = Log(bucket, world)
    snapshot = Snapshot.of(handle.poll())
    damage(bucket, first.key)
    held = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    with pytest.raises(Corrupt, match=first.sha256[:12]):
        _ = held.scan().plan
    assert handle.poll().version == 42
    handle.commit(append(300))
    assert handle.poll().version == 43
    assert ulid(300) in handle.state.blocks
    with pytest.raises((Corrupt, SnapshotExpired)):
        _ = ulid(100) in handle.state.blocks


@damages
def test_a_scan_by_a_new_handle_passes_over_a_root_that_lost_a_leaf(
    bucket: MemoryBucket, world: World, log: Log, damage: Any
) -> None:
    own = next(leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40)
    damage(bucket, own.key)
    snapshot = Snapshot.of(Log(bucket, world).poll())
    view = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    assert len(view.scan().plan.chunks) == 40
    assert len(planned(view).plan.chunks) == 40


def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of more than eight blocks hold no chunks, and no leaf is kept."""
    monkeypatch.setattr(plan, "MANY", 8)
    monkeypatch.setattr(candidates, "KEPT", 8)
    monkeypatch.setattr("blockstore.index.blocks.KEPT", 8)
    monkeypatch.setattr("blockstore.index.rows.KEPT", 8)
    monkeypatch.setattr(loading, "_KEPT_BYTES", 1)


def collected_under(bucket: MemoryBucket, world: World) -> None:
    """Leaves of root 40 go; the same version has a root of its own."""
    mine = read_root(bucket, 40)
    tag(Log(bucket, world), world, "kept")
    bucket.delete([checkpoint_key(version) for version in roots(bucket) if version < 42])
    bucket.delete(sorted(mine.keys - read_root(bucket, 42).keys))


def test_a_pass_over_very_many_chunks_goes_on_where_leaves_were_collected(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_at_once(monkeypatch)
    snapshot = Snapshot.of(Log(bucket, world).poll())
    view = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    chunks = view.scan()._read.chunks
    assert isinstance(chunks, many_chunks.ManyChunks)
    wanted = [one.key for one in chunks]
    passing = iter(chunks)
    begun = [next(passing).key for _ in range(5)]
    collected_under(bucket, world)
    assert begun + [one.key for one in passing] == wanted
    assert [one.key for one in chunks] == wanted
    again = view.scan()._read.chunks
    assert [one.key for one in again] == wanted
    assert again[17].key == wanted[17]
    assert len(list(planned(view).plan.chunks)) == 40


def test_a_scan_of_a_collected_version_says_so(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    snapshot = Snapshot.of(Log(bucket, world).poll())
    other = Log(bucket, world)
    live = [block.meta for block in other.poll().blocks]
    other.commit(compaction(5_000, merge(400, live), live))
    for turn in range(4):
        clock.advance(3 * DAY_S)
        for number in range(410 + 8 * turn, 418 + 8 * turn):
            other.commit(append(number))
        collect(other, world)
    view = TableSnapshot(bucket=bucket, world=world, snapshot=snapshot)
    with pytest.raises(VersionExpired):
        _ = view.scan().plan


def test_what_a_version_needs_of_the_leaves_is_looked_up_once(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next version takes over where the changed blocks are: it loads no leaf to know that."""
    handle = Log(bucket, world)
    handle.poll()
    monkeypatch.setattr(log_module, "every", lambda blocks: 10**9)
    for number in range(100, 140, 2):
        gone = Draft(remove=(ulid(number),))
        log.commit(Planned(operation=Operation.EXPIRE, commit=ulid(20_000 + number), plan=gone))
    monkeypatch.setattr(loading, "_KEPT_BYTES", 1)
    assert len(handle.poll().blocks) == 20
    got: list[str] = []
    real = bucket.get

    def get(key: str, **options: Any) -> Any:
        got.extend([key] if key.startswith(LEAVES) else [])
        return real(key, **options)

    monkeypatch.setattr(bucket, "get", get)
    log.commit(append(300))
    handle.poll()
    some, _ = handle.state.blocks.summed(lambda leaf: True)
    assert sorted(handle.state.blocks._view.gone) == list(range(0, 38, 2))
    assert not got
    assert len(some) == len(some.table())


def test_a_root_that_lacks_an_older_leaf_is_not_built_upon(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A copy was put back under a root on its way: the next root comes from one that is whole."""
    shared = [leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40]
    log.commit(append(200))
    bucket.delete([shared[0].key])
    log.commit(append(201))
    assert log.state.version == 44
    assert log.state.root == 36
    for number in range(202, 206):
        log.commit(append(number))
    assert not read_root(bucket, 48).keys - leaf_keys(bucket)
    assert Log(bucket, world).poll().root == 48


def test_a_root_that_went_with_a_copy_put_back_is_not_relied_on(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing names its leaves then, and they may be collected."""
    log.commit(append(200))
    real = bucket.put_if_absent

    def put(key: str, data: bytes) -> Any:
        done = real(key, data)
        if key == checkpoint_key(44):
            bucket.delete([key])
        return done

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "put_if_absent", put)
        log.commit(append(201))
    assert log.state.version == 44
    assert log.state.root == 40

"""What attackers found: each once broke a table whose checkpoints are roots."""

from __future__ import annotations

from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt
from blockstore.index import log as log_module
from blockstore.index.checkpoint_write import pin_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.tags import tag
from blockstore.index.tree import believed
from blockstore.index.tree import collect as collect_module
from blockstore.names import CHECKPOINTS, LEAVES, checkpoint_key, meta_key, parse_checkpoint
from blockstore.operations.tree import move_to_tree
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


def test_a_version_is_tagged_whose_root_shares_leaves_with_one_that_went(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    clock.advance(3 * DAY_S)
    for number in range(300, 303):
        log.commit(append(number))
    for _ in range(3):
        collect(log, world)
    shared = read_root(bucket, 44)
    assert shared.base not in roots(bucket)
    assert tag(Log(bucket, world), world, "kept", version=44) == 44


def test_a_root_is_not_relied_on_whose_own_leaves_went_with_a_copy_put_back(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has the entry, and was taken before the leaves; it is put back before the root."""
    log.commit(append(200))
    copy: dict[str, bytes] = {}
    real = bucket.put_if_absent

    def put(key: str, data: bytes) -> Any:
        if key.startswith(LEAVES) and not copy:
            copy.update(copy_of(bucket))
        if key == checkpoint_key(44):
            put_back(bucket, copy)
        return real(key, data)

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "put_if_absent", put)
        log.commit(append(201))
    assert read_root(bucket, 44).keys - leaf_keys(bucket), "it names leaves that went"
    assert log.state.root == 40
    for number in range(210, 220):
        log.commit(append(number))
    assert not read_root(bucket, 52).keys - leaf_keys(bucket)
    assert len(list(Log(bucket, world).poll().blocks)) == 52


def test_no_tag_is_set_on_a_root_with_a_damaged_leaf(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    own = [leaf for leaf in read_root(bucket, 40).blocks if leaf.generation == 40]
    flip(bucket, own[0].key)
    with pytest.raises(Corrupt, match="is not whole"):
        tag(Log(bucket, world), world, "kept", version=40)
    assert not Log(bucket, world).poll().tags


@pytest.mark.parametrize("damage", [flip, lambda bucket, key: bucket.delete([key])])
def test_collection_goes_on_over_a_damaged_root_at_the_boundary(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log, damage: Any
) -> None:
    clock.advance(3 * DAY_S)
    for number in range(300, 303):
        log.commit(append(number))
    for _ in range(2):
        collect(log, world)
    boundary = log.boundary.read()
    live = [block.meta for block in log.poll().blocks]
    log.commit(compaction(5_000, merge(400, live), live))
    for number in range(410, 418):
        log.commit(append(number))
    damage(bucket, read_root(bucket, boundary).blocks[0].key)
    clock.advance(3 * DAY_S)
    later = Log(bucket, world)
    for number in range(500, 508):
        later.commit(append(number))
    assert collect(Log(bucket, world), world).boundary > boundary
    assert len(list(Log(bucket, world).poll().blocks)) == 1 + 8 + 8


def test_a_root_is_not_relied_on_whose_leaves_a_collector_is_about_to_remove(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Root 43 has leaves of its own, as that of a tag. The boundary moves over it while root 44 is
    on its way, whose leaves are those of root 40, and a collector has found these unnamed twice. It
    removes them after the writer of root 44 has looked, and found them all."""
    log.commit(append(200))
    doomed: list[str] = []
    real_put, real_delete = bucket.put_if_absent, bucket.delete

    def collected() -> None:
        pin_checkpoint(bucket, Log(bucket, world).at(43))
        for _ in range(2):
            clock.advance(3 * DAY_S)
            collect(Log(bucket, world), world)

    def delete(keys: Any) -> None:
        mine = [key for key in keys if key.startswith(LEAVES)]
        doomed.extend(mine)
        real_delete([key for key in keys if key not in mine])

    def put(key: str, data: bytes) -> Any:
        if key == checkpoint_key(44):
            with monkeypatch.context() as held:
                held.setattr(bucket, "put_if_absent", real_put)
                held.setattr(bucket, "delete", delete)
                collected()
        return real_put(key, data)

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "put_if_absent", put)
        log.commit(append(201))
    assert log.boundary.read() == 43
    assert read_root(bucket, 44).keys & {*doomed}, "it names leaves that go"
    real_delete(doomed)
    assert log.state.root != 44
    for number, one in enumerate((log, Log(bucket, world))):
        assert len(list(one.poll().blocks)) == 42 + number
        one.commit(append(210 + number))


def test_no_leaf_goes_that_only_the_root_of_a_tag_names(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    """The tagged version is below the boundary, and everything was merged since."""
    assert tag(log, world, "kept", version=39) == 39
    live = [block.meta for block in log.poll().blocks]
    log.commit(compaction(5_000, merge(400, live), live))
    for number in range(410, 416):
        log.commit(append(number))
    kept = read_root(bucket, 39)
    gone = leaf_keys(bucket)
    for _ in range(4):
        clock.advance(3 * DAY_S)
        log.commit(append(500 + log.state.version))
        collect(Log(bucket, world), world)
    assert log.boundary.read() > 43
    assert gone - leaf_keys(bucket), "leaves went"
    assert kept.keys <= leaf_keys(bucket)
    assert len(list(Log(bucket, world).at(39).blocks)) == 37


def test_both_are_found_where_they_are_planted(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proof that always holds, and a collector that does not read the roots of tags: seeds of the
    simulation do not find these."""

    def above_the_boundary(key: str) -> int | None:
        version = parse_checkpoint(key)
        return None if version is None or version < log.boundary.read() else version

    before = copy_of(bucket)
    with monkeypatch.context() as planted:
        planted.setattr(believed, "is_proven", lambda *_: True)
        with pytest.raises(AssertionError, match="44"):
            test_a_root_is_not_relied_on_whose_leaves_a_collector_is_about_to_remove(
                bucket, world, clock, log, monkeypatch
            )
    put_back(bucket, before)
    with monkeypatch.context() as planted:
        planted.setattr(collect_module, "parse_checkpoint", above_the_boundary)
        with pytest.raises(AssertionError, match="index/leave"):
            test_no_leaf_goes_that_only_the_root_of_a_tag_names(
                bucket, world, clock, Log(bucket, world)
            )

"""What outsiders do to a table in leaves: flipped bits, roots of other tables, whole checkpoints
among roots, and releases that do not know leaves, with handles of before the move. No handle ever
has other blocks or sources than those of the entries."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import BlockstoreError, NewerFormat
from blockstore.format import features
from blockstore.index import log as log_module
from blockstore.index.checkpoint import encode_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.state import State
from blockstore.index.tags import tag
from blockstore.names import BOUNDARY, CHECKPOINTS, HINT, INDEX, LEAVES, checkpoint_key, meta_key
from blockstore.operations.tree import move_to_tree
from blockstore.world import World
from tests.support.index_data import DEFINITION, append, compaction, merge, ulid
from tests.support.put_back import copy_of, put_back
from tests.support.trees import leaf_keys, read_root

DAY_S = 24 * 3600


def made(bucket: MemoryBucket, world: World, first: int = 100) -> Log:
    """A table with a root after every fourth entry; 30 blocks, one of them merged, version 33."""
    for number in range(first, first + 60):
        bucket.put(meta_key(ulid(number)), b"{}")
    log = create(bucket, world, DEFINITION)
    move_to_tree(log, world)
    for number in range(first, first + 30):
        log.commit(append(number))
    live = [block.meta for block in log.state.blocks][3:9]
    log.commit(compaction(first + 5_000, merge(first + 50, live), live))
    return log


@pytest.fixture(autouse=True)
def roots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    return MemoryBucket(world.clock)


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    return made(bucket, world)


@pytest.fixture
def clock(world: World) -> ManualClock:
    assert isinstance(world.clock, ManualClock)
    return world.clock


def content(state: State) -> tuple[Any, ...]:
    """All of a state that comes out of leaves."""
    return (
        state.version,
        list(state.blocks),
        list(state.accounted.array()),
        state.blocks.totals(),
        list(state.blocks.sources()),
    )


def all_of(bucket: MemoryBucket, world: World) -> tuple[Any, ...]:
    """The same of a new handle, which reads again where a leaf is damaged."""
    log = Log(bucket, world)
    for _ in range(3):
        try:
            return content(log.poll())
        except BlockstoreError:
            continue
    return content(log.poll())


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_changes_nothing(
    bucket: MemoryBucket, world: World, log: Log, seed: int
) -> None:
    draw = random.Random(seed)
    expected, clean = content(log.state), copy_of(bucket)
    newest = read_root(bucket, 32)
    objects = [checkpoint_key(32), *sorted(newest.keys)]
    for key in objects:
        data = bytearray(clean[key])
        for _ in range(6):
            place = draw.randrange(len(data))
            data[place] ^= 1 << draw.randrange(8)
            bucket.put(key, bytes(data))
            assert all_of(bucket, world) == expected, (key, place)
            # A write of before does not come a second time.
            writer = Log(bucket, world)
            assert writer.commit(replace(append(104), commit=ulid(900_000))).entry is None
            put_back(bucket, clean)
            data = bytearray(clean[key])


def test_a_root_of_another_table_is_passed_over(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    other = MemoryBucket(world.clock)
    made(other, world, first=300)
    expected = content(log.state)
    for info in other.list(f"{INDEX}checkpoints/"):
        bucket.put(info.key, other.get(info.key).data)
    for key in leaf_keys(other):
        bucket.put(key, other.get(key).data)
    bucket.put(HINT, other.get(HINT).data)
    assert all_of(bucket, world) == expected
    log.commit(append(151))
    assert len(Log(bucket, world).poll().blocks) == len(log.state.blocks)


def test_a_whole_checkpoint_among_roots_is_passed_over(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    """As a program would write it that knows the feature and not the leaves."""
    expected = content(log.state)
    whole = Log(bucket, world).at(32)
    bucket.put(checkpoint_key(32), encode_checkpoint(whole))
    bucket.delete([HINT])
    assert all_of(bucket, world) == expected
    again = Log(bucket, world)
    for number in range(140, 150):
        again.commit(append(number))
    assert again.state.root == 40
    assert len(list(Log(bucket, world).poll().blocks)) == len(expected[1]) + 10
    clock.advance(3 * DAY_S)
    for number in range(151, 155):
        again.commit(append(number))
    for _ in range(3):
        clock.advance(3 * DAY_S)
        collect(Log(bucket, world), world)
    assert len(list(Log(bucket, world).poll().blocks)) == len(expected[1]) + 14


def _collect(log: Log, world: World) -> object:
    return collect(log, world)


@pytest.mark.parametrize(
    "work",
    [
        lambda log, world: log.poll(),
        lambda log, world: log.commit(append(150)),
        _collect,
        lambda log, world: tag(log, world, "kept"),
    ],
)
def test_a_handle_of_an_older_release_ends_with_the_move_and_writes_nothing(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Log, World], object],
) -> None:
    """It was open before. Other roots and commits have come since; days later it goes on."""
    for number in range(100, 180):
        bucket.put(meta_key(ulid(number)), b"{}")
    log = create(bucket, world, DEFINITION)
    for number in range(100, 112):
        log.commit(append(number))
    old = Log(bucket, world)
    old.poll()
    move_to_tree(log, world)
    for number in range(112, 118):
        log.commit(append(number))
    clock.advance(3 * DAY_S)
    before = copy_of(bucket)
    with monkeypatch.context() as older:
        older.setattr(features, "KNOWN", features.KNOWN - {"tree"})
        with pytest.raises(NewerFormat, match="'tree'"):
            work(old, world)
    assert copy_of(bucket) == before
    assert len(list(Log(bucket, world).poll().blocks)) == 18


def test_an_older_writer_that_loses_its_race_to_the_move_has_written_nothing(
    bucket: MemoryBucket, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move is the entry that takes its number: it must not go on behind it."""
    for number in range(100, 180):
        bucket.put(meta_key(ulid(number)), b"{}")
    log = create(bucket, world, DEFINITION)
    log.commit(append(100))
    old, real = Log(bucket, world), bucket.put_if_absent
    old.poll()

    def put(key: str, data: bytes) -> Any:
        if key.endswith("00003.json"):
            with monkeypatch.context() as newer:
                newer.setattr(bucket, "put_if_absent", real)
                newer.setattr(features, "KNOWN", features.KNOWN | {"tree"})
                move_to_tree(log, world)
        return real(key, data)

    with monkeypatch.context() as older:
        older.setattr(features, "KNOWN", features.KNOWN - {"tree"})
        older.setattr(bucket, "put_if_absent", put)
        with pytest.raises(BlockstoreError, match="'tree'"):
            old.commit(append(150))
    assert [block.ulid for block in Log(bucket, world).poll().blocks] == [ulid(100)]


def test_nothing_of_an_index_in_leaves_is_outside_of_its_folders(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    collect(log, world)
    places = {key.rpartition("/")[0] for key in copy_of(bucket) if not key.endswith("meta.json")}
    assert places <= {"index", "gc", CHECKPOINTS[:-1], LEAVES[:-1]}
    assert BOUNDARY.startswith("gc/")

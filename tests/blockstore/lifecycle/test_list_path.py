"""The list path: what a listing shows, and the snapshot that follows from it and an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Unavailable
from blockstore.format.block import BlockMeta, ChunkFile, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.marks import DeletionMark, MarkReason, encode_mark
from blockstore.format.meta import encode
from blockstore.format.properties import Properties
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.lifecycle.list_path import Listed, discover_snapshot, list_snapshot
from blockstore.lifecycle.listing import list_directories, look
from blockstore.lifecycle.standing import is_known, standing_of
from blockstore.lifecycle.states import BlockState, Standing, classify
from blockstore.names import deletion_mark_key, meta_key, object_key
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, block, ulid

DEFINITION = Definition.create(pa.schema([("n", pa.int64())]))
SCHEMA = DEFINITION.schema_bytes
CHUNK = ChunkFile(path="chunks/000001.parquet", bytes=4, rows=1, sha256="0" * 64)
OLD_S = 3600.0


@pytest.fixture
def world() -> World:
    return World.manual(seed=3, now_ms=START_MS)


def store(bucket: MemoryBucket, meta: BlockMeta) -> BlockMeta:
    meta = replace(meta, files=(CHUNK,), rows=1, schema=SCHEMA)
    bucket.put(object_key(meta.ulid, CHUNK.path), b"data")
    bucket.put(meta_key(meta.ulid), encode(meta))
    return meta


def mark(bucket: MemoryBucket, name: str, reason: MarkReason) -> None:
    bucket.put(
        deletion_mark_key(name),
        encode_mark(DeletionMark(ulid=name, deletion_time_s=0, reason=reason)),
    )


def listed(bucket: MemoryBucket, world: World, state: State | None = None) -> Listed:
    listing = list_directories(bucket)
    found = look(bucket, world, listing, skip=lambda name: is_known(name, state))
    return list_snapshot(found, state, Properties(), listing.now_ms)


def read(found: Listed) -> dict[str, frozenset[str] | None]:
    return {chosen.meta.ulid: chosen.only_sources for chosen in found.cover.chosen}


def state_of(
    *live: BlockMeta,
    accounted: tuple[int, ...] = (),
    floor: int | None = None,
    horizon: int | None = None,
) -> State:
    blocks = Blocks.of(LiveBlock(meta=meta, version=1, first_row_id=0) for meta in live)
    held = {source for meta in live for source in meta.sources} | {
        ulid(number) for number in accounted
    }
    return State(
        version=1,
        blocks=blocks,
        accounted=Sources.of(held),
        floor=None if floor is None else ulid(floor),
        horizon=None if horizon is None else ulid(horizon),
        table=DEFINITION,
    )


def test_a_block_is_read_once_it_has_aged(bucket: MemoryBucket, world: World) -> None:
    store(bucket, block(1))
    assert read(listed(bucket, world)) == {}
    world.clock.sleep(OLD_S)
    assert read(listed(bucket, world)) == {ulid(1): None}
    store(bucket, replace(block(2, ignore_delay=True), uploaded_time=world.clock.now_ms()))
    assert set(read(listed(bucket, world))) == {ulid(1), ulid(2)}


def test_what_is_no_blocks_is_left_alone(bucket: MemoryBucket, world: World) -> None:
    store(bucket, block(1))
    for key in (
        "index/00000000000000000001.json",
        "gc/index.boundary",
        "notes.txt",
        "junk/meta.json",
    ):
        bucket.put(key, b"{}")
    assert set(list_directories(bucket).directories) == {ulid(1)}


def test_a_listing_that_fails_midway_decides_nothing(world: World) -> None:
    class Failing(MemoryBucket):
        def list(
            self,
            prefix: str = "",
            *,
            start_after: str = "",
            recursive: bool = True,
            at_most: int | None = None,
        ) -> Iterator[ObjectInfo]:
            yield from [
                *super().list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
            ][:1]
            raise Unavailable("the second page did not come")

    bucket = Failing(world.clock)
    store(bucket, block(1))
    with pytest.raises(Unavailable):
        list_directories(bucket)


def test_marks_of_a_person_hide_and_those_of_the_compactor_do_not(
    bucket: MemoryBucket, world: World
) -> None:
    for number, reason in enumerate(MarkReason):
        store(bucket, block(number))
        mark(bucket, ulid(number), reason)
    world.clock.sleep(OLD_S)
    shown = {list(MarkReason)[int(name[-4:])] for name in read(listed(bucket, world))}
    assert shown == {MarkReason.SUPERSEDED, MarkReason.PARTIAL, MarkReason.MALFORMED}


def test_the_snapshot_adds_only_what_the_index_does_not_account_for(
    bucket: MemoryBucket, world: World
) -> None:
    metas = {number: store(bucket, block(number)) for number in (1, 2, 3)}
    store(bucket, block(9, {2, 3}))
    world.clock.sleep(OLD_S)
    state = state_of(metas[1], accounted=(2,))
    assert read(listed(bucket, world, state)) == {ulid(9): frozenset({ulid(3)})}
    assert read(listed(bucket, world, state_of(metas[1], accounted=(2, 3)))) == {}


def test_the_state_is_read_after_the_listing(bucket: MemoryBucket, world: World) -> None:
    """A block committed between the two is then the index's, and in the snapshot once."""
    meta = store(bucket, block(1))
    world.clock.sleep(OLD_S)

    def commit_then_answer() -> State:
        store(bucket, block(2, ignore_delay=True))
        return replace(state_of(meta), table=DEFINITION)

    state, found = discover_snapshot(bucket, world, commit_then_answer)
    assert state is not None
    assert ulid(1) in state.blocks
    assert read(found) == {}
    _, without = discover_snapshot(bucket, world, lambda: None, properties=Properties())
    assert set(read(without)) == {ulid(1), ulid(2)}


def test_an_index_block_is_never_read_off_a_listing(bucket: MemoryBucket, world: World) -> None:
    store(bucket, block(1, visible_by=VisibleBy.INDEX))
    world.clock.sleep(OLD_S)
    assert read(listed(bucket, world, state_of())) == {}


def test_the_floor_refuses_a_block_by_its_name_and_by_each_of_its_sources(
    bucket: MemoryBucket, world: World
) -> None:
    store(bucket, block(1))
    store(bucket, block(8, {2, 5}))
    store(bucket, block(9))
    world.clock.sleep(OLD_S)
    assert read(listed(bucket, world, state_of(floor=3))) == {
        ulid(8): frozenset({ulid(5)}),
        ulid(9): None,
    }
    assert read(listed(bucket, world, state_of(floor=8))) == {ulid(9): None}


def test_malformed_blocks_are_named_where_nobody_else_has_their_rows(
    bucket: MemoryBucket, world: World
) -> None:
    store(bucket, block(1))
    bucket.put(meta_key(ulid(1)), b"{ not json")
    store(bucket, block(2))
    bucket.delete([object_key(ulid(2), CHUNK.path)])
    store(bucket, block(3))
    bucket.put(object_key(ulid(3), CHUNK.path), b"longer")
    store(bucket, block(9, {3}, visible_by=VisibleBy.AGE))
    store(bucket, block(7, visible_by=VisibleBy.INDEX))
    bucket.delete([object_key(ulid(7), CHUNK.path)])
    world.clock.sleep(OLD_S)
    found = listed(bucket, world)
    assert set(found.malformed) == {ulid(1), ulid(2), ulid(7)}
    assert "chunks/000001.parquet is missing" in found.malformed[ulid(2)]
    assert ulid(1) in found.malformed[ulid(1)]
    assert read(found) == {ulid(9): None}
    assert set(listed(bucket, world, state_of(accounted=(1,))).malformed) == {ulid(2)}


def test_a_young_damaged_block_is_not_judged(bucket: MemoryBucket, world: World) -> None:
    store(bucket, block(1))
    bucket.put(meta_key(ulid(1)), b"{ not json")
    assert listed(bucket, world).malformed == {}


def test_one_garbage_mark_is_that_blocks_damage_and_nobody_elses(
    bucket: MemoryBucket, world: World
) -> None:
    store(bucket, block(1))
    store(bucket, block(2))
    bucket.put(deletion_mark_key(ulid(1)), b"garbage")
    world.clock.sleep(OLD_S)
    found = listed(bucket, world)
    assert read(found) == {ulid(2): None}
    assert set(found.malformed) == {ulid(1)}


def test_a_listing_that_passed_a_chunk_too_early_is_asked_again(
    bucket: MemoryBucket, world: World
) -> None:
    store(bucket, block(1))
    world.clock.sleep(OLD_S)
    listing = list_directories(bucket)
    objects = dict(listing.directories[ulid(1)].objects)
    del objects[CHUNK.path]
    torn = replace(
        listing, directories={ulid(1): replace(listing.directories[ulid(1)], objects=objects)}
    )
    assert look(bucket, world, torn)[ulid(1)].damage is None
    bucket.delete([object_key(ulid(1), CHUNK.path)])
    assert look(bucket, world, torn)[ulid(1)].damage == "chunks/000001.parquet is missing"
    bucket.delete([meta_key(ulid(1))])
    assert look(bucket, world, torn)[ulid(1)].meta is None


def test_a_block_that_goes_while_it_is_looked_at_is_no_error(
    bucket: MemoryBucket, world: World
) -> None:
    store(bucket, block(1))
    mark(bucket, ulid(1), MarkReason.MANUAL)
    listing = list_directories(bucket)
    bucket.delete([meta_key(ulid(1)), deletion_mark_key(ulid(1))])
    found = look(bucket, world, listing)[ulid(1)]
    assert (found.meta, found.damage, found.mark) == (None, None, None)
    evidence = found.evidence(None)
    assert classify(evidence, START_MS, Properties()).state is BlockState.FRESH


def test_metas_that_were_read_before_are_not_read_again(bucket: MemoryBucket, world: World) -> None:
    meta = store(bucket, block(1))
    listing = list_directories(bucket)
    bucket.put(meta_key(ulid(1)), b"garbage")
    assert look(bucket, world, listing, loaded={ulid(1): meta})[ulid(1)].meta == meta


def test_the_evidence_carries_the_ages_of_the_listing(bucket: MemoryBucket, world: World) -> None:
    store(bucket, block(1))
    world.clock.sleep(OLD_S)
    mark(bucket, ulid(1), MarkReason.SUPERSEDED)
    evidence = look(bucket, world, list_directories(bucket))[ulid(1)].evidence(
        state_of(accounted=(1,))
    )
    assert evidence.meta_modified_ms == START_MS
    assert evidence.mark_modified_ms == evidence.newest_ms == START_MS + 3_600_000
    assert evidence.standing is Standing.ACCOUNTED


@pytest.mark.parametrize(
    ("meta", "state", "standing"),
    [
        (block(5), None, Standing.NO_INDEX),
        (block(5), state_of(block(5)), Standing.LIVE),
        (block(5), state_of(accounted=(5,)), Standing.ACCOUNTED),
        (block(5), state_of(), Standing.UNKNOWN),
        (block(5), state_of(horizon=7), Standing.UNKNOWN),
        (block(5), state_of(floor=5), Standing.LATE),
        (block(9, {2, 6}), state_of(floor=5), Standing.LATE),
        (block(9, {2, 6}), state_of(floor=5, accounted=(2, 6)), Standing.ACCOUNTED),
        (block(9, {2, 6}), state_of(accounted=(2,)), Standing.UNKNOWN),
        (block(5, visible_by=VisibleBy.INDEX), state_of(horizon=5), Standing.CONDEMNED),
        (block(5, visible_by=VisibleBy.INDEX), state_of(horizon=4), Standing.UNKNOWN),
    ],
)
def test_the_index_says_where_a_block_stands(
    meta: BlockMeta, state: State | None, standing: Standing
) -> None:
    assert standing_of(meta.ulid, meta, state) is standing


def test_a_directory_without_meta_stands_by_its_name() -> None:
    assert standing_of(ulid(5), None, state_of(accounted=(5,))) is Standing.ACCOUNTED
    assert standing_of(ulid(5), None, state_of()) is Standing.UNKNOWN

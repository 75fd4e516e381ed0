"""The hashes of segments: what the ways of care do with them, and that a block without them is
whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Report
from blockstore.care.repair import Done, RepairOptions, StepKind, carry_out, plan_repair
from blockstore.care.repair.target import Target
from blockstore.care.replicate.replicator import Replicator
from blockstore.care.ship.build import build_block
from blockstore.care.ship.shipper import Shipper
from blockstore.care.verify.live import differing
from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.format.segments import (
    SEGMENT_BYTES,
    FileSegments,
    described,
    encode_segments,
)
from blockstore.lifecycle.listing import list_directories, look
from blockstore.names import object_key
from tests.blockstore.care.scene import Care, rows, rows_of, worn
from tests.support.faulty import FaultyBucket, Killed
from tests.support.segments import check_segments_of, segments_everywhere, segments_key

ALL = rows_of("a", "b", "c", "d", "e")


@pytest.fixture(autouse=True)
def everywhere() -> Iterator[None]:
    worn()  # it is made once, without them, for the tests of all files
    with segments_everywhere():
        yield


def with_block(count: int = 4) -> tuple[Care, BlockMeta]:
    """The worn table and one block more, which has the hashes of its segments."""
    made = worn()
    ulid = made.append("new", count)
    return made, load_meta(made.bucket, ulid)


def large() -> tuple[Care, BlockMeta]:
    """The same with a block of one chunk of several segments."""
    made = worn()
    drawn = random.Random(1)
    values = pa.array([drawn.random() for _ in range(60_000)])
    made.open().append(rows("new", 60_000).set_column(2, "value", values))
    (ulid,) = set(made.open().log.state.blocks.ulids()) - {made.merged(), *made.blocks.values()}
    return made, load_meta(made.bucket, ulid)


def shown(report: Report) -> list[tuple[str, str, str]]:
    return [(str(one.severity), str(one.check), one.object) for one in report]


def repair(made: Care, **wishes: object) -> list[Done]:
    table = made.open_any()
    target = Target(
        bucket=made.bucket,
        world=made.world,
        log=table.log_or_none,
        definition=table.definition,
        catalog=table.catalog,
    )
    plan = plan_repair(made.bucket, made.world, target, RepairOptions(**wishes))  # type: ignore[arg-type]
    return list(carry_out(made.bucket, target, plan))


def test_a_block_with_them_is_healthy_and_they_are_not_debris() -> None:
    made, meta = with_block()
    check_segments_of(made.bucket, meta)
    assert shown(made.verify()) == shown(made.verify(deep=True)) == []


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_lost_hashes_are_a_warning_and_the_block_is_read_as_before(damage: str) -> None:
    made, meta = with_block()
    key = segments_key(meta)
    before = made.bucket.get(key).data
    if damage == "missing":
        made.bucket.delete([key])
    elif damage == "cut":
        made.bucket.put(key, before[:-1])
    else:
        made.bucket.put(key, before[:-1] + bytes([before[-1] ^ 1]))
    assert shown(made.verify()) == ([] if damage == "flipped" else [("warning", "segments", key)])
    assert shown(made.verify(deep=True)) == [("warning", "segments", key)]
    assert made.found() == ALL + rows_of("new")
    (done,) = repair(made, deep=True)
    assert (done.step.kind, done.failed) == (StepKind.SEGMENTS, False)
    assert made.bucket.get(key).data == before
    assert shown(made.verify(deep=True)) == []


def test_a_named_block_is_given_its_hashes_again() -> None:
    made, meta = with_block()
    key = segments_key(meta)
    made.bucket.delete([key])
    (done,) = repair(made, blocks=(meta.ulid,))
    assert (done.step.kind, done.ulid) == (StepKind.SEGMENTS, meta.ulid)
    check_segments_of(made.bucket, meta)


def test_a_repair_that_dies_anywhere_leaves_them_right_or_missing() -> None:
    made, meta = with_block()
    key = segments_key(meta)
    right = made.bucket.get(key).data
    made.bucket.delete([key])
    for fault in ("kill_before", "kill_after"):
        number = 0
        while True:
            number += 1
            other = made.copy()
            faulty = FaultyBucket(other.bucket, **{fault: number})  # type: ignore[arg-type]
            other.bucket, kept = faulty, other.bucket  # type: ignore[assignment]
            try:
                repair(other)
            except Killed:
                there = key in [info.key for info in kept.list()]
                assert not there or kept.get(key).data == right
                continue
            assert kept.get(key).data == right
            break


def test_a_listing_takes_no_offence_at_a_block_without_them() -> None:
    """Release 0.1 copies a block without them; readers of listings must not condemn it."""
    made, meta = with_block()
    made.bucket.delete([segments_key(meta)])
    found = look(made.bucket, made.world, list_directories(made.bucket))[meta.ulid]
    assert (found.damage, found.meta) == (None, meta)


@pytest.mark.parametrize("known", [True, False])
def test_the_first_damaged_bytes_of_a_chunk_are_named(known: bool) -> None:
    made, meta = large()
    (file,) = meta.chunks
    assert file.bytes > 3 * SEGMENT_BYTES
    key = object_key(meta.ulid, file.path)
    data = bytearray(made.bucket.get(key).data)
    for at in (2 * SEGMENT_BYTES + 5, len(data) - 1):
        data[at] ^= 1
    made.bucket.put(key, bytes(data))
    if not known:
        made.bucket.delete([segments_key(meta)])
    found = [one for one in made.verify(deep=True) if str(one.check) == "hash"]
    assert [one.object for one in found] == [key]
    assert ("2 of its" in found[0].what) == known
    assert (f"from {2 * SEGMENT_BYTES:,} to {3 * SEGMENT_BYTES:,}" in found[0].what) == known


def test_damage_of_a_chunk_comes_before_damage_of_its_hashes() -> None:
    """A repair makes no hashes of damaged bytes: the block is replaced, by one with its own."""
    made, meta = with_block()
    replica = made.copy()
    key = object_key(meta.ulid, meta.chunks[0].path)
    data = made.bucket.get(key).data
    made.bucket.put(key, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    made.bucket.delete([segments_key(meta)])
    (done,) = repair(made, blocks=(meta.ulid,), replica=replica.bucket)
    assert done.step.kind is StepKind.REWRITE
    assert done.ulid is not None
    check_segments_of(made.bucket, load_meta(made.bucket, done.ulid))
    assert made.found() == ALL + rows_of("new")


def test_no_hashes_are_made_of_damaged_bytes() -> None:
    made, meta = with_block()
    key = object_key(meta.ulid, meta.chunks[0].path)
    data = made.bucket.get(key).data
    made.bucket.put(key, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    made.bucket.delete([segments_key(meta)])
    (done,) = repair(made)  # the fast look does not see the damage
    assert done.failed
    assert "is corrupt" in done.summary
    assert segments_key(meta) not in made.objects()


def test_hashes_that_fit_no_chunk_are_found_and_not_made_again() -> None:
    """What a program with errors wrote: the object is what its block names, and is wrong."""
    made = worn()
    meta = load_meta(made.bucket, made.append("new", publish=False))
    wrong = encode_segments(
        [FileSegments(file.path, file.bytes, b"\0" * 32) for file in meta.chunks]
    )
    lying = made.forge(meta.ulid, lambda one: replace(one, segments=described(wrong)))
    made.bucket.put(segments_key(lying), wrong)
    made.bucket.delete([segments_key(meta)])
    found = [one for one in made.verify(deep=True) if str(one.check) == "segments"]
    assert {one.object for one in found} == {segments_key(lying)}
    assert "differ from chunks/000001.parquet" in found[0].what
    (done,) = repair(made, deep=True)
    assert (done.failed, "another program" in done.summary) == (True, True)
    assert made.bucket.get(segments_key(lying)).data == wrong


def test_a_replica_has_them_and_where_the_source_lost_them_it_is_a_replica_still() -> None:
    made, meta = with_block()
    whole, lacking = (MemoryBucket(made.world.clock, f"memory://{name}") for name in "ab")
    Replicator(made.bucket, whole, made.world).once()
    check_segments_of(whole, load_meta(whole, meta.ulid))
    made.bucket.put(segments_key(meta), b"something else")
    Replicator(made.bucket, lacking, made.world).once()
    replica = Care(lacking, made.world, made.blocks)
    assert replica.found() == made.found()
    assert shown(replica.verify(deep=True)) == [("warning", "segments", segments_key(meta))]


@pytest.mark.parametrize("lost", [False, True])
def test_a_device_ships_them(lost: bool) -> None:
    made = worn()
    folder = MemoryBucket(made.world.clock, "memory://device")
    meta = build_block(folder, made.world, made.open().definition, rows("new"))
    assert meta is not None
    check_segments_of(folder, meta)
    if lost:
        folder.delete([segments_key(meta)])
    Shipper(folder, made.bucket, made.world).once()
    made.world.clock.sleep(3600)
    shipped = load_meta(made.bucket, meta.ulid)
    assert shipped.segments == meta.segments
    assert (segments_key(meta) in made.objects()) == (not lost)
    if not lost:
        check_segments_of(made.bucket, shipped)


def test_a_footer_that_release_0_1_left_out_of_the_index_is_no_difference() -> None:
    made, meta = with_block()
    definition = made.open().definition
    block = made.open().log.poll().blocks.get(meta.ulid)
    assert block is not None
    lacking = replace(
        block.meta, files=tuple(replace(file, footer=None) for file in block.meta.files)
    )
    assert differing(block.meta, meta, definition) == []
    assert differing(lacking, meta, definition) == []
    other = replace(meta, files=tuple(replace(file, footer=9) for file in meta.files))
    assert differing(block.meta, other, definition) == ["files"]

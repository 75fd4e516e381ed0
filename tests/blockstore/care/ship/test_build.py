"""Finished blocks in a folder: an append's bytes, made offline, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.ship.build import build, build_block, definition_at, remember, remembered
from blockstore.errors import Conflict, Corrupt, Invalid
from blockstore.format.meta import load_meta
from blockstore.names import FOLDER_TABLE
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.care.ship.devices import (
    DEFINITION,
    NOW,
    SCHEMA,
    Place,
    rows,
    two_chunks,
    world_at,
)
from tests.support.faulty import FaultyBucket, Killed
from tests.support.tally import tally


def objects(bucket: MemoryBucket) -> dict[str, bytes]:
    return {info.key: bucket.get(info.key).data for info in bucket.list()}


def test_a_built_block_is_byte_for_byte_an_appended_one() -> None:
    """But for the name of whoever made it."""
    appended = Place.new()
    appended.open().append(rows("a"))
    built = MemoryBucket(World.manual().clock)
    world = world_at(0, seed=9)
    world.ids.ulid()  # the create's commit
    assert build_block(built, world, DEFINITION, rows("a"), producer="python") is not None
    block = {key: data for key, data in objects(appended.bucket).items() if key[0] == "0"}
    assert objects(built) == block
    assert len(block) == 2


def test_rows_that_are_none_make_no_block() -> None:
    folder = MemoryBucket(World.manual().clock)
    assert build_block(folder, World.manual(), DEFINITION, rows("a").slice(0, 0)) is None
    assert objects(folder) == {}


def test_rows_that_do_not_fit_make_no_block() -> None:
    folder = MemoryBucket(World.manual().clock)
    with pytest.raises(Invalid, match="row"):
        build_block(
            folder, World.manual(), DEFINITION, pa.table({"writer": ["a"], "row": ["no number"]})
        )
    assert objects(folder) == {}


def test_killed_anywhere_there_is_a_whole_block_or_none() -> None:
    def act(folder: FaultyBucket) -> None:
        with two_chunks():
            build_block(folder, World.manual(), DEFINITION, rows("a"))

    counting = FaultyBucket(MemoryBucket(World.manual().clock))
    act(counting)
    assert [call.key.partition("/")[2] for call in counting.calls][-1] == "meta.json"
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_before", "kill_after"):
            tally("crash points")
            folder = MemoryBucket(World.manual().clock)
            with pytest.raises(Killed):
                act(FaultyBucket(folder, **{fault: number}))  # type: ignore[arg-type]
            ulids = {key.partition("/")[0] for key in objects(folder)}
            for ulid in ulids:
                if f"{ulid}/meta.json" not in objects(folder):
                    continue
                for file in load_meta(folder, ulid).files:
                    assert len(objects(folder)[f"{ulid}/{file.path}"]) == file.bytes


def test_the_front_door_says_what_the_rows_are_once_a_folder(tmp_path: Path) -> None:
    first = bs.build(f"{tmp_path}/out", rows("a"), schema=SCHEMA, sort_by=["row"])
    second = bs.build(f"{tmp_path}/out", rows("b"))
    assert first.ulid is not None
    assert second.ulid is not None
    assert (first.rows, first.published, first.version) == (4, False, None)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        FOLDER_TABLE,
        first.ulid,
        second.ulid,
    }
    with pytest.raises(Invalid, match="is not known yet"):
        bs.build(f"{tmp_path}/other", rows("a"))
    with pytest.raises(Conflict, match="one folder for each table"):
        bs.build(f"{tmp_path}/out", rows("a"), schema=pa.schema([("other", pa.int64())]))
    with pytest.raises(Invalid, match="found both"):
        bs.build(f"{tmp_path}/out", rows("a"), schema=SCHEMA, like=f"{tmp_path}/table")
    with pytest.raises(Invalid, match="not a local folder"):
        bs.build("memory://elsewhere", rows("a"), schema=SCHEMA)


def test_a_device_asks_the_table_once_and_follows_it_when_it_is_altered(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/table", schema=SCHEMA, sort_by=["row"])
    bs.build(f"{tmp_path}/out", rows("a"), like=f"{tmp_path}/table")
    table.alter(add=[pa.field("note", pa.string())])
    bs.build(f"{tmp_path}/out", rows("b"))  # offline: under the definition that it knows
    wide = rows("c").append_column("note", pa.array(["x"] * 4))
    bs.build(f"{tmp_path}/out", wide, like=table.definition)
    bs.build(f"{tmp_path}/out", wide)
    other = bs.create(f"{tmp_path}/other", schema=pa.schema([("x", pa.int64())]))
    with pytest.raises(Conflict):
        bs.build(f"{tmp_path}/out", pa.table({"x": [1]}), like=other.definition)


def test_a_table_without_an_index_is_asked_as_well() -> None:
    place = Place.new(indexed=False)
    url = "memory://without-an-index"
    world = place.world
    bucket = open_bucket(url, world)
    assert build_block(bucket, world, DEFINITION, rows("a")) is not None
    place.age()
    assert definition_at(url, world).schema == DEFINITION.schema
    assert Table.open_bucket(bucket, world, discovery="list").definition.schema == DEFINITION.schema


def test_a_folders_definition_that_was_damaged_is_asked_for_again() -> None:
    folder = MemoryBucket(World.manual().clock, "memory://folder")
    assert remembered(folder) is None
    remember(folder, DEFINITION)
    assert remembered(folder) == DEFINITION
    whole = folder.get(FOLDER_TABLE).data
    for data in (whole[:-20], whole.replace(b"sort_by", b"sort_bx"), b"", b"[]", b"\xff"):
        folder.put(FOLDER_TABLE, data)
        with pytest.raises(Corrupt, match=FOLDER_TABLE):
            remember(folder, None)
        assert remember(folder, DEFINITION) == DEFINITION
        assert remembered(folder) == DEFINITION
    folder.put(FOLDER_TABLE, whole.replace(b'"version": 1', b'"version": 9'))
    with pytest.raises(bs.NewerFormat):
        remember(folder, DEFINITION)


def test_a_block_carries_its_clock_and_labels() -> None:
    folder = MemoryBucket(World.manual().clock)
    meta = build_block(
        folder, world_at(-3600, seed=3), DEFINITION, rows("a"), labels={"device": "7"}
    )
    assert meta is not None
    assert (meta.uploaded_time, meta.labels, meta.sources) == (
        NOW - 3_600_000,
        {"device": "7"},
        (meta.ulid,),
    )


def test_a_block_is_built_in_a_folder_of_this_machine_only() -> None:
    with pytest.raises(Invalid):
        build("s3://bucket/table", rows("a"), schema=SCHEMA)

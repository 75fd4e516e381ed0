"""Garbage at every object of a block: an error that names it, or quarantine. Never a crash, never a
path outside.

Whatever is in one directory, the look at the table ends, the other blocks are read as before,
nothing is deleted, and no key is requested that is not an object of the table.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket import Bucket
from blockstore.bucket.api import Object, ObjectInfo
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.cli.blocks import examine
from blockstore.errors import BlockstoreError, Corrupt
from blockstore.format.definition import Definition
from blockstore.format.meta import decode
from blockstore.format.sources import encode_sources, hash_sources
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.listing import Damage
from blockstore.names import (
    deletion_mark_key,
    is_chunk_path,
    meta_key,
    no_compact_mark_key,
    object_key,
    sources_path,
    split_block_key,
)
from blockstore.operations.unindexed import Unindexed
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.support.examples import few
from tests.support.tally import tally

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us"))])
WAIT_S = 3600.0
GOOD = [1, 2, 3]

GARBAGE: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"\x00" * 100,
    b"[" * 100_000,
    b'{"a":' * 5_000,
    b'{"version": 1e400}',
    b'{"version": NaN}',
    b'{"version": 1, "version": 2}',
    b'{"version": 99999999999999999999999999999}',
    b'{"version": -1}',
    b'{"version": true}',
    b'{"version": 2}',
    b'{"ulid": "\\ud800", "version": 1}',
    b"\n".join([b"{}", b"{}"]),
]

VALUES: list[Any] = [
    None,
    True,
    -1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    1.5,
    float("1e308"),
    "",
    "text",
    "../../outside",
    "/etc/passwd",
    "chunks/../../meta.json",
    "chunks/000001.parquet\x00",
    "chunks/\ud800.parquet",
    "01ARZ3NDEKTSV4RRFFQ69G5FAU",
    "01arz3ndektsv4rrffq69g5fav",
    "81ARZ3NDEKTSV4RRFFQ69G5FAV",
    "x" * 100_000,
    [],
    {},
    [[]],
    [{}],
    {"a": {"b": []}},
]


class Fenced(Wrapper):
    """Fails a test that requests anything but objects of blocks, and any that deletes."""

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.inner.get(_checked(key), if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(_checked(key), start, length)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(_checked(key))

    def delete(self, keys: Iterable[str]) -> None:
        raise AssertionError("nothing may be deleted")


def _checked(key: str) -> str:
    place = split_block_key(key)
    assert place is not None, key
    known = {"meta.json", "deletion-mark.json", "no-compact-mark.json", sources_path()}
    assert place[1] in known or is_chunk_path(place[1]), key
    return key


def handle(bucket: Bucket, world: World) -> Table:
    definition = Definition.create(SCHEMA, time_column="t")
    return Table(Fenced(bucket), world, Unindexed(definition, given=True))


def append(bucket: Bucket, world: World, *numbers: int) -> str:
    definition = Definition.create(SCHEMA, time_column="t")
    table = Table(bucket, world, Unindexed(definition, given=True))
    ulid = table.append(pa.table({"n": list(numbers), "t": [0] * len(numbers)}).cast(SCHEMA)).ulid
    assert ulid is not None
    return ulid


@pytest.fixture
def world() -> World:
    return World.manual(seed=1)


def victim(bucket: Bucket, world: World) -> str:
    """A table of two blocks, aged; returns the one that is to be damaged."""
    append(bucket, world, *GOOD)
    ulid = append(bucket, world, 8, 9)
    world.clock.sleep(WAIT_S)
    return ulid


def look(bucket: Bucket, world: World, ulid: str) -> None:
    """Everything that a look at the table may do: the good block is read, the bad one is read,
    named or an error."""
    tally("pieces of garbage")
    world.clock.sleep(WAIT_S)
    before = {info.key: info.size for info in bucket.list()}
    table = handle(bucket, world)
    synced = table.catalog.sync()
    assert synced.listing.directories.keys() >= synced.found.keys()
    states = {one.ulid: one for one in examine(table)}
    assert len(states) == len(synced.found)
    snapshot = table.snapshot()
    if others := set(snapshot.left_out) - {ulid}:
        # The damage made another schema, as valid: it is not known which of two is right, and the
        # younger is left out.
        metas = [decode(bucket.get(meta_key(one)).data, ulid=one) for one in (ulid, *others)]
        assert metas[0].schema != metas[1].schema
        assert "older blocks" in "".join(snapshot.left_out.values())
        with pytest.raises(Corrupt, match=others.pop()):
            table.snapshot(strict=True)
        return
    if snapshot.left_out:
        assert ulid in "".join(snapshot.left_out.values()) or snapshot.left_out[ulid]
        with pytest.raises(Corrupt, match=ulid):
            table.snapshot(strict=True)
    rows = read(snapshot)
    assert ulid in rows if isinstance(rows, str) else rows in (GOOD, [*GOOD, 8, 9])
    good = [chosen for chosen in snapshot.snapshot.listed if chosen.meta.ulid != ulid]
    assert [chosen.meta.rows for chosen in good] == [len(GOOD)]
    assert {info.key: info.size for info in bucket.list()} == before


def read(snapshot: TableSnapshot) -> list[int] | str:
    """The rows, or what the error says."""
    try:
        return sorted(snapshot.scan().to_table()["n"].to_pylist())
    except BlockstoreError as error:
        return str(error)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    if path:
        yield path
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> bytes:
    copy = json.loads(json.dumps(value))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = new
    return json.dumps(copy).encode()


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("key", [meta_key, deletion_mark_key, no_compact_mark_key])
def test_bytes_that_are_no_document(
    key: Any, garbage: bytes, bucket: MemoryBucket, world: World
) -> None:
    ulid = victim(bucket, world)
    bucket.put(key(ulid), garbage)
    look(bucket, world, ulid)
    found = Catalog(bucket, world).sync().found[ulid]
    if key is no_compact_mark_key:
        assert (found.damage, found.directory.no_compact) == (None, True), (
            "whatever it says, it keeps merges away"
        )
    else:
        assert found.damage is not None
        assert ulid in found.damage


def test_every_field_of_a_meta_with_every_kind_of_garbage(
    bucket: MemoryBucket, world: World
) -> None:
    ulid = victim(bucket, world)
    value = orjson.loads(bucket.get(meta_key(ulid)).data)
    for path in places(value):
        for new in VALUES:
            bucket.put(meta_key(ulid), replaced(value, path, new))
            found = Catalog(Fenced(bucket), world).sync().found[ulid]
            tally("pieces of garbage")
            if found.damage is not None:
                assert ulid in found.damage or found.kind in (Damage.MISSING, Damage.SIZE), (
                    path,
                    new,
                )
    for path in list(places(value))[::3]:
        for new in VALUES[::4]:
            bucket.put(meta_key(ulid), replaced(value, path, new))
            look(bucket, world, ulid)


@settings(
    max_examples=few(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_meta_that_was_cut_overwritten_or_doubled_in_places(data: st.DataObject) -> None:
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    ulid = victim(bucket, world)
    whole = bucket.get(meta_key(ulid)).data
    kind = data.draw(st.sampled_from(["cut", "flip", "insert", "double", "swap", "any"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    if kind == "cut":
        damaged = whole[:at]
    elif kind == "flip":
        damaged = (
            whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :]
        )
    elif kind == "insert":
        damaged = whole[:at] + data.draw(st.binary(min_size=1, max_size=8)) + whole[at:]
    elif kind == "double":
        end = data.draw(st.integers(at, len(whole)))
        damaged = whole[:end] + whole[at:end] + whole[end:]
    elif kind == "swap":
        path = data.draw(st.sampled_from(list(places(orjson.loads(whole)))))
        json_values = st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=5,
        )
        damaged = replaced(orjson.loads(whole), path, data.draw(json_values))
    else:
        damaged = data.draw(st.binary(max_size=300))
    bucket.put(meta_key(ulid), damaged)
    look(bucket, world, ulid)


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "chunks/../../x", "C:\\x", "chunks/", "meta.json", "."]
)
def test_a_path_outside_the_block_is_never_followed(
    path: str, bucket: MemoryBucket, world: World
) -> None:
    ulid = victim(bucket, world)
    value = orjson.loads(bucket.get(meta_key(ulid)).data)
    bucket.put(meta_key(ulid), replaced(value, ("blockstore", "files", 0, "path"), path))
    look(bucket, world, ulid)
    assert Catalog(bucket, world).sync().malformed == {Damage.UNREADABLE: 1}


@pytest.mark.parametrize(
    "sources",
    [
        b"",
        b"garbage",
        b"PAR1" + b"\x00" * 100 + b"PAR1",
        encode_sources(["not a ulid"]),
        encode_sources([]),
        encode_sources(["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAA"]),
        encode_sources(["01ARZ3NDEKTSV4RRFFQ69G5FAV"] * 2),
        encode_sources(["01ARZ3NDEKTSV4RRFFQ69G5FAV"])[:-5],
        None,
    ],
)
def test_a_list_of_sources_that_lies(
    sources: bytes | None, bucket: MemoryBucket, world: World
) -> None:
    ulid = victim(bucket, world)
    value = orjson.loads(bucket.get(meta_key(ulid)).data)
    outside = {
        "path": sources_path(),
        "count": 1,
        "hash": hash_sources(["01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
    }
    bucket.put(meta_key(ulid), replaced(value, ("compaction", "sources"), outside))
    if sources is not None:
        bucket.put(object_key(ulid, sources_path()), sources)
    look(bucket, world, ulid)
    assert sum(Catalog(bucket, world).sync().malformed.values()) == 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"version": 2}, Damage.NEWER),
        ({"compaction": {"level": 1, "sources": []}}, Damage.UNREADABLE),
        (
            {"compaction": {"level": 1, "sources": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}},
            Damage.UNREADABLE,
        ),
        (
            {
                "compaction": {
                    "level": 1,
                    "sources": ["01ARZ3NDEKTSV4RRFFQ69G5FAA", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
                }
            },
            Damage.UNREADABLE,
        ),
        ({"ulid": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, Damage.UNREADABLE),
        ({"minTime": 5, "maxTime": 5}, Damage.UNREADABLE),
    ],
    ids=["newer", "no source", "another source", "two sources", "another name", "no time"],
)
def test_what_the_rules_call_malformed(
    change: dict[str, Any], kind: Damage, bucket: MemoryBucket, world: World
) -> None:
    ulid = victim(bucket, world)
    value = orjson.loads(bucket.get(meta_key(ulid)).data)
    bucket.put(meta_key(ulid), json.dumps({**value, **change}).encode())
    look(bucket, world, ulid)
    assert Catalog(bucket, world).sync().malformed == {kind: 1}
    assert set(handle(bucket, world).snapshot().left_out) == {ulid}


def test_a_schema_that_is_none_or_nobodys(bucket: MemoryBucket, world: World) -> None:
    ulid = victim(bucket, world)
    value = orjson.loads(bucket.get(meta_key(ulid)).data)
    strange = [
        b"",
        b"garbage",
        bytes(pa.schema([]).serialize()),
        bytes(pa.schema([("n", pa.null())]).serialize()),
        bytes(pa.schema([("n", pa.int64()), ("N", pa.int64())]).serialize()),
        bytes(pa.schema([("_source", pa.string())]).serialize()),
        bytes(pa.schema([("n", pa.dictionary(pa.int8(), pa.string()))]).serialize()),
        bytes(
            pa.schema(
                [pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "999999999999"})]
            ).serialize()
        ),
    ]
    for schema in strange:
        text = base64.b64encode(schema).decode()
        bucket.put(meta_key(ulid), replaced(value, ("blockstore", "schema"), text))
        look(bucket, world, ulid)


@settings(max_examples=few(80), deadline=None)
@given(st.data())
def test_a_chunk_of_the_right_size_and_wrong_bytes(data: st.DataObject) -> None:
    """The look cannot show it; a reader gets an error that names the block, or reads as many rows
    as were written."""
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    ulid = victim(bucket, world)
    key = next(info.key for info in bucket.list(object_key(ulid, "chunks/")))
    whole = bucket.get(key).data
    at = data.draw(st.integers(0, len(whole) - 1))
    wrong = data.draw(st.binary(min_size=1, max_size=len(whole) - at))
    bucket.put(key, whole[:at] + wrong + whole[at + len(wrong) :])
    tally("pieces of garbage")
    world.clock.sleep(WAIT_S)
    snapshot = handle(bucket, world).snapshot(strict=True)
    rows = read(snapshot)
    if isinstance(rows, str):
        assert ulid in rows
    else:
        # A value may be another: only verify --deep compares hashes. None is missing, and other
        # blocks are well.
        assert len(rows) == len(GOOD) + 2
        assert set(rows) >= set(GOOD)


def test_a_column_whose_name_is_no_text_in_the_footer_names_the_block(tmp_path: Path) -> None:
    """In a file on this machine, of which a scan compares no hash."""
    world = World.manual(seed=1)
    bucket = LocalBucket(tmp_path, world.clock, durable=False)
    ulid = victim(bucket, world)
    key = next(info.key for info in bucket.list(object_key(ulid, "chunks/")))
    whole = bucket.get(key).data
    world.clock.sleep(WAIT_S)
    told = 0
    for at in range(len(whole)):
        bucket.put(key, whole[:at] + b"\x80" + whole[at + 1 :])
        rows = read(handle(bucket, world).snapshot(strict=True))
        assert ulid in rows if isinstance(rows, str) else len(rows) == len(GOOD) + 2
        told += isinstance(rows, str) and "decode byte 0x80" in rows
    assert told


def test_a_changed_byte_of_a_small_remote_chunk_names_the_block() -> None:
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    ulid = victim(bucket, world)
    key = next(info.key for info in bucket.list(object_key(ulid, "chunks/")))
    whole = bucket.get(key).data
    world.clock.sleep(WAIT_S)
    for at in range(0, len(whole), 7):
        bucket.put(key, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        rows = read(handle(bucket, world).snapshot(strict=True))
        assert isinstance(rows, str)
        assert ulid in rows


@pytest.mark.parametrize("garbage", [b"", b"PAR1", b"x" * 10_000])
def test_a_chunk_of_another_size(garbage: bytes, bucket: MemoryBucket, world: World) -> None:
    ulid = victim(bucket, world)
    bucket.put(next(info.key for info in bucket.list(object_key(ulid, "chunks/"))), garbage)
    look(bucket, world, ulid)
    assert Catalog(bucket, world).sync().malformed == {Damage.SIZE: 1}


def test_names_that_are_no_blocks_are_passed_over(bucket: MemoryBucket, world: World) -> None:
    victim(bucket, world)
    before = handle(bucket, world).catalog.sync().found.keys()
    for name in (
        "01arz3ndektsv4rrffq69g5fav",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "01ARZ3NDEKTSV4RRFFQ69G5FAVV",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV ",
        "ÀÀARZ3NDEKTSV4RRFFQ69G5FAV",
        "chunks",
        "index",
    ):
        bucket.put(f"{name}/meta.json", b"{}")
    bucket.put("01ARZ3NDEKTSV4RRFFQ69G5FAV", b"an object, and no directory")
    assert handle(bucket, world).catalog.sync().found.keys() == before


class TestLinks:
    """A folder that contains links: none is followed, in or out of the table."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret").write_bytes(b"secret")
        return tmp_path / "table"

    @pytest.fixture
    def local(self, folder: Path, world: World) -> LocalBucket:
        return LocalBucket(folder, world.clock, durable=False)

    @pytest.mark.parametrize(
        "what", ["meta.json", "chunks/000001.parquet", "deletion-mark.json", "chunks"]
    )
    def test_a_link_in_a_block(
        self, what: str, folder: Path, local: LocalBucket, world: World
    ) -> None:
        ulid = victim(local, world)
        place = folder / ulid / what
        if place.is_dir():
            place.rename(folder.parent / "outside" / "chunks")
            place.symlink_to(folder.parent / "outside" / "chunks")
        else:
            place.unlink(missing_ok=True)
            place.symlink_to(folder.parent / "outside" / "secret")
        look(local, world, ulid)
        found = Catalog(local, world).sync().found[ulid]
        assert what not in found.directory.objects
        assert (folder.parent / "outside" / "secret").read_bytes() == b"secret"

    def test_a_link_for_a_block(self, folder: Path, local: LocalBucket, world: World) -> None:
        ulid = victim(local, world)
        (folder / ulid).rename(folder.parent / "outside" / ulid)
        (folder / ulid).symlink_to(folder.parent / "outside" / ulid)
        assert ulid not in Catalog(local, world).sync().found

    def test_a_pipe_and_an_empty_folder(
        self, folder: Path, local: LocalBucket, world: World
    ) -> None:
        ulid = victim(local, world)
        os.mkfifo(folder / ulid / "deletion-mark.json")
        (folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV").mkdir()
        look(local, world, ulid)

"""Garbage at every object of the index: a typed error that names it, and nothing changed. Never a
crash, never a guess.

A hint is not authority, so garbage there costs a request and nothing else. Everything else stops
the reader: stepping back to what can be read would fork the history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BoundaryLost, Corrupt, ObjectMissing
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log, create
from blockstore.names import BOUNDARY, HINT, checkpoint_key, entry_key
from blockstore.table import Table
from blockstore.world import World
from tests.support.examples import few
from tests.support.index_data import DEFINITION
from tests.support.tally import tally

ROWS = pa.table({"key": [1, 2], "text": ["a", "b"]})
LAST = 6
CHECKPOINT = 3

GARBAGE: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe{}",
    b"\x00" * 64,
    b"[" * 100_000,
    b'{"format": 1e400}',
    b'{"format": 1, "format": 1}',
    b'{"format": 2}',
    b'{"format": -1}',
    b"PAR1",
    b"PAR1" + b"\x00" * 64 + b"PAR1",
]

VALUES: list[Any] = [
    None,
    True,
    -1,
    2**64,
    10**400,
    1.5,
    "",
    "text",
    "../../outside",
    "/etc/passwd",
    "01arz3ndektsv4rrffq69g5fav",
    "81ARZ3NDEKTSV4RRFFQ69G5FAV",
    "\ud800",
    [],
    {},
    [{}],
    {"a": [{}]},
]


def made() -> tuple[MemoryBucket, World]:
    """A table of six versions, a checkpoint in their middle."""
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    table = Table(bucket, world, create(bucket, world, DEFINITION))
    for number in range(2, LAST + 1):
        table.append(ROWS)
        if number == CHECKPOINT:
            write_checkpoint(bucket, table.log.state)
    return bucket, world


def contents(bucket: MemoryBucket) -> dict[str, bytes]:
    return {info.key: bucket.get(info.key).data for info in bucket.list()}


def use(bucket: MemoryBucket, world: World) -> str | int:
    """Open the table, read it, read all its past: the rows, or what the error says.

    Nothing is changed by that.
    """
    tally("pieces of garbage")
    before = contents(bucket)
    try:
        table = Table.open_bucket(bucket, world)
        answer: str | int = table.snapshot().scan().to_table().num_rows
        for entry in table.history():
            table.snapshot(version=entry.id)
    except (Corrupt, ObjectMissing) as error:
        answer = str(error)
    assert contents(bucket) == before
    return answer


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
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
@pytest.mark.parametrize("entry", [1, 2, LAST - 1, LAST])
def test_an_entry_that_is_none_stops_whoever_needs_it(entry: int, garbage: bytes) -> None:
    bucket, world = made()
    bucket.put(entry_key(entry), garbage)
    said = use(bucket, world)
    assert isinstance(said, str)
    assert f"entry {entry}" in said


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_nobody_commits_on_top_of_an_entry_that_cannot_be_read(garbage: bytes) -> None:
    bucket, world = made()
    log = Log(bucket, world)
    log.poll()
    bucket.put(entry_key(LAST + 1), garbage)
    before = contents(bucket)
    with pytest.raises(Corrupt, match=f"entry {LAST + 1}"):
        log.poll()
    answer = Table(bucket, world, Log(bucket, world))
    with pytest.raises(Corrupt, match=f"entry {LAST + 1}"):
        answer.append(ROWS)
    added = contents(bucket).keys() - before.keys()
    assert not [key for key in added if key.startswith("index/")]


def test_every_field_of_an_entry_with_every_kind_of_garbage() -> None:
    for entry in (1, LAST):
        bucket, world = made()
        value = orjson.loads(bucket.get(entry_key(entry)).data)
        for path in list(places(value)):
            for new in VALUES:
                bucket.put(entry_key(entry), replaced(value, path, new))
                said = use(bucket, world)
                # What is a complete entry again is another entry: bytes alone cannot show it.
                assert isinstance(said, int) or named(said, entry), (path, new, said)


def named(said: str, entry: int) -> bool:
    """Whether an error says where to look: the entry, or what follows from a state that it was
    folded into."""
    return (
        f"entry {entry}" in said
        or f"version {entry}" in said
        or "block 0" in said
        or f"{entry}.json" in said
    )


@settings(max_examples=few(150), deadline=None)
@given(st.data())
def test_objects_cut_or_overwritten_anywhere(data: st.DataObject) -> None:
    bucket, world = made()
    key = data.draw(st.sampled_from([entry_key(1), entry_key(LAST), checkpoint_key(CHECKPOINT)]))
    whole = bucket.get(key).data
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    if kind == "cut":
        damaged = whole[:at]
    elif kind == "flip":
        damaged = (
            whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :]
        )
    else:
        damaged = whole[:at] + data.draw(st.binary(min_size=1, max_size=8)) + whole[at:]
    bucket.put(key, damaged)
    said = use(bucket, world)
    assert isinstance(said, str) or said <= 2 * (LAST - 1)


@pytest.mark.parametrize("garbage", [g for g in GARBAGE if g not in (b"",)] + [b"", b"PAR1" * 100])
def test_a_checkpoint_that_is_none_is_named(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bucket, world = made()
    bucket.put(checkpoint_key(CHECKPOINT), garbage)
    assert use(bucket, world) == 2 * (LAST - 1), "the entries from the first on are there"
    assert f"checkpoint {CHECKPOINT}" in caplog.text
    bucket.put(BOUNDARY, b"%d" % CHECKPOINT)
    said = use(bucket, world)
    assert isinstance(said, str)
    assert f"checkpoint {CHECKPOINT}" in said or checkpoint_key(CHECKPOINT) in said


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"-1",
        b"1.0",
        b" 0",
        b"0\n",
        "٣".encode(),
        b"18446744073709551616",
        b"1" * 21,
        b"null",
        b"\x00",
    ],
)
def test_a_boundary_that_is_none_stops_everybody(garbage: bytes) -> None:
    bucket, world = made()
    bucket.put(BOUNDARY, garbage)
    with pytest.raises(BoundaryLost, match="boundary"):
        Table.open_bucket(bucket, world)
    with pytest.raises(BoundaryLost):
        create(bucket, world, DEFINITION)


@pytest.mark.parametrize(
    "garbage",
    [
        *GARBAGE,
        b'{"checkpoint": -1}',
        b'{"checkpoint": 99999999999999999999}',
        b'{"checkpoint": "3"}',
    ],
)
def test_a_hint_that_is_none_costs_nothing_but_requests(garbage: bytes) -> None:
    bucket, world = made()
    bucket.put(HINT, garbage)
    assert use(bucket, world) == 2 * (LAST - 1)


def test_names_that_are_no_entries_are_passed_over() -> None:
    bucket, world = made()
    for key in (
        "index/7.json",
        "index/0000000000000000000a.json",
        "index/00000000000000000007.json.tmp",
        "index/000000000000000000007.json",
        "index/٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.json",
        "index/checkpoints/7.parquet",
        "index/deeper/00000000000000000007.json",
    ):
        bucket.put(key, b"garbage")
    assert use(bucket, world) == 2 * (LAST - 1)

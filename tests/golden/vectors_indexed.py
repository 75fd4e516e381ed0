"""Tables with an index and what is done to their rows, each made with the oracle that says what it
holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from blockstore.format.block import Job
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from tests.golden.oracle import Block, Oracle

SIMPLE = [("id", pa.int64(), 1), ("name", pa.string(), 2)]
EVERY_TYPE = [
    ("id", pa.int64(), 1),
    ("on", pa.bool_(), 2),
    ("small", pa.int8(), 3),
    ("huge", pa.uint64(), 4),
    ("single", pa.float32(), 5),
    ("double", pa.float64(), 6),
    ("name", pa.string(), 7),
    ("raw", pa.binary(), 8),
    ("fixed", pa.binary(2), 9),
    ("price", pa.decimal128(20, 2), 10),
    ("day", pa.date32(), 11),
    ("clock", pa.time64("us"), 12),
    ("at", pa.timestamp("us", "UTC"), 13),
    ("local", pa.timestamp("ns"), 14),
    ("took", pa.duration("ms"), 15),
    ("tags", pa.list_(pa.field("element", pa.string())), 16),
    ("place", pa.struct([("lat", pa.float64()), ("lon", pa.float64())]), 18),
    ("counts", pa.map_(pa.string(), pa.int32()), 21),
]
NULLS = {name: None for name, _, _ in EVERY_TYPE}


def rows(first: int, last: int) -> list[dict[str, object]]:
    """Rows of a simple table."""
    return [{"id": number, "name": f"row {number}"} for number in range(first, last)]


def simple(seed: int, **said: object) -> Oracle:
    """A simple table, created."""
    return Oracle(seed, SIMPLE, sort_by=["id"], **said)  # type: ignore[arg-type]


def created() -> Oracle:
    """A table that was created, and no more."""
    made = Oracle(1, EVERY_TYPE, time_column="at", sort_by=["id"], labels={"cluster": "eu1"})
    made.every()
    made.refuse("not-found", version=2)
    made.refuse("not-found", tag="none")
    made.refuse("not-found", as_of=made.time - 1)
    return made


def appended() -> Oracle:
    """Appends of every type, of several chunks, with jobs, and one that was uploaded again under
    another name."""
    made = Oracle(2, EVERY_TYPE, time_column="at", sort_by=["id"])
    whole = {
        "on": True,
        "small": -7,
        "huge": 2**64 - 1,
        "single": 1.5,
        "double": "NaN",
        "name": "é" * 70,
        "raw": "00ff",
        "fixed": "abcd",
        "price": "123456789012345678.90",
        "day": -1,
        "clock": 86_399_999_999,
        "at": 1_700_000_000_000_001,
        "local": -1,
        "took": 5,
        "tags": ["a", None],
        "place": {"lat": 40.5, "lon": None},
        "counts": [["a", 1], ["b", None]],
    }
    second = {"double": "Infinity", "at": 0, "name": "", "tags": [], "counts": []}
    made.append([{"id": 1, **whole}, NULLS | {"id": 2, **second}], job=Job("nightly", 1))
    made.append([NULLS | {"id": n, "at": n} for n in (3, 4, 5)], split=True, job=Job("nightly", 2))
    made.append([NULLS | {"id": 6, "double": "-Infinity", "at": -1}], job=Job("nightly", 5))
    made.append([NULLS | {"id": 7, "at": 7}], job=Job("stream/x", 9))
    refused = made.world.ids.ulid()
    made.append([NULLS | {"id": 8, "at": 8}], sources=[refused], revision=1)
    made.every()
    made.ask(3, as_of=made.states[3]["state"]["time"])
    made.ask(3, as_of=made.states[4]["state"]["time"] - 1)
    return made


def labelled() -> Oracle:
    """Streams of other labels; a label with the name of a column, and blocks that lack one."""
    made = simple(3, labels={"cluster": "eu1"})
    made.append(rows(0, 2))
    made.append(rows(2, 4), labels={"cluster": "us1", "zone": "a"})
    made.append(rows(4, 5), labels={"NAME": "never read"})
    made.every()
    return made


def altered() -> Oracle:
    """Types widened and columns added while rows stay as they were written."""
    made = Oracle(
        4,
        [("id", pa.int32(), 1), ("part", pa.float32(), 2), ("price", pa.decimal128(5, 2), 3)],
        sort_by=["id"],
    )
    made.append([{"id": 1, "part": 0.5, "price": "1.25"}, {"id": 2, "part": "NaN", "price": None}])
    for changes, columns in (
        ({"widen": {"id": pa.int64()}}, [("id", pa.int64(), 1), *made.columns[1:]]),
        (
            {
                "widen": {"part": pa.float64(), "price": pa.decimal128(9, 2)},
                "add": [pa.field("note", pa.string())],
            },
            [
                ("id", pa.int64(), 1),
                ("part", pa.float64(), 2),
                ("price", pa.decimal128(9, 2), 3),
                ("note", pa.string(), 4),
            ],
        ),
    ):
        made.world.clock.sleep(1)
        made.definition = made.table.alter(**changes)
        made.columns = columns
        made.note()
        names = [name for name, _, _ in columns]
        row = {"id": 2**40 + len(columns), "part": 0.25, "price": "3.00", "note": "new"}
        made.append([{name: row[name] for name in names}])
    made.compact(*list(made.blocks.values())[:2])
    made.every()
    return made


def replaced() -> Oracle:
    """Rows deleted by a condition, overwritten in part and in whole, and restored."""
    made = simple(5)
    made.append(rows(0, 4))
    made.append(rows(4, 8))
    _change(made, "delete", "id >= 3 and id < 5", keep=lambda row: not 3 <= row["id"] < 5)
    _change(made, "delete", "id >= 5", keep=lambda row: row["id"] < 5)
    _change(
        made,
        "overwrite",
        "id = 1",
        keep=lambda row: row["id"] != 1,
        data=[{"id": 1, "name": "new"}],
    )
    _change(made, "overwrite", None, keep=lambda row: False, data=rows(100, 102))
    _restore(made, to=3)
    made.append(rows(200, 201))
    _restore(made, to=6)
    made.every()
    return made


def reverted() -> Oracle:
    """Writes hidden in a merged block one after the other, and a whole block of level 1; then
    merged without them."""
    made = simple(6)
    writes = [made.append(rows(4 * n, 4 * n + 2)) for n in range(4)]
    merged = made.compact(*writes[:3])
    for write in writes[:2]:
        made.world.clock.sleep(1)
        made.table.revert(write.ulid)
        merged.excepted.add(write.ulid)
        made.note()
    made.world.clock.sleep(1)
    made.commit(Operation.REVERT, excepts={writes[3].ulid: (writes[3].ulid,)})
    writes[3].excepted.add(writes[3].ulid)
    made.note()
    made.compact(merged)
    made.every()
    return made


def long_lists() -> Oracle:
    """More than 1,000 sources: named by their list's hash, then told by the parents of a merge."""
    made = simple(10)
    sources = [f"01HF7{number:021d}" for number in range(1_001)]
    made.world.clock.sleep(1)
    many = made.upload(
        [(sources[n], row) for n, row in enumerate(rows(0, 3))], level=2, sources=sources, own=False
    )
    made.commit(Operation.REWRITE, add=[many])
    made.note(add=[many])
    made.world.clock.sleep(1)
    made.commit(Operation.REVERT, excepts={many.ulid: (sources[1],)})
    many.excepted.add(sources[1])
    made.note()
    one = made.append(rows(5, 6))
    made.compact(many, one)
    write_checkpoint(made.bucket, Log(made.bucket, made.world).state)
    made.every()
    return made


def _change(
    made: Oracle, operation: str, where: str | None, *, keep: object, data: Sequence[dict] = ()
) -> None:  # type: ignore[type-arg]
    """A delete or an overwrite: what stays is told by ``keep``, and what the table answers must
    agree."""
    made.world.clock.sleep(1)
    new = (
        pa.table({"id": [row["id"] for row in data], "name": [row["name"] for row in data]})
        if data
        else None
    )
    done = (
        made.table.overwrite(new, where=where)
        if operation == "overwrite"
        else made.table.delete(where)
    )
    gone, rewritten, add = [], {}, []
    for block in made.blocks.values():
        left = [(source, row) for source, row in block.rows if keep(row)]  # type: ignore[operator]
        if not left:
            gone.append(block)
        elif len(left) < len(block.rows):
            rewritten[block.ulid] = left
    assert {one.ulid for one in gone} == set(done.removed), operation
    assert rewritten.keys() == done.rewritten.keys(), operation
    for ulid, left in rewritten.items():
        made_of = str(done.rewritten[ulid])
        add.append(Block(made_of, left, made.blocks[ulid].sources, max(2, made.blocks[ulid].level)))
    for ulid in done.added:
        sources = sorted({ulid, *(source for one in gone for source in one.sources)})
        add.append(Block(ulid, [(ulid, row) for row in data], sources, 2))
    made.note(add=add, remove=[*(one.ulid for one in gone), *rewritten])


def _restore(made: Oracle, *, to: int) -> None:
    """Three entries: a tag of its own, the difference, and the tag taken away."""
    made.world.clock.sleep(1)
    then = _live_at(made, to)
    done = made.table.restore(version=to)
    assert done.version is not None
    name = "_restore_" + made.entry(done.version)["commit"]
    made.told["tags"][name] = to
    made.note()
    add = [block for ulid, block in then.items() if ulid not in made.blocks]
    gone = [ulid for ulid in made.blocks if ulid not in then]
    made.note(add=add, remove=gone)
    del made.told["tags"][name]
    made.note()


def _live_at(made: Oracle, version: int) -> dict[str, Block]:
    """The blocks of a version, as they were then."""
    told = {one["ulid"]: one for one in made.states[version]["state"]["blocks"]}
    return {
        ulid: replace(made.everything[ulid], excepted=set(one["excepted"]))
        for ulid, one in told.items()
    }

"""Tables with an index, each made with the oracle that says what it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from blockstore.format.block import Job
from blockstore.format.document import sealed
from blockstore.ids import Ids, ulid_at
from blockstore.index.checkpoint import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.names import entry_key
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.golden.oracle import Block, Oracle
from tests.golden.plain import plain
from tests.golden.rows_v1 import FIRST, SECOND
from tests.support.put_back import copy_of, put_back

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
    """Appends of every type, of several chunks, with jobs, and one that was uploaded again under another name."""
    made = Oracle(2, EVERY_TYPE, time_column="at", sort_by=["id"])
    whole = {
        "on": True, "small": -7, "huge": 2**64 - 1, "single": 1.5, "double": "NaN", "name": "é" * 70, "raw": "00ff",
        "fixed": "abcd", "price": "123456789012345678.90", "day": -1, "clock": 86_399_999_999, "at": 1_700_000_000_000_001,
        "local": -1, "took": 5, "tags": ["a", None], "place": {"lat": 40.5, "lon": None}, "counts": [["a", 1], ["b", None]],
    }  # fmt: skip
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
            {"widen": {"part": pa.float64(), "price": pa.decimal128(9, 2)}, "add": [pa.field("note", pa.string())]},
            [("id", pa.int64(), 1), ("part", pa.float64(), 2), ("price", pa.decimal128(9, 2), 3), ("note", pa.string(), 4)],
        ),
    ):  # fmt: skip
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
    _change(made, "overwrite", "id = 1", keep=lambda row: row["id"] != 1, data=[{"id": 1, "name": "new"}])
    _change(made, "overwrite", None, keep=lambda row: False, data=rows(100, 102))
    _restore(made, to=3)
    made.append(rows(200, 201))
    _restore(made, to=6)
    made.every()
    return made


def reverted() -> Oracle:
    """Writes hidden in a merged block one after the other, and a whole block of level 1; then merged without them."""
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


def collected() -> Oracle:
    """Versions below the boundary: one that a tag pins, the boundary's own, and those that went."""
    made = simple(7, properties={"history_retention": "1h"})
    for number in range(3):
        made.append(rows(number, number + 1), job=Job("load", number))
    made.compact(*list(made.blocks.values())[:2])
    made.world.clock.sleep(1)
    made.table.tag("kept", version=3)
    made.told["tags"]["kept"] = 3
    made.note()
    made.append(rows(10, 11))
    made.world.clock.sleep(2 * 3600)
    made.append(rows(20, 21))
    made.world.clock.sleep(2 * 3600)
    made.append(rows(30, 31))
    log = Log(made.bucket, made.world)
    boundary = collect(log, made.world).boundary
    assert boundary == 7, boundary
    for version in (3, 8, 9):
        made.ask(version, version=version)
    made.ask(3, tag="kept")
    made.ask(9)
    for version in (1, 2, 4, 6, 7):
        made.refuse("version-expired", version=version)
    made.refuse("version-expired", as_of=made.states[7]["state"]["time"])
    made.ask(8, as_of=made.states[8]["state"]["time"])
    made.refuse("not-found", version=10)
    return made


def pinned() -> Oracle:
    """A tag on the version at the boundary: it is found by its number and by its time."""
    made = simple(8, properties={"history_retention": "1h"})
    made.append(rows(0, 1))
    made.world.clock.sleep(1)
    made.table.tag("edge", version=2)
    made.told["tags"]["edge"] = 2
    made.note()
    _two_hours_later(made, rows(1, 2))
    # Entry 3 is the youngest that may go over; the boundary stops where the tag's own version lies.
    log = Log(made.bucket, made.world)
    write_checkpoint(made.bucket, log.at(2))
    log.boundary.advance(2)
    made.ask(2, version=2)
    made.ask(2, as_of=made.states[2]["state"]["time"])
    made.ask(3, version=3)
    made.ask(4)
    made.refuse("version-expired", version=1)
    made.refuse("version-expired", as_of=made.states[1]["state"]["time"])
    return made


def watermarks() -> Oracle:
    """A role, a horizon, and a floor that forgets what was accounted for, but what is kept or live; uploads of a gateway too."""
    made = simple(9)
    upload = Job(f"gateway/job/input-{made.world.ids.ulid()}", 0)
    gone = [made.append(rows(0, 1)), made.append(rows(1, 2)), made.append(rows(2, 3))]
    made.append(rows(3, 4), job=upload)
    made.world.clock.sleep(1)
    made.commit(Operation.EXPIRE, remove=tuple(one.ulid for one in gone))
    made.note(remove=[one.ulid for one in gone])
    made.world.clock.sleep(1)
    unknown = made.world.ids.ulid()
    made.commit(Operation.REWRITE, account=(unknown,))
    made.accounted.add(unknown)
    made.note()
    made.world.clock.sleep(1)
    claim = made.world.ids.ulid()
    made.commit(Operation.EPOCH, epochs={"compactor": (1, claim)})
    made.told["epochs"] = {"compactor": [1, claim]}
    made.note()
    floor = ulid_at(made.world.clock.now_ms() - 2_500)
    made.world.clock.sleep(1)
    made.commit(Operation.HORIZON, horizon=floor)
    made.told["horizon"] = floor
    made.note()
    made.world.clock.sleep(1)
    kept = gone[1].ulid
    made.commit(Operation.HORIZON, floor=floor, keep=(kept,), requires=("uploads/0.2",))
    made.told |= {"floor": floor, "requires": ["chain/0.2", "uploads/0.2"]}
    made.told["batches"] = {}
    made.note(keep=[kept])
    made.append(rows(9, 10))
    write_checkpoint(made.bucket, Log(made.bucket, made.world).state)
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


def history_replaced() -> Oracle:
    """Entries of a writer that went on while an older copy was put back: void, alone, on top of each other, and at the end; one
    of an older release; and one whose list of sources went with its history."""
    made = simple(11)
    made.append(rows(0, 1))
    before = copy_of(made.bucket)
    stale = World(clock=made.world.clock, ids=Ids.seeded(made.world.clock, 99), pool=Serial())
    other = Table(made.bucket, stale, Log(made.bucket, stale))
    for number in range(5):
        other.append(pa.table({"id": [900 + number], "name": ["stale"]}))
    left = {number: made.bucket.get(entry_key(number)).data for number in range(3, 8)}
    put_back(made.bucket, before)
    made.append(rows(1, 2))
    for number in (4, 5):
        made.bucket.put(entry_key(number), left[number])
        made.note(void=True)
    made.append(rows(2, 3))
    write_checkpoint(made.bucket, Log(made.bucket, made.world).state)
    made.bucket.put(entry_key(7), left[7])
    made.note(void=True)
    made.append(rows(3, 4))
    _unchained(made, 9, {"add": []})
    block = json.loads(left[7])["add"][0]
    block["compaction"] |= {
        "level": 2,
        "sources": {"path": "sources.parquet", "count": 1_001, "sha256": "ab" * 32},
    }
    _unchained(made, 10, {"add": [block]})
    made.every()
    made.ask(10, as_of=made.time)
    made.ask(5, as_of=made.states[5]["state"]["time"])
    return made


def entry_edited() -> Oracle:
    """An entry in whose place another of the same commit lies: the one that was written on top of the first is void."""
    made = simple(13)
    made.append(rows(0, 1))
    made.world.clock.sleep(1)
    block = made.upload(rows(1, 2))
    made.commit(Operation.APPEND, add=[block])
    stale = World(clock=made.world.clock, ids=Ids.seeded(made.world.clock, 97), pool=Serial())
    Table(made.bucket, stale, Log(made.bucket, stale)).append(pa.table({"id": [900], "name": ["stale"]}))
    edited = made.entry(3) | {"message": "edited"}
    del edited["check"]
    made.bucket.put(entry_key(3), sealed(json.dumps(edited, separators=(",", ":")).encode()))
    made.note(add=[block])
    made.note(void=True)
    made.append(rows(2, 3))
    made.every()
    return made


def earlier_release() -> Oracle:
    """The golden table of release 0.1, whose entries name nothing, gone on with: chained from then on, and an entry of the old
    release after that is void."""
    made = Oracle(
        12,
        _v1_columns(),
        time_column="time",
        sort_by=["origin", "time"],
        labels={"cluster": "eu1"},
        indexed=False,
    )
    folder = Path(__file__).parent / "v1"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            made.bucket.put(str(path.relative_to(folder)), path.read_bytes())
    made.told["requires"] = []
    metas = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*/meta.json"))]
    first, second, merge, many = sorted(
        metas, key=lambda one: (one["compaction"]["level"], one["blockstore"]["revision"])
    )
    times = iter(range(1_700_000_000_000, 1_700_000_100_000, 1_000))

    def note(**said: object) -> None:
        made.world.clock.advance((next(times) - made.world.clock.now_ms()) / 1000)
        made.note(**said)  # type: ignore[arg-type]

    written = [_v1_block(first, FIRST), _v1_block(second, SECOND)]
    made.labels = {"cluster": "eu1"}
    note()
    made.told["batches"] = {"nightly": [17]}
    note(add=written[:1])
    note(add=written[1:])
    merged = Block(
        merge["ulid"],
        [row for one in written for row in one.rows],
        merge["compaction"]["sources"],
        2,
        made.labels,
    )
    note(add=[merged], remove=[one.ulid for one in written])
    listed = [f"01HF{number:022d}" for number in range(1_001)]
    adopted = Block(
        many["ulid"], [(listed[0], row) for _, row in written[0].rows], listed, 3, {"cluster": "us1"}
    )
    note(add=[adopted])
    merged.excepted = set(written[0].sources)
    note()
    made.told["tags"] = {"before": 4}
    note()
    made.told["epochs"] = {"compactor": [1, made.entry(8)["commit"]]}
    note()
    low = "01HF0000000000000000000000"
    made.told |= {"horizon": low, "floor": low}
    note()
    made.told["requires"] = ["chain/0.2"]
    made.definition = Log(made.bucket, made.world).state.definition
    made.append([row for _, row in written[0].rows[:1]])
    _unchained(made, 11, {})
    made.append([row for _, row in written[0].rows[1:2]])
    made.every()
    made.ask(4, tag="before")
    return made


def _v1_columns() -> list[tuple[str, pa.DataType, int]]:
    ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18]
    kinds = {"tags": pa.list_(pa.field("element", pa.string()))}
    return [
        (one.name, kinds.get(one.name, one.type), own) for one, own in zip(FIRST.schema, ids, strict=True)
    ]


def _v1_block(meta: dict[str, dict[str, object]], table: pa.Table) -> Block:
    names = table.column_names
    held = [dict(zip(names, row, strict=True)) for row in zip(*map(plain, table.columns), strict=True)]
    held.sort(key=lambda row: (row["origin"], row["time"]))
    sources: Sequence[str] = meta["compaction"]["sources"]  # type: ignore[assignment]
    # Its first block was written as chunks of two rows, each sorted by itself.
    if len(held) == 4:
        by_time = {row["time"]: row for row in held}
        times = plain(table.column("time"))
        held = [
            row
            for pair in (times[:2], times[2:])
            for row in sorted((by_time[t] for t in pair), key=lambda r: r["origin"])
        ]
    return Block(str(meta["ulid"]), [(sources[0], row) for row in held], list(sources), 1, {"cluster": "eu1"})


def _unchained(made: Oracle, number: int, fields: dict[str, object]) -> None:
    """An entry as an older release writes it, which knows no chain."""
    entry = {
        "format": 1,
        "id": number,
        "commit": made.world.ids.ulid(),
        "time": made.world.clock.now_ms() + 9,
        "operation": "append",
    }
    made.bucket.put(
        entry_key(number), sealed(json.dumps({**entry, **fields}, separators=(",", ":")).encode())
    )
    made.note(void=True)


def _two_hours_later(made: Oracle, more: list[dict[str, object]]) -> None:
    made.world.clock.sleep(2 * 3600)
    made.append(more)


def _change(
    made: Oracle, operation: str, where: str | None, *, keep: object, data: Sequence[dict] = ()
) -> None:  # type: ignore[type-arg]
    """A delete or an overwrite: what stays is told by ``keep``, and what the table answers must agree."""
    made.world.clock.sleep(1)
    new = (
        pa.table({"id": [row["id"] for row in data], "name": [row["name"] for row in data]}) if data else None
    )
    done = made.table.overwrite(new, where=where) if operation == "overwrite" else made.table.delete(where)
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
    return {ulid: replace(made.everything[ulid], excepted=set(one["excepted"])) for ulid, one in told.items()}

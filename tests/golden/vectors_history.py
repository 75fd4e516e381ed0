"""Tables with an index and what becomes of their history: collected, replaced, of an earlier
release, in a checkpoint alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from blockstore.format.block import Job
from blockstore.format.document import sealed
from blockstore.ids import Ids, ulid_at
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.names import entry_key
from blockstore.operations.tree import move_to_tree
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.golden.oracle import Block, Oracle
from tests.golden.plain import plain
from tests.golden.rows_v1 import FIRST, SECOND
from tests.golden.vectors_indexed import rows, simple
from tests.support.put_back import copy_of, put_back


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


def in_leaves() -> Oracle:
    """Checkpoints that are roots: the state at the boundary is in leaves alone, and so is that of a
    tag below it."""
    made = simple(8, properties={"history_retention": "1h"})
    for number in range(3):
        made.append(rows(number, number + 1), job=Job("load", number))
    move_to_tree(made.table.log, made.world)
    made.told["requires"] = ["chain/0.2", "tree/0.2"]
    made.note()
    made.compact(*list(made.blocks.values())[:2])
    made.world.clock.sleep(1)
    made.table.tag("kept", version=6)
    made.told["tags"]["kept"] = 6
    made.note()
    made.append(rows(10, 11))
    log = Log(made.bucket, made.world)
    write_checkpoint(made.bucket, log.poll(), lambda: log.reader.leaves)
    made.world.clock.sleep(2 * 3600)
    claim = made.world.ids.ulid()
    made.commit(Operation.EPOCH, epochs={"compactor": (1, claim)})
    made.told["epochs"] = {"compactor": [1, claim]}
    made.note()
    log.poll()
    write_checkpoint(made.bucket, log.poll(), lambda: log.reader.leaves)
    made.append(rows(20, 21))
    made.world.clock.sleep(2 * 3600)
    made.append(rows(30, 31))
    boundary = collect(log, made.world).boundary
    assert boundary == 9, boundary
    for version in (6, 10, 11):
        made.ask(version, version=version)
    made.ask(6, tag="kept")
    made.ask(11)
    for version in (1, 5, 7, 8, 9):
        made.refuse("version-expired", version=version)
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
    """A role, a horizon, and a floor that forgets what was accounted for, but what is kept or live;
    uploads of a gateway too."""
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


def history_replaced() -> Oracle:
    """Entries of a writer that went on while an older copy was put back: void, alone, on top of
    each other, and at the end; one of an older release; and one whose list of sources went with its
    history."""
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


def everything_in_a_checkpoint() -> Oracle:
    """Nothing but a checkpoint says what the table is: exceptions, labels, long lists, void
    entries, batches, roles, watermarks."""
    made = simple(14, labels={"cluster": "eu1"})
    writes = [made.append(rows(10 * n, 10 * n + 2), job=Job("nightly", n)) for n in (1, 2, 4)]
    made.append(rows(90, 91), labels={"cluster": "us1", "zone": "a"}, job=Job("stream/x", 6))
    made.world.clock.sleep(1)
    made.table.tag("early", version=3)
    made.told["tags"]["early"] = 3
    made.note()
    merged = made.compact(*writes[:2])
    made.world.clock.sleep(1)
    made.table.revert(writes[1].ulid)
    merged.excepted.add(writes[1].ulid)
    made.note()
    sources = [f"01HF7{number:021d}" for number in range(1_001)]
    made.world.clock.sleep(1)
    many = made.upload(
        [(sources[7], {"id": 70, "name": "many"})], level=2, sources=sources, own=False
    )
    made.commit(Operation.REWRITE, add=[many])
    made.note(add=[many])
    _unchained(made, made.version + 1, {})
    made.world.clock.sleep(1)
    made.commit(Operation.EXPIRE, remove=(writes[2].ulid,))
    made.note(remove=[writes[2].ulid])
    claim = made.world.ids.ulid()
    made.commit(Operation.EPOCH, epochs={"compactor/3": (1, claim)})
    made.told["epochs"] = {"compactor/3": [1, claim]}
    made.note()
    low = ulid_at(1_600_000_000_000)
    made.commit(Operation.HORIZON, horizon=low, floor=low)
    made.told |= {"horizon": low, "floor": low}
    made.note()
    log = Log(made.bucket, made.world)
    write_checkpoint(made.bucket, log.state)
    boundary = made.version
    made.append(rows(95, 96))
    log.poll()
    log.boundary.advance(boundary)
    made.bucket.delete([entry_key(number) for number in range(1, boundary + 1)])
    made.ask(made.version)
    made.ask(3, tag="early")
    made.refuse("version-expired", version=boundary)
    return made


def entry_edited() -> Oracle:
    """An entry in whose place another of the same commit lies: the one that was written on top of
    the first is void."""
    made = simple(13)
    made.append(rows(0, 1))
    made.world.clock.sleep(1)
    block = made.upload(rows(1, 2))
    made.commit(Operation.APPEND, add=[block])
    stale = World(clock=made.world.clock, ids=Ids.seeded(made.world.clock, 97), pool=Serial())
    Table(made.bucket, stale, Log(made.bucket, stale)).append(
        pa.table({"id": [900], "name": ["stale"]})
    )
    edited = made.entry(3) | {"message": "edited"}
    del edited["check"]
    made.bucket.put(entry_key(3), sealed(json.dumps(edited, separators=(",", ":")).encode()))
    made.note(add=[block])
    made.note(void=True)
    made.append(rows(2, 3))
    made.every()
    return made


def earlier_release() -> Oracle:
    """The golden table of release 0.1, whose entries name nothing, gone on with: chained from then
    on, and an entry of the old release after that is void."""
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
        many["ulid"],
        [(listed[0], row) for _, row in written[0].rows],
        listed,
        3,
        {"cluster": "us1"},
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
        (one.name, kinds.get(one.name, one.type), own)
        for one, own in zip(FIRST.schema, ids, strict=True)
    ]


def _v1_block(meta: dict[str, dict[str, object]], table: pa.Table) -> Block:
    names = table.column_names
    held = [
        dict(zip(names, row, strict=True)) for row in zip(*map(plain, table.columns), strict=True)
    ]
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
    return Block(
        str(meta["ulid"]), [(sources[0], row) for row in held], list(sources), 1, {"cluster": "eu1"}
    )


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

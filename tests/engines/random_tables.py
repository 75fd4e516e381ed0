"""Random tables, by all that changes one: appends, upserts, updates, deletes, reverts, merges, new
and renamed columns, labels, tags."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from tests.engines.forms import lines

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("part", pa.float64()),
        ("yes", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("money", pa.decimal128(12, 2)),
        ("raw", pa.binary()),
        ("many", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ("few", pa.list_(pa.int64())),
        ("inner", pa.struct([("x", pa.float32())])),
    ]
)
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
LABELS = {"site", "rack"}
TAGGED = {1: "first", 3: "then"}
"""The tags of a table, by the number of changes before them."""


def random_table(
    url: str,
    seed: int,
    *,
    labelled: bool = True,
    tagged: Callable[[bs.Table], object] = lambda table: None,
) -> bs.Table:
    """Make a table, with labels or without. Tags name two of its versions; ``tagged`` is called
    with the table at each of them."""
    random = Random(seed)
    kind = random.choice(["plain", "ids", "key"])
    table = bs.create(
        f"{Path(url)}?durable=false",
        schema=SCHEMA,
        key="id" if kind == "key" else (),
        row_ids=kind == "ids",
        sort_by=["id"],
        labels=random.choice([{}, {"site": "a"}]) if labelled else {},
    )
    writes: list[str] = []
    for step in range(random.randint(4, 9)):
        if step in TAGGED:
            table.tag(TAGGED[step])
            tagged(table)
        _change(random, table, kind, writes, labelled=labelled)
        if random.random() < 0.3:
            compact_once(table, Settings(tier_blocks=2))
    return table


def newest_in_iceberg(table: bs.Table) -> pa.Table:
    """The rows of the newest version, with the labels that only the versions with tags have as
    well: an export gives the newest schema all labels."""
    rows = table.snapshot().scan().to_table()
    taken = {name.lower() for name in rows.schema.names}
    for tag in TAGGED.values():
        for name in table.snapshot(tag=tag).snapshot.columns.labels:
            if name.lower() not in taken:
                rows = rows.append_column(name, pa.nulls(len(rows), pa.string()))
                taken.add(name.lower())
    return rows


def each_in_iceberg(table: bs.Table) -> list[list[str]]:
    """What engines must return, as lines: the newest rows, then those of each tag."""
    return [lines(rows) for rows in rows_in_iceberg(table)]


def rows_in_iceberg(table: bs.Table) -> list[pa.Table]:
    """The same as Arrow tables."""
    tagged = [table.snapshot(tag=tag).scan().to_table() for tag in TAGGED.values()]
    return [newest_in_iceberg(table), *tagged]


def _change(
    random: Random, table: bs.Table, kind: str, writes: list[str], *, labelled: bool
) -> None:
    labels = random.choice([None, None, {"site": "b"}, {"rack": "7"}])
    labels = labels if labelled else None
    rows = _rows(random, table.definition.schema)
    what = random.choice(["write", "write", "write", "delete", "update", "alter", "revert"])
    if what == "delete":
        table.delete(f"id < {random.randint(0, 8)}")
    elif what == "update" and kind != "plain":
        table.update({"part": random.random()}, where=f"id > {random.randint(0, 30)}")
    elif what == "alter" and "renamed" not in table.definition.schema.names:
        table.alter(rename={"text": "renamed"}, add=[pa.field("fresh", pa.string())])
    elif what == "revert" and kind == "plain" and writes:
        table.revert(writes.pop(random.randrange(len(writes))))
    elif kind == "key":
        table.upsert(rows, labels=labels)
    else:
        ulid = table.append(rows, labels=labels).ulid
        assert ulid is not None
        writes.append(ulid)


def _rows(random: Random, schema: pa.Schema) -> pa.Table:
    rows = [_row(random, key) for key in random.sample(range(40), random.randint(1, 15))]
    if "renamed" in schema.names:
        for row in rows:
            row["renamed"] = row.pop("text")
            row["fresh"] = random.choice([None, "new"])
    return pa.Table.from_pylist(rows, schema)


def _row(random: Random, key: int) -> dict[str, Any]:
    def or_null(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    return {
        "id": key,
        "small": or_null(random.randint(-5, 5)),
        "text": or_null(random.choice(["", "ä", "x" * 70])),
        "part": or_null(random.choice([0.0, -1.5, 1e300])),
        "yes": or_null(random.random() < 0.5),
        "at": or_null(START + dt.timedelta(microseconds=random.randint(0, 10**12))),
        "day": or_null(dt.date(2024, 1, 1 + random.randint(0, 27))),
        "money": or_null(Decimal(random.randint(-1000, 1000)) / 100),
        "raw": or_null(random.choice([b"", b"\x00\xff"])),
        # PyIceberg 0.12 reads a null list of structs as an empty one.
        "many": [{"a": random.randint(0, 3), "b": or_null("b")}][: random.randint(0, 1)],
        "few": or_null([random.randint(0, 3)] * random.randint(0, 2)),
        "inner": or_null({"x": or_null(0.5)}),
    }

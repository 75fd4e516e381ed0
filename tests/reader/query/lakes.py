"""Tables for the query tests: every kind of chunk that a plan can hold, in a folder, in memory or
anywhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.view import TableSnapshot
from tests.blockstore.scan.tables import Lake, row

NARROW = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
    ]
)


def lake(bucket: Bucket | None = None) -> Lake:
    """A table whose blocks differ in all that a reader must level out: schema, labels, exceptions,
    merges, overlaps."""
    made = Lake(bucket, Definition.create(NARROW, time_column="time", sort_by=["n"]))
    first = made.append(rows(0, 40))
    made.append(rows(40, 90), chunks=3)
    hidden = made.write(rows(90, 100))
    made.commit(hidden, excepted=[hidden.ulid])
    made.append(rows(100, 120), labels={"cluster": "eu1"})
    merged = made.write(
        [
            {**one, "_source": source}
            for one, source in zip(rows(120, 160), alternating(), strict=True)
        ],
        sources=SOURCES,
    )
    made.commit(merged, excepted=[SOURCES[1]])
    made.definition = evolve(
        made.definition, add=[pa.field("extra", pa.int64())], widen={"n": pa.int64()}
    )
    made.append([{**one, "extra": place} for place, one in enumerate(rows(160, 220))], chunks=2)
    overlap = made.write(
        [
            {**one, "extra": 1, "_source": source}
            for one, source in zip(rows(220, 260), alternating(), strict=True)
        ],
        sources=SOURCES,
    )
    made.list_only(overlap, frozenset([SOURCES[2]]))
    assert first
    return made


SOURCES = [f"01J000000000000000000000{number:02}" for number in range(10, 14)]


def alternating() -> list[str]:
    return [SOURCES[place % 4] for place in range(40)]


def rows(start: int, end: int) -> list[dict[str, Any]]:
    """Rows of every odd kind: nulls, NaN, negative zero, quotes, the empty string."""
    found = []
    for number in range(start, end):
        one = row(number / 10, number - 100)
        del one['a.b "ü"']
        odd = {0: None, 1: float("nan"), 2: -0.0, 3: float("inf")}
        one["f"] = odd.get(number % 11, number / 4 - 20)
        one["s"] = {0: None, 1: "", 2: "it's"}.get(number % 9, f"s{number % 13}")
        one["n"] = None if number % 17 == 0 else one["n"]
        found.append(one)
    return found


def snapshot_of(made: Lake) -> TableSnapshot:
    return TableSnapshot(bucket=made.bucket, world=made.world, snapshot=made.snapshot())


def everything(
    snapshot: TableSnapshot, columns: list[str] | None = None, where: str | None = None
) -> pa.Table:
    """All rows, by the reference executor."""
    plan = plan_scan(snapshot.snapshot, columns=columns, where=where)
    return read_plan(snapshot.bucket, plan, snapshot.world).read_all()

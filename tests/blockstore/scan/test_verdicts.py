"""The verdict on each block of a snapshot is what the plan does with the block."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.scan.plan import plan_scan
from blockstore.scan.verdicts import Verdict, verdicts

SCHEMA = pa.schema([("time", pa.timestamp("ms")), ("n", pa.int64()), ("s", pa.string())])


def rows(dice: random.Random, part: int) -> pa.Table:
    size = dice.randrange(1, 20)
    return pa.table(
        {
            "time": pa.array([part * 1000 + dice.randrange(1000) for _ in range(size)], pa.int64()),
            "n": [dice.randrange(100) for _ in range(size)],
            "s": [dice.choice("abc") for _ in range(size)],
        }
    ).cast(SCHEMA)


CONDITIONS = [
    None,
    "n > 90",
    "n < 0",
    "time >= '1970-01-01T00:00:05'",
    "site = 'x'",
    "site = 'x' AND n = 3",
    "time < '1970-01-01T00:00:03' AND s = 'b'",
    "NOT (n BETWEEN 10 AND 90)",
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("where", CONDITIONS)
def test_what_is_said_to_be_read_is_the_plan_and_the_reasons_are_those_it_counts(
    tmp_path: Path, seed: int, where: str | None
) -> None:
    dice = random.Random(seed)
    table = bs.create(f"{tmp_path}/t?durable=false", schema=SCHEMA, time_column="time")
    writes = [
        table.append(rows(dice, part), labels={"site": dice.choice("xy")}) for part in range(8)
    ]
    table.revert(dice.choice(writes).ulid)
    snapshot = table.snapshot().snapshot
    plan = plan_scan(snapshot, where=where)
    found = list(verdicts(snapshot, plan))
    assert len(found) == len(snapshot)
    read = {one.ulid for one in found if one.verdict is Verdict.READ}
    assert read == {chunk.block for chunk in plan.chunks}
    assert sum(one.chunks_read for one in found) == len(plan.chunks)
    assert sum(one.bytes_read for one in found) == plan.bytes
    counts = Counter(one.verdict for one in found)
    assert counts[Verdict.TIME] == plan.pruned.blocks_by_time
    assert counts[Verdict.LABELS] == plan.pruned.blocks_by_labels
    assert counts[Verdict.HIDDEN] >= plan.pruned.blocks_excepted


def test_changes_of_rows_are_read_whatever_the_condition_is(tmp_path: Path) -> None:
    table = bs.create(
        f"{tmp_path}/t?durable=false",
        schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        key=["id"],
    )
    table.upsert(pa.table({"id": [1, 2], "n": [1, 2]}))
    table.upsert(pa.table({"id": [2], "n": [9]}))
    snapshot = table.snapshot().snapshot
    found = list(verdicts(snapshot, plan_scan(snapshot, where="id = 1")))
    assert {one.verdict for one in found} == {Verdict.READ}

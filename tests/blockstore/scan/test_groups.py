"""Row groups that cannot hold rows of a scan are left out, and no other."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.format.evolution import evolve
from blockstore.scan import plan_scan, read_plan
from blockstore.scan.groups import judge_groups
from tests.blockstore.scan.tables import Lake, row


@pytest.fixture
def lake() -> Lake:
    """One chunk of three row groups of two rows: n is 0 to 5, s null in the last two."""
    lake = Lake()
    lake.group_rows = 2
    rows = [
        row(n, n, None if n > 3 else "abcd"[n], odd=float("nan") if n == 0 else 1.0)
        for n in range(6)
    ]
    lake.append(rows, labels={"cluster": "eu1"})
    return lake


def judged(lake: Lake, where: str) -> list[bool] | None:
    plan = plan_scan(lake.snapshot(), where=where)
    (chunk,) = plan.chunks
    judge = judge_groups(plan, chunk)
    if judge is None:
        return None
    data = lake.bucket.get(chunk.key).data
    return list(judge(pq.ParquetFile(pa.BufferReader(data))))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n = 2", [False, True, False]),
        ("n >= 1 AND n < 3", [True, True, False]),
        ("n = 0 OR n = 5", [True, False, True]),
        ("n IN (0, 1, 4)", [True, False, True]),
        ("s > 'b'", [False, True, False]),
        ("s IS NULL", [False, False, True]),
        ("time < '2013-01-01 14:00:00'", [True, False, False]),
        ("n = 2 AND cluster = 'eu1'", [False, True, False]),
        ("n = 2 OR cluster <> 'eu1'", [True, True, True]),
        ("n = 2 OR _row_id = 1000", [True, True, True]),
        ('n = 2 OR "a.b ""ü""" = 0.5', [True, True, True]),
    ],
)
def test_what_the_bounds_exclude_is_left_out_and_what_is_not_known_stays(
    lake: Lake, where: str, expected: list[bool]
) -> None:
    assert judged(lake, where) == expected


def test_a_condition_on_labels_and_hidden_columns_alone_judges_no_group(lake: Lake) -> None:
    assert judged(lake, "_row_id = 1000") is None


def test_positions_count_over_groups_that_are_left_out(lake: Lake) -> None:
    plan = plan_scan(lake.snapshot(), columns=["n", "_row_id"], where="n = 1 OR n = 5")
    rows = read_plan(lake.bucket, plan, lake.world).read_all().to_pylist()
    assert rows == [{"n": 1, "_row_id": 1001}, {"n": 5, "_row_id": 1005}]


def test_groups_of_an_older_schema_are_judged_by_their_own(lake: Lake) -> None:
    lake.definition = evolve(
        lake.definition, add=[pa.field("late", pa.int8())], widen={"n": pa.int64()}
    )
    assert judged(lake, "n = 5") == [False, False, True]
    assert judged(lake, "n = 5 OR late IS NULL") == [True, True, True]
    assert judged(lake, "n = 5 OR n = 5000000000") == [False, False, True]

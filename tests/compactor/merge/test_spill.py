"""Runs on the work disk: they read back as they were written, and their files go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.compactor.merge.order import RowOrder
from blockstore.compactor.merge.run import TableRun, Unsorted
from blockstore.compactor.merge.spill import spill, spill_sorted
from blockstore.compactor.merge.stage import Stage
from blockstore.world import Serial
from tests.compactor.merge.tables import keyed_runs, sort_stable
from tests.support.examples import few

quick = settings(
    max_examples=few(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def stage(path: Path) -> Stage:
    return Stage(MemoryBucket(ManualClock()), path / "work", whole_bytes=0)


def read_all(run: object, goal_bytes: int) -> list[int]:
    rows: list[int] = []
    while (table := run.read(goal_bytes)) is not None:  # type: ignore[attr-defined]
        rows += table["row"].to_pylist()
    return rows


@quick
@given(keyed_runs(), st.integers(1, 5000))
def test_runs_spilled_into_one_read_back_in_order_between_their_bounds(
    tmp_path: Path, case: tuple[list[str], list[pa.Table]], goal_bytes: int
) -> None:
    keys, tables = case
    order, tables = RowOrder(keys), [sort_stable(table, keys) for table in tables]
    runs = [TableRun(table) for table in tables]
    whole = sort_stable(pa.concat_tables(tables), keys)
    found = spill(
        runs, order, whole.schema, stage(tmp_path), "run", run_bytes=100, pool=Serial(), lanes=1
    )
    if whole.num_rows:
        assert found.floor == order.key(whole, 0)[0]
        assert found.ceiling == order.key(whole, whole.num_rows - 1)[0]
    assert read_all(found, goal_bytes) == whole["row"].to_pylist()
    assert found.exhausted
    found.close()
    assert list((tmp_path / "work").iterdir()) == []


@quick
@given(keyed_runs(max_runs=1), st.integers(1, 500))
def test_an_unsorted_run_becomes_sorted_ones_with_the_same_rows(
    tmp_path: Path, case: tuple[list[str], list[pa.Table]], part_bytes: int
) -> None:
    keys, [table] = case
    run = TableRun(table, rows=3)
    parts = spill_sorted(
        run, RowOrder(keys), table.schema, stage(tmp_path), "run", part_bytes=part_bytes
    )
    rows = [read_all(part, 1000) for part in parts]
    position = {row: place for place, row in enumerate(sort_stable(table, keys)["row"].to_pylist())}
    for part in rows:
        assert [position[row] for row in part] == sorted(position[row] for row in part)
    assert sorted(row for part in rows for row in part) == sorted(table["row"].to_pylist())


def test_a_spill_that_fails_leaves_no_file(tmp_path: Path) -> None:
    wild = TableRun(pa.table({"k": [2, 1], "row": [0, 1]}))
    schema = pa.schema([("k", pa.int64()), ("row", pa.int64())])
    with pytest.raises(Unsorted):
        spill(
            [wild],
            RowOrder(["k"]),
            schema,
            stage(tmp_path),
            "run",
            run_bytes=100,
            pool=Serial(),
            lanes=1,
        )
    assert list((tmp_path / "work").iterdir()) == []

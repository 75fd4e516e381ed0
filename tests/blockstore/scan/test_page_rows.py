"""No row of a scan is outside of the rows that its pages leave; of sorted columns little more is
left."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.scan import page_rows as module
from blockstore.scan import plan_scan, read_plan
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.page_rows import PagedColumn, matching_rows, read_pages
from blockstore.scan.plan import ScanPlan
from tests.blockstore.predicate.conditions import SCHEMA, conditions, tables
from tests.blockstore.scan.tables import Lake, row
from tests.support.examples import few


def in_pages_of(rows: pa.Table, page_rows: int) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows, sink, max_rows_per_page=page_rows, write_batch_size=page_rows, write_page_index=True
    )
    return pa.BufferReader(sink.getvalue())


def left(plan: ScanPlan, chunk: ScanChunk, rows: pa.Table, page_rows: int) -> range:
    """What the chunk's pages leave, if it held its rows so."""
    file = in_pages_of(rows, page_rows)

    def pages_of(asked: ScanChunk, column: pa.Field) -> PagedColumn | None:
        assert asked is chunk
        return read_pages(pq.ParquetFile(file), file, column)

    return matching_rows(plan, chunk, pages_of)


@settings(max_examples=few(100), deadline=None)
@given(tables(), conditions(), st.integers(1, 3))
def test_no_matching_row_lies_outside(rows: pa.Table, condition: str, page_rows: int) -> None:
    lake = Lake(definition=Definition.create(SCHEMA))
    lake.append(rows.to_pylist())
    asked = plan_scan(lake.snapshot(), columns=["_row_id"], where=condition)
    ids = read_plan(lake.bucket, asked, lake.world).read_all()["_row_id"].to_pylist()
    matching = [id_ - 1000 for id_ in ids]
    plan = plan_scan(lake.snapshot(), where=condition)
    for chunk in plan.chunks:
        window = left(plan, chunk, rows, page_rows)
        assert 0 <= window.start <= window.stop <= len(rows)
        assert set(matching) <= set(window)


@pytest.fixture
def lake() -> Lake:
    """One chunk of six rows: n is 0 to 5, s null in the last two."""
    lake = Lake()
    lake.append(ROWS, labels={"cluster": "eu1"})
    return lake


ROWS = [row(n, n, None if n > 3 else "abcd"[n]) for n in range(6)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n = 2", range(2, 4)),
        ("n BETWEEN 1 AND 2", range(4)),
        ("n >= 2 AND n <> 3", range(2, 6)),
        ("time > '2013-01-01 13:30:00' AND time < '2013-01-01 13:45:00'", range(0)),
        ("n = 0 OR n = 5", range(6)),
        ("n IN (3, 4)", range(2, 6)),
        ("s = 'c'", range(2, 6)),
        ("time < '2013-01-01 13:59:00' AND n >= 1", range(2)),
        ("n = 2 AND cluster = 'eu1'", range(2, 4)),
        ("n = 2 OR cluster <> 'eu1'", range(6)),
        ("_row_id = 1003", range(3, 4)),
        ("n = 5 OR n IS NULL", range(6)),
    ],
)
def test_what_the_bounds_exclude_at_either_end_is_left_out(
    lake: Lake, where: str, expected: range
) -> None:
    plan = plan_scan(lake.snapshot(), where=where)
    assert (
        left(plan, plan.chunks[0], pa.Table.from_pylist(ROWS, lake.definition.schema), 2)
        == expected
    )


def test_where_every_row_matches_no_page_is_asked(lake: Lake) -> None:
    plan = plan_scan(lake.snapshot(), where="n >= 0")
    assert matching_rows(
        plan, plan.chunks[0], lambda *_: pytest.fail("the chunk is certain")
    ) == range(6)


def test_a_column_is_found_under_the_chunk_s_own_name_and_type(lake: Lake) -> None:
    stored = lake.definition.schema
    lake.definition = evolve(
        lake.definition, add=[pa.field("late", pa.int8())], widen={"n": pa.int64()}
    )
    plan = plan_scan(lake.snapshot(), where="n = 5 AND late IS NULL")
    assert left(plan, plan.chunks[0], pa.Table.from_pylist(ROWS, stored), 2) == range(4, 6)


def test_pages_are_arrays_over_the_whole_file() -> None:
    rows = pa.table({"n": range(7)})
    file = in_pages_of(rows, 3)
    pages = read_pages(pq.ParquetFile(file), file, rows.schema.field("n"))
    assert pages is not None
    assert np.array_equal(pages.upto, [0, 3, 6, 7])
    assert pages.ranges.low.tolist() == [0, 3, 6]
    assert pages.ranges.high.tolist() == [2, 5, 6]


def test_a_column_of_too_many_pages_or_of_long_texts_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = pa.table({"n": range(7), "s": ["x" * 100] * 7})
    file = in_pages_of(rows, 3)
    parquet = pq.ParquetFile(file)
    assert read_pages(parquet, file, rows.schema.field("s")) is not None
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 599)
    assert read_pages(parquet, file, rows.schema.field("s")) is None
    assert read_pages(parquet, file, rows.schema.field("n")) is not None
    monkeypatch.setattr(module, "_MOST_PAGES", 2)
    assert read_pages(parquet, file, rows.schema.field("n")) is None

"""The statistics of row groups hold for every value in them; what Parquet leaves open has none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format.row_groups import row_group_statistics
from blockstore.format.statistics import collect
from tests.blockstore.format.test_chunk_statistics import ROWS, SCHEMA, table
from tests.support.examples import few

BOUNDED = {"i8", "i64", "text.with.dots", "date", "ns"}


def file_of(rows: pa.Table, group_rows: int = 1_000, **options: object) -> pq.ParquetFile:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=group_rows, **options)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


@settings(max_examples=few(40), deadline=None)
@given(ROWS, st.integers(1, 3))
def test_they_equal_those_of_every_value_of_the_group(
    rows: list[tuple[object, ...]], group_rows: int
) -> None:
    whole = table(rows)
    found = row_group_statistics(file_of(whole, group_rows), SCHEMA)
    position = 0
    for count, stats in found:
        assert set(stats) == BOUNDED
        assert stats == collect(whole.slice(position, count), sorted(BOUNDED))
        position += count
    assert position == len(rows)


def test_a_part_of_a_nested_column_is_not_taken_for_a_plain_one() -> None:
    rows = pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": [7, 8], "c": [3, 4]})
    parquet = file_of(rows)
    ((_, stats),) = row_group_statistics(parquet, rows.schema)
    assert set(stats) == {"c"}
    assert (
        set(
            row_group_statistics(parquet, [pa.field("a.b", pa.int32()), pa.field("x", pa.int64())])[
                0
            ][1]
        )
        == set()
    )


def test_bounds_in_another_unit_than_the_type_s_are_not_told() -> None:
    rows = pa.table({"t": pa.array([1_000, 2_000], pa.timestamp("us"))})
    assert row_group_statistics(file_of(rows), rows.schema)[0][1]["t"].min == 1_000
    for options in ({"coerce_timestamps": "ms"}, {"use_deprecated_int96_timestamps": True}):
        parquet = file_of(rows, **options)
        for field in (rows.schema.field("t"), parquet.schema_arrow.field("t")):
            stats = row_group_statistics(parquet, [field])[0][1]
            assert not stats or (field.type.unit == "ms" and stats["t"].min == 1)


def test_without_statistics_nothing_is_told() -> None:
    rows = pa.table({"n": [1, 2]})
    assert row_group_statistics(file_of(rows, write_statistics=False), rows.schema) == [(2, {})]

"""A chunk's statistics out of its Parquet footer equal those found by looking at every value."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format.chunk_statistics import ChunkStatistics, StatisticsPlan
from blockstore.format.definition import Definition
from blockstore.format.statistics import collect
from tests.support.examples import few

INT64 = st.integers(-(2**63), 2**63 - 1)
SECONDS = st.integers(-(10**12), 10**12)
TYPES = {
    "nested": (
        pa.struct([("x", pa.int8()), ("y", pa.list_(pa.map_(pa.string(), pa.int8())))]),
        st.none(),
    ),
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i64": (pa.int64(), INT64),
    "u8": (pa.uint8(), st.integers(0, 255)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "text.with.dots": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=70)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "fixed": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "decimal": (
        pa.decimal128(38, 2),
        st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    "small_decimal": (
        pa.decimal128(7, 2),
        st.integers(-(10**6), 10**6).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    "date": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "s": (pa.timestamp("s", "UTC"), SECONDS),
    "ns": (pa.timestamp("ns"), INT64),
    "time32": (pa.time32("s"), st.integers(0, 86_399)),
    "time64": (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    "duration": (pa.duration("ms"), INT64),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in TYPES.items()])
DEFINITION = Definition.create(SCHEMA, time_column="s")
PLAN = StatisticsPlan.of(DEFINITION)
ROWS = st.lists(
    st.tuples(*(values | st.none() for _, values in TYPES.values())), min_size=1, max_size=4
)


def gathered(tables: list[pa.Table], *, only: bool, group_rows: int) -> ChunkStatistics:
    """The statistics of tables written into one file."""
    footers: list[pq.FileMetaData] = []
    statistics = ChunkStatistics(PLAN)
    with pq.ParquetWriter(
        pa.BufferOutputStream(), DEFINITION.schema, metadata_collector=footers
    ) as writer:
        for table in tables:
            statistics.add(table, only=only)
            writer.write_table(table, row_group_size=group_rows)
    statistics.finish(footers[0])
    return statistics


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    """Rows under the schema of this file."""
    columns = [
        pa.array(list(column), kind)
        for column, (kind, _) in zip(zip(*rows, strict=True), TYPES.values(), strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=DEFINITION.schema)


@settings(max_examples=few(40), deadline=None)
@given(ROWS, st.integers(1, 3))
def test_they_equal_those_of_every_value(rows: list[tuple[object, ...]], group_rows: int) -> None:
    whole = table(rows)
    expected = collect(whole, PLAN.shown)
    assert gathered([whole], only=True, group_rows=group_rows).columns() == expected
    pieces = [whole.slice(0, 1), whole.slice(1)]
    assert gathered(pieces, only=False, group_rows=group_rows).columns() == expected


@pytest.mark.parametrize("only", [True, False])
def test_texts_too_long_for_parquets_statistics_have_bounds(only: bool) -> None:
    values = ["b", "z" * 5000, None, "a" * 4000]
    rows = [
        tuple(value if name == "text.with.dots" else None for name in TYPES) for value in values
    ]
    for group_rows in (1, 4):
        found = gathered([table(rows)], only=only, group_rows=group_rows).columns()[
            "text.with.dots"
        ]
        assert (found.min, found.max, found.nulls) == ("a" * 64, "z" * 63 + "{", 1)


def test_the_range_of_the_time_column_is_exact() -> None:
    rows = [tuple(value if name == "s" else None for name in TYPES) for value in (-7, 10**12, 3)]
    assert gathered([table(rows)], only=True, group_rows=9).times() == (-7, 10**12)


def test_text_that_is_not_utf8_has_no_bounds() -> None:
    definition = Definition.create(pa.schema([pa.field("a", pa.string())]))
    rows = pa.table(
        {"a": pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())},
        schema=definition.schema,
    )
    footers: list[pq.FileMetaData] = []
    statistics = ChunkStatistics(StatisticsPlan.of(definition))
    with pq.ParquetWriter(
        pa.BufferOutputStream(), definition.schema, metadata_collector=footers
    ) as writer:
        statistics.add(rows, only=True)
        writer.write_table(rows)
    statistics.finish(footers[0])
    assert statistics.columns() == collect(rows, ["a"])
    assert statistics.times() is None


def test_nans_are_counted_and_never_a_bound() -> None:
    rows = [
        tuple(value if name == "f64" else None for name in TYPES) for value in (math.nan, 1.0, None)
    ]
    found = gathered([table(rows)], only=True, group_rows=1).columns()["f64"]
    assert (found.min, found.max, found.nulls, found.nans) == (1.0, 1.0, 1, 1)

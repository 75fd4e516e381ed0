"""A column has one type in SQL: that which DuckDB gives it when it reads the file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.errors import Invalid
from blockstore.format.types import canonical_type
from blockstore.reader.query.sql.types import quoted, sql_type, text

KINDS = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(4), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"),
    pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "America/New_York"), pa.timestamp("ns", "UTC"),
    pa.decimal128(10, 2), pa.decimal128(38, 10), pa.duration("us"), pa.list_(pa.timestamp("ms", "UTC")), pa.list_(pa.int32(), 3),
    pa.struct([('a"b', pa.int32()), ("c", pa.list_(pa.string()))]), pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_type_is_the_one_that_the_file_has(tmp_path: Path, kind: pa.DataType) -> None:
    stored = canonical_type(kind, "x")
    pq.write_table(pa.table({"x": pa.nulls(1, stored)}), tmp_path / "x.parquet")
    with duckdb.connect() as connection:
        read = connection.sql(f"SELECT * FROM read_parquet('{tmp_path}/x.parquet')").types
        named = connection.sql(f"SELECT CAST(NULL AS {sql_type(stored)}) AS x").types
    assert [str(one) for one in read] == [str(one) for one in named]


def test_a_type_that_sql_cannot_hold_is_refused() -> None:
    with pytest.raises(Invalid, match="SQL cannot read"):
        sql_type(pa.decimal256(60, 2))


def test_names_and_texts_are_escaped() -> None:
    assert quoted('a"b') == '"a""b"'
    assert text("it's") == "'it''s'"

"""Schemas: a type that both a table and Spark have maps both ways; the rest is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from blockstore.errors import Invalid
from blockstore.format.schema import canonical
from blockstore.spark.types import arrow_schema, batch_schema, native_can_read, spark_schema

EVERY = st.StructType(
    [
        st.StructField("flag", st.BooleanType()),
        st.StructField("i8", st.ByteType()),
        st.StructField("i16", st.ShortType()),
        st.StructField("i32", st.IntegerType()),
        st.StructField("i64", st.LongType()),
        st.StructField("f32", st.FloatType()),
        st.StructField("f64", st.DoubleType()),
        st.StructField("text", st.StringType()),
        st.StructField("bytes", st.BinaryType()),
        st.StructField("day", st.DateType()),
        st.StructField("instant", st.TimestampType()),
        st.StructField("local", st.TimestampNTZType()),
        st.StructField("money", st.DecimalType(38, 10)),
        st.StructField("list", st.ArrayType(st.ArrayType(st.LongType()))),
        st.StructField("map", st.MapType(st.StringType(), st.DecimalType(5, 2))),
        st.StructField(
            "struct", st.StructType([st.StructField("x", st.MapType(st.LongType(), st.DateType()))])
        ),
    ]
)


def test_every_spark_type_that_a_table_holds_comes_back_as_itself() -> None:
    assert spark_schema(canonical(arrow_schema(EVERY))) == EVERY


def test_spark_reads_natively_what_it_wrote() -> None:
    assert [
        field.name for field in canonical(arrow_schema(EVERY)) if not native_can_read(field.type)
    ] == []


def test_not_null_in_spark_is_no_promise_of_the_table() -> None:
    schema = st.StructType([st.StructField("a", st.LongType(), nullable=False)])
    assert arrow_schema(schema).field("a").nullable
    assert canonical(arrow_schema(schema)).field("a").metadata is None


def test_metadata_of_ours_goes_with_the_column_and_foreign_metadata_stays() -> None:
    metadata = {"blockstore.unit": "dollars", "comment": "what was paid", "ml_attr": {"x": 1}}
    schema = st.StructType([st.StructField("a", st.LongType(), True, metadata)])
    arrow = arrow_schema(schema)
    assert arrow.field("a").metadata == {
        b"blockstore.unit": b"dollars",
        b"comment": b"what was paid",
    }
    assert spark_schema(arrow)["a"].metadata == {
        "blockstore.unit": "dollars",
        "comment": "what was paid",
    }


@pytest.mark.parametrize(
    "kind",
    [
        st.NullType(),
        st.DayTimeIntervalType(),
        st.YearMonthIntervalType(),
        st.VariantType(),
        st.ArrayType(st.CalendarIntervalType()),
        st.MapType(st.StringType(), st.VariantType()),
        st.StructType([st.StructField("x", st.NullType())]),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_a_spark_type_that_no_table_holds_is_refused_with_its_column(kind: st.DataType) -> None:
    with pytest.raises(Invalid, match="column 'odd' has Spark type"):
        arrow_schema(st.StructType([st.StructField("odd", kind)]))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.uint8(), st.ShortType()),
        (pa.uint32(), st.LongType()),
        (pa.uint64(), st.DecimalType(20, 0)),
        (pa.timestamp("ns", "UTC"), st.TimestampType()),
        (pa.timestamp("s"), st.TimestampNTZType()),
        (pa.binary(4), st.BinaryType()),
        (pa.list_(pa.float32(), 3), st.ArrayType(st.FloatType())),
        (pa.time64("us"), st.TimeType()),
    ],
    ids=str,
)
def test_a_type_that_spark_lacks_is_read_as_one_that_holds_its_values(
    kind: pa.DataType, expected: st.DataType
) -> None:
    assert spark_schema(pa.schema([("a", kind)]))["a"].dataType == expected
    assert not native_can_read(pa.timestamp("ns"))


def test_a_column_that_spark_has_no_type_for_is_named_with_the_way_out() -> None:
    with pytest.raises(Invalid, match=r"column 'wait' has type duration\[us\].*option\('columns'"):
        spark_schema(pa.schema([("wait", pa.duration("us"))]))


def test_batches_for_spark_carry_instants_in_utc() -> None:
    assert batch_schema(st.StructType([st.StructField("t", st.TimestampType())])).field(
        "t"
    ).type == pa.timestamp("us", "UTC")

"""Batches for Spark: its schema to the letter, and no value changes on the way."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.spark.reading.batches import conform


def test_columns_come_by_name_in_sparks_order_and_types() -> None:
    batch = pa.record_batch(
        {
            "extra": pa.array([1]),
            "t": pa.array([1000], pa.timestamp("ms", "America/New_York")),
            "l": pa.array([[1]], pa.list_(pa.field("item", pa.int64()))),
            "s": pa.array(["x"]).dictionary_encode(),
        }
    )
    schema = pa.schema(
        [
            ("s", pa.string()),
            ("l", pa.list_(pa.field("element", pa.int64()))),
            ("t", pa.timestamp("us", "UTC")),
        ]
    )
    found = conform(batch, schema)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.schema.field("l").type.value_field.name == "element"
    assert found.to_pydict()["t"] == batch.to_pydict()["t"]


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        (
            pa.array([1001], pa.timestamp("ns")),
            pa.timestamp("us"),
            "column 'a'.*contains nanoseconds",
        ),
        (pa.array([2**40]), pa.int32(), "column 'a'.*contains values"),
    ],
    ids=["nanoseconds", "range"],
)
def test_a_value_that_spark_cannot_hold_is_refused_by_name(
    column: pa.Array, kind: pa.DataType, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        conform(pa.record_batch({"a": column}), pa.schema([("a", kind)]))


def test_a_double_that_no_float_holds_is_refused() -> None:
    narrow = pa.schema([("a", pa.float32())])
    held = conform(
        pa.record_batch({"a": pa.array([0.5, None, float("nan"), -0.0, float("inf")])}), narrow
    )
    assert str(held["a"].to_pylist()) == "[0.5, None, nan, -0.0, inf]"
    for value in (0.1, 1e300):
        with pytest.raises(Invalid, match="column 'a' of type double contains values"):
            conform(pa.record_batch({"a": pa.array([value])}), narrow)


def test_a_null_where_none_may_be_is_an_error_and_no_other_value() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    whole = pa.record_batch({"a": pa.array([1, 2]), "b": pa.array([None, 2])})
    assert conform(whole, schema).to_pydict() == {"a": [1, 2], "b": [None, 2]}
    with pytest.raises(Invalid, match=r"column 'a' is declared not null and contains 1 nulls"):
        conform(pa.record_batch({"a": pa.array([1, None]), "b": pa.array([1, 2])}), schema)

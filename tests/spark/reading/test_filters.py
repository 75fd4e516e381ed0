"""Conditions between Spark and Blockstore: a filter that is taken means the same on both sides."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds

from blockstore.predicate.nodes import FALSE, TRUE, Column, Compare, IsNull, Node, OneOf, Op, Prefix
from blockstore.predicate.parse import parse
from blockstore.spark.reading.filters import from_spark, has_counterpart
from blockstore.spark.types import quoted

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("money", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.int64())),
    ]
)


def column(name: str) -> Column:
    return Column(name, SCHEMA.field(name).type)


@pytest.mark.parametrize(
    ("filter_", "node"),
    [
        (ds.GreaterThan(("n",), 5), Compare(column("n"), Op.GT, 5)),
        (ds.Not(ds.EqualTo(("n",), 3)), Compare(column("n"), Op.NE, 3)),
        (ds.Not(ds.LessThan(("f",), 1.5)), Compare(column("f"), Op.GE, 1.5)),
        (ds.IsNull(("list",)), IsNull(column("list"))),
        (ds.IsNotNull(("s",)), IsNull(column("s"), negated=True)),
        (ds.EqualNullSafe(("s",), None), IsNull(column("s"))),
        (ds.EqualNullSafe(("s",), "q"), Compare(column("s"), Op.EQ, "q")),
        (ds.StringStartsWith(("s",), "ab"), Prefix(column("s"), "ab")),
        (
            ds.LessThan(("money",), Decimal("3.20")),
            Compare(column("money"), Op.LT, Decimal("3.20")),
        ),
        (ds.EqualTo(("d",), dt.date(1970, 1, 2)), Compare(column("d"), Op.EQ, 86_400_000_000_000)),
        (
            ds.GreaterThan(
                ("t",), dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
            ),
            Compare(column("t"), Op.GT, 0),
        ),
        (ds.Not(ds.In(("n",), (1, None))), FALSE),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_filter_with_a_counterpart_is_taken(filter_: ds.Filter, node: Node) -> None:
    assert from_spark([filter_], SCHEMA).node == node


@pytest.mark.parametrize(
    "filter_",
    [
        ds.StringEndsWith(("s",), "ab"),
        ds.StringContains(("s",), "ab"),
        ds.Not(ds.StringStartsWith(("s",), "ab")),
        ds.EqualTo(("struct", "x"), 1),
        ds.EqualTo(("unknown",), 1),
        ds.EqualTo(("f",), float("nan")),
        ds.Not(ds.EqualNullSafe(("n",), 1)),
        ds.EqualTo(("list",), [1]),
    ],
    ids=repr,
)
def test_a_filter_without_one_is_left_to_spark(filter_: ds.Filter) -> None:
    assert from_spark([filter_], SCHEMA).node == TRUE


def test_filters_are_a_conjunction_and_a_strange_one_costs_only_itself() -> None:
    taken = from_spark([ds.StringContains(("s",), "x"), ds.GreaterThan(("n",), 5)], SCHEMA)
    assert taken.node == Compare(column("n"), Op.GT, 5)


def test_a_null_in_a_list_matches_no_row() -> None:
    assert from_spark([ds.In(("n",), (7, None))], SCHEMA).node == OneOf(column("n"), (7,))


def test_a_column_name_with_backticks_reads_back() -> None:
    assert quoted("a`b.c") == "`a``b.c`"


@pytest.mark.parametrize(
    ("condition", "sayable"),
    [
        ("n > 1 AND s LIKE 'a%'", True),
        ("t >= TIMESTAMP '2024-01-01 00:00:00.000001'", True),
        ("t >= TIMESTAMP '2024-01-01 00:00:00.000000001'", False),
        ("n IS NULL OR t = TIMESTAMP '2024-01-01 00:00:00.000000001'", False),
    ],
)
def test_whether_spark_can_say_it_is_known_without_asking_spark(
    condition: str, sayable: bool
) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("ns", "UTC"))])
    assert has_counterpart(parse(condition, schema).node) is sayable

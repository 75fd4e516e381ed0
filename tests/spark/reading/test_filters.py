"""Conditions of Blockstore as Spark columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.predicate.parse import parse
from blockstore.spark.reading.filters import has_counterpart
from blockstore.spark.types import quoted


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

"""Values that must survive the way through Spark and back, and the rows of a small table of
flights."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession

__all__ = ["EVERY_TYPE", "FLIGHTS", "every_type", "flights", "values"]

UTC = dt.UTC
EVERY_TYPE = (
    "id long, flag boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f32 float, f64 double, "
    "text string, "
    "bytes binary, day date, instant timestamp, local timestamp_ntz, money decimal(38,10), small "
    "decimal(5,2), "
    "list array<array<bigint>>, map map<string,decimal(5,2)>, struct "
    "struct<x:map<bigint,date>,y:timestamp>"
)
FLIGHTS = "origin string, at timestamp, delay int"


def every_type(session: SparkSession) -> DataFrame:
    """Rows with the least, the greatest, null, NaN, daylight saving and the years before 1970."""
    nothing = (None,) * 17
    low = (
        False, -(2**7), -(2**15), -(2**31), -(2**63), float("nan"), float("-inf"), "", b"",
        dt.date(1, 1, 2), dt.datetime(1883, 11, 18, 3, 4, 5, 6, tzinfo=UTC), dt.datetime(1, 1, 2,
        0, 0, 0, 1),
        Decimal("-9999999999999999999999999999.9999999999"), Decimal("-999.99"),
        [], {}, {"x": {}, "y": None},
    )  # fmt: skip
    high = (
        True, 2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1, 1.5, float("nan"),
        "ü\x00'\"\n€", bytes(range(256)),
        dt.date(9999, 12, 30), dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC), dt.datetime(9999, 12,
        30, 23, 59, 59, 999999),
        Decimal("9999999999999999999999999999.9999999999"), Decimal("999.99"),
        [[1, None], None, []], {"a": Decimal("1.50"), "b": None}, {"x": {7: dt.date(1969, 7, 20)},
        "y": dt.datetime(1969, 7, 20, tzinfo=UTC)},
    )  # fmt: skip
    gap = (*high[:10], dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC), *high[11:])
    rows = [(i, *row) for i, row in enumerate((nothing, low, high, gap))]
    return session.createDataFrame(rows, EVERY_TYPE)


def flights(session: SparkSession, *rows: tuple[str, int, int], day: int = 1) -> DataFrame:
    """Flights of one day of January 2024: origin, hour, delay."""
    return session.createDataFrame(
        [
            (origin, dt.datetime(2024, 1, day, hour, tzinfo=UTC), delay)
            for origin, hour, delay in rows
        ],
        FLIGHTS,
    )


def values(df: DataFrame) -> list[str]:
    """The rows of a DataFrame as sorted text, in which NaN equals NaN."""
    return sorted(repr(_plain(row.asDict(recursive=True))) for row in df.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(one) for key, one in sorted(value.items(), key=lambda pair: repr(pair[0]))
        }
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return bytes(value) if isinstance(value, bytearray) else value

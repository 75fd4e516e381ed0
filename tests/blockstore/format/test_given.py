"""Values of callers: stored as they are, or refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from blockstore.format.given import array_of, cast

INTS = pa.int64()
NOON = dt.datetime(2020, 1, 1, 12)
DAY = dt.datetime(2020, 1, 1)
FRACTION = dt.datetime(2020, 1, 1, 0, 0, 0, 900_000)
NANO = pd.Timestamp("2020-01-01T00:00:00.000000005")
EAST = dt.timezone(dt.timedelta(hours=5))

LOST: list[tuple[Any, pa.DataType]] = [
    ([1, 1.5], INTS),
    ([2**60 + 1, None, 0.5], INTS),
    ([Decimal("2.9")], INTS),
    ([np.float64(1.5)], pa.uint8()),
    ([np.array(1.5)], INTS),
    (np.array([1.5], dtype=object), INTS),
    (np.array([1.5]), INTS),
    (pd.Series([Decimal("1.5"), None]), INTS),
    ([[1, None, 1.5]], pa.list_(INTS)),
    ([np.array([1.5])], pa.list_(INTS)),
    ([[1.5, 2]], pa.list_(INTS, 2)),
    ([{"a": [{"b": 1.5}]}], pa.struct({"a": pa.list_(pa.struct({"b": INTS}))})),
    ([{"k": 1.5}], pa.map_(pa.string(), INTS)),
    ([[(1.5, "k")]], pa.map_(INTS, pa.string())),
    ([1.5], pa.dictionary(pa.int32(), INTS)),
    ([1e39], pa.float32()),
    (np.array([1e39]), pa.float32()),
    ([65520.0], pa.float16()),
    ([NOON], pa.date32()),
    ([dt.date(2020, 1, 1), NOON], pa.date64()),
    ([NOON.replace(tzinfo=EAST)], pa.date32()),
    (np.array(["2020-01-01T15"], dtype="M8[ms]"), pa.date32()),
    ([FRACTION], pa.timestamp("s")),
    ([FRACTION.replace(microsecond=900_001)], pa.timestamp("ms", "UTC")),
    ([NANO], pa.timestamp("us")),
    ([DAY, NANO], pa.timestamp("us")),
    ([5.5], pa.timestamp("us")),
    ([dt.time(1, 2, 3, 5)], pa.time32("ms")),
    ([dt.time(1, tzinfo=EAST)], pa.time64("us")),
    ([dt.timedelta(seconds=1, microseconds=5)], pa.duration("ms")),
    ([pd.Timedelta(1001, "ns")], pa.duration("us")),
]

KEPT: list[tuple[Any, pa.DataType, list[Any]]] = [
    ([1, None, 2.0, Decimal("3.0"), np.int8(4)], INTS, [1, None, 2, 3, 4]),
    (pd.Series([1.0, None]), INTS, [1, None]),
    (pd.Series([1, None], dtype="Int64"), INTS, [1, None]),
    ([0.5, float("inf"), None], pa.float32(), [0.5, float("inf"), None]),
    ([0.1], pa.float32(), [float(np.float32(0.1))]),
    ([DAY, dt.date(2020, 1, 2)], pa.date32(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
    (pd.Series(pd.to_datetime(["2020-01-01", None])), pa.date32(), [dt.date(2020, 1, 1), None]),
    ([DAY, FRACTION], pa.timestamp("ms"), [DAY, FRACTION]),
    ([dt.time(1, 2, 3, 5_000)], pa.time32("ms"), [dt.time(1, 2, 3, 5_000)]),
    ([dt.timedelta(milliseconds=5)], pa.duration("ms"), [dt.timedelta(milliseconds=5)]),
    ([[1, 2.0], None, []], pa.list_(INTS), [[1, 2], None, []]),
    ([{"a": 1.0}, {}, None], pa.struct({"a": INTS}), [{"a": 1}, {"a": None}, None]),
    ([pa.scalar(1)], INTS, [1]),
]

CUT: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([1.5]), INTS),
    (pa.array([None, NOON]), pa.date32()),
    (pa.array([NOON], pa.timestamp("ns", "UTC")), pa.date64()),
    (pa.array([DAY], pa.timestamp("us", "+05:00")), pa.date32()),
    (pa.array([[NOON]]), pa.list_(pa.date32())),
    (pa.array([{"a": NOON}]), pa.struct({"a": pa.date32()})),
    (pa.array([NOON]), pa.time64("us")),
    (pa.array([1e39]), pa.float32()),
    (pa.array([1e39]).dictionary_encode(), pa.float32()),
    (pa.array(["1e39"]), pa.float32()),
    (pa.array([Decimal(10**60)]), pa.float32()),
]


@pytest.mark.parametrize(("values", "kind"), LOST, ids=str)
def test_a_value_that_would_lose_something_is_refused(values: Any, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        array_of(values, kind)


def test_a_value_of_a_generator_that_would_lose_something_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        array_of((one for one in [1.5]), INTS)


@pytest.mark.parametrize(("values", "kind", "expected"), KEPT, ids=str)
def test_a_value_that_loses_nothing_is_taken(
    values: Any, kind: pa.DataType, expected: list[Any]
) -> None:
    found = array_of(values, kind)
    assert found.type == kind
    assert found.to_pylist() == expected


@pytest.mark.parametrize(("values", "kind"), CUT, ids=str)
def test_a_cast_that_would_lose_something_is_refused(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        cast(values, kind)


def test_a_cast_that_loses_nothing_is_done() -> None:
    assert cast(pa.array([None, DAY]), pa.date32()).to_pylist() == [None, DAY.date()]
    assert cast(pa.array([0.5, float("inf")]), pa.float32()).to_pylist() == [0.5, float("inf")]
    assert cast(pa.array(["inf", "0.5"]), pa.float32()).to_pylist() == [float("inf"), 0.5]
    assert cast(pa.array(["7"]), INTS).to_pylist() == [7]

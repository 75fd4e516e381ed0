"""By what a merge matches rows, and which rows it may not replace."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.table import Table
from tests.blockstore.rows.lake import by_id, by_key, seen

NEW_YEAR = datetime(2024, 1, 1)
SAME_VALUE = [
    pytest.param(pa.timestamp("us"), NEW_YEAR, pa.timestamp("ns"), id="finer times"),
    pytest.param(pa.timestamp("us"), NEW_YEAR, pa.timestamp("s"), id="coarser times"),
    pytest.param(
        pa.timestamp("us", "UTC"),
        NEW_YEAR.replace(tzinfo=UTC),
        pa.timestamp("ns", "Europe/Berlin"),
        id="times of another zone",
    ),
    pytest.param(pa.decimal128(10, 2), Decimal("1.5"), pa.decimal128(2, 1), id="decimals"),
    pytest.param(pa.decimal128(10, 2), 3, pa.int64(), id="integers as decimals"),
    pytest.param(pa.int32(), 3, pa.int64(), id="integers"),
]
NO_SUCH_VALUE = [
    pytest.param(pa.int32(), 1, pa.int64(), [2**40, 1], id="integers"),
    pytest.param(pa.uint64(), 1, pa.int64(), [-1, 1], id="negative integers"),
    pytest.param(
        pa.timestamp("ms"),
        NEW_YEAR,
        pa.timestamp("us"),
        [NEW_YEAR.replace(microsecond=5), NEW_YEAR],
        id="times",
    ),
    pytest.param(
        pa.decimal128(3, 1),
        Decimal("1.5"),
        pa.decimal128(10, 2),
        [Decimal("1.55"), Decimal("1.50"), Decimal("12345678.00")],
        id="decimals",
    ),
    pytest.param(pa.int64(), 1, pa.string(), ["one", "1"], id="texts"),
]


def having(kind: pa.DataType, value: Any, *, key: Any = None, **more: Any) -> Table:
    """A table with one row, ('x', the value, 1)."""
    schema = pa.schema([("d", pa.string()), ("t", kind), ("n", pa.int64())])
    table = by_id(schema=schema) if key is None else by_key(schema=schema, key=key, **more)
    table.append(of(kind, value, n=1)) if key is None else table.upsert(of(kind, value, n=1))
    return table


def of(kind: pa.DataType, *values: Any, n: int) -> pa.Table:
    count = len(values)
    return pa.table({"d": ["x"] * count, "t": pa.array(values, kind), "n": [n] * count})


@pytest.mark.parametrize("isolation", [None, "serializable"])
@pytest.mark.parametrize("on", [["t"], ["d", "t"], ["t", "d"]])
@pytest.mark.parametrize("key", [None, "t", ["d", "t"]])
@pytest.mark.parametrize(("kind", "value", "given"), SAME_VALUE)
def test_a_value_of_another_type_matches(
    kind: pa.DataType, value: Any, given: pa.DataType, key: Any, on: list[str], isolation: Any
) -> None:
    table = having(kind, value, key=key)
    merge = table.merge(of(given, value, n=2), on=on, isolation=isolation)
    did = merge.when_matched_update({"n": "source.n"}).when_not_matched_insert().execute()
    assert (did.updated, did.inserted) == (1, 0)
    assert seen(table, "n") == [{"n": 2}]


def test_a_value_of_another_type_matches_with_a_label() -> None:
    table = by_key(schema=pa.schema([("t", pa.timestamp("us")), ("n", pa.int64())]), key="t")
    one = pa.array([NEW_YEAR], pa.timestamp("ns"))
    table.upsert(pa.table({"t": one, "n": [1]}), labels={"site": "x"})
    source = pa.table({"site": ["x"], "t": one, "n": [2]})
    did = table.merge(source, on=["site", "t"]).when_matched_update().execute()
    assert (did.updated, seen(table, "n")) == (1, [{"n": 2}])


@pytest.mark.parametrize("isolation", [None, "serializable"])
@pytest.mark.parametrize("on", [["t"], ["d", "t"]])
@pytest.mark.parametrize(("kind", "value", "given", "values"), NO_SUCH_VALUE)
def test_a_value_that_the_column_cannot_have_matches_nothing(
    kind: pa.DataType,
    value: Any,
    given: pa.DataType,
    values: list[Any],
    on: list[str],
    isolation: Any,
) -> None:
    table = having(kind, value, key=on)
    merge = table.merge(of(given, *values, n=2), on=on, isolation=isolation)
    did = merge.when_matched_update({"n": "source.n"}).execute()
    assert (did.updated, seen(table, "n")) == (1, [{"n": 2}])


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        (pa.timestamp("us", "UTC"), NEW_YEAR.replace(tzinfo=UTC), pa.timestamp("us")),
        (pa.timestamp("us"), NEW_YEAR, pa.timestamp("us", "UTC")),
        (pa.binary(), b"x", pa.int64()),
    ],
)
@pytest.mark.parametrize("on", [["t"], ["d", "t"]])
def test_types_that_cannot_be_compared_are_refused(
    kind: pa.DataType, value: Any, given: pa.DataType, on: list[str]
) -> None:
    table = having(kind, value, key=on)
    source = of(given, 1, n=2)
    with pytest.raises(Invalid, match="the merge is on 't', which is .* cannot be compared"):
        table.merge(source, on=on).when_matched_update({"n": "source.n"}).execute()

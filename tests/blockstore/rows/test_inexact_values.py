"""A value that is not one of its column names no row, and is not stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.predicate import parse_filters
from blockstore.table import Table
from tests.blockstore.rows.lake import by_id, by_key, seen

NUMBERS = pa.schema(
    [("n", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("s")), ("f", pa.float32())]
)
NOON = datetime(2020, 1, 1, 12)
CUT = r"data loss|lose data|truncated"


def numbered() -> Table:
    table = by_id(schema=NUMBERS)
    table.append(pa.Table.from_pylist([{"n": one} for one in range(4)], schema=NUMBERS))
    return table


def keyed(kind: pa.DataType, value: Any) -> Table:
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = by_key(schema=schema, key="k")
    table.upsert(pa.Table.from_pylist([{"k": value, "v": 1}], schema=schema))
    return table


def merged(table: Table, values: dict[str, Any]) -> None:
    source = pa.table({"_row_id": [0]})
    table.merge(source, on="_row_id").when_matched_update(set=values).execute()


BY_ID: dict[str, Callable[[Table], Any]] = {
    "delete": lambda table: table.delete_rows([2.9]),
    "delete of numpy": lambda table: table.delete_rows(np.array([0.9])),
    "cells": lambda table: table.set_cells([{"_row_id": 1.7, "n": 99}]),
    "a delete among cells": lambda table: table.set_cells([], delete=[{"_row_id": 1.7}]),
    "fetch": lambda table: table.fetch([(0.5, 2)]),
    "fetch of a version": lambda table: table.fetch([(0, 2.5)]),
    "history": lambda table: table.row_history(0.5),
}


@pytest.mark.parametrize("how", BY_ID)
def test_a_row_id_with_a_fraction_is_no_row(how: str) -> None:
    table = numbered()
    with pytest.raises(bs.Invalid, match="would cause data loss"):
        BY_ID[how](table)
    assert [row["n"] for row in seen(table)] == [0, 1, 2, 3]


KEYS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "a number": (pa.int64(), 1, 1.5),
    "a decimal": (pa.int64(), 1, Decimal("1.5")),
    "a moment for a day": (pa.date32(), date(2020, 1, 1), NOON),
    "a fraction": (pa.timestamp("s"), NOON, NOON.replace(microsecond=900_000)),
}


@pytest.mark.parametrize(("kind", "there", "named"), KEYS.values(), ids=list(KEYS))
def test_another_key_names_no_row(kind: pa.DataType, there: Any, named: Any) -> None:
    table = keyed(kind, there)
    for do in (
        lambda: table.delete_rows([named]),
        lambda: table.delete_rows(pa.table({"k": pa.array([named])})),
        lambda: table.set_cells([{"k": named, "v": 7}]),
        lambda: table.row_history(named),
    ):
        with pytest.raises(bs.Invalid, match=CUT):
            do()
    assert seen(table) == [{"k": there, "v": 1}]


def test_a_float_that_would_be_rounded_names_no_decimal() -> None:
    table = keyed(pa.decimal128(10, 2), Decimal("1.10"))
    with pytest.raises(bs.Invalid, match="round them"):
        table.delete_rows(pa.table({"k": [1.104]}))
    assert len(seen(table)) == 1
    table.delete_rows(pa.table({"k": [1.1]}))
    assert seen(table) == []


def test_a_key_of_nanoseconds_names_no_row_of_microseconds() -> None:
    nano = pd.Timestamp("2020-01-01T12:00:00.000000005")
    table = keyed(pa.timestamp("us"), NOON)
    with pytest.raises(bs.Invalid, match="would cause data loss"):
        table.delete_rows([nano])
    columns = table.definition.schema
    assert seen(table, where=parse_filters([("k", "=", nano)], columns)) == []
    assert seen(table, where=parse_filters([("k", "<", nano)], columns)) == [{"k": NOON, "v": 1}]


def test_a_condition_with_a_fraction_meets_no_whole_number() -> None:
    table = numbered()
    for where in ("n = 1.5", "n in (1.5)", pc.field("n") == 1.5, pc.field("n").isin([1.5])):
        assert seen(table, where=where) == []


CELLS: dict[str, tuple[str, Any]] = {
    "a fraction": ("n", 1.5),
    "a decimal": ("n", Decimal("2.9")),
    "a moment": ("day", NOON),
    "a part of a second": ("at", NOON.replace(microsecond=999_999)),
    "a large number": ("f", 1e39),
}


@pytest.mark.parametrize(("name", "value"), CELLS.values(), ids=list(CELLS))
def test_a_value_is_stored_as_it_is_or_not_at_all(name: str, value: Any) -> None:
    table = numbered()
    before = seen(table)
    for do in (
        lambda: table.set_cells([{"_row_id": 0, name: value}]),
        lambda: table.update({name: value}),
        lambda: table.update({name: lambda rows: [value] * rows.num_rows}),
        lambda: table.update({name: lambda rows: pa.array([value] * rows.num_rows)}),
        lambda: merged(table, {name: value}),
    ):
        with pytest.raises(bs.Invalid, match=CUT):
            do()
    assert seen(table) == before


def test_whole_floats_and_rounded_fractions_are_values() -> None:
    table = numbered()
    table.update({"n": 2.0, "f": 0.1})
    table.set_cells([{"_row_id": 0, "n": Decimal("7.00"), "day": datetime(2020, 1, 1)}])
    (row,) = seen(table, where="n = 7")
    assert (row["n"], row["day"]) == (7, date(2020, 1, 1))
    assert row["f"] == float(np.float32(0.1))

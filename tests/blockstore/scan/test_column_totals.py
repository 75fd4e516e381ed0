"""What is known of columns without reading them agrees with what reading them finds."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.scan.column_totals import BINS, totals

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("price", pa.decimal128(20, 3)),
        ("s", pa.string()),
        ("none", pa.int32()),
        ("odd", pa.list_(pa.int64())),
    ]
)


def rows(dice: random.Random) -> list[dict[str, object]]:
    return [
        {
            "n": dice.choice([None, dice.randrange(-(2**62), 2**62)]),
            "x": dice.choice([None, math.nan, dice.uniform(-5, 5)]),
            "price": Decimal(dice.randrange(-1000, 1000)) / 8,
            "s": dice.choice([None, "a", "zz", "é"]),
            "none": None,
            "odd": [1],
        }
        for _ in range(dice.randrange(1, 40))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_bounds_nulls_and_bins_are_those_of_the_rows(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    table = bs.create(f"{tmp_path}/t?durable=false", schema=SCHEMA)
    every: list[dict[str, object]] = []
    for _ in range(5):
        some = rows(dice)
        table.append(pa.Table.from_pylist(some, SCHEMA))
        every += some
    gone = [{**one, "n": 0} for one in rows(dice)]
    hidden = table.append(pa.Table.from_pylist(gone, SCHEMA))
    table.revert(hidden.ulid)
    found = totals(table.snapshot().snapshot)
    assert found.rows == len(every)
    columns = {one.name: one for one in found.columns}
    assert set(columns) == {"n", "x", "price", "s", "none"}
    for name, column in columns.items():
        values = [row[name] for row in every if row[name] is not None]
        real = [one for one in values if not (isinstance(one, float) and math.isnan(one))]
        assert column.nulls == len(every) - len(values)
        assert column.nans == len(values) - len(real)
        assert (column.low, column.high) == (
            (min(real), max(real)) if real else (None, None)  # type: ignore[type-var]
        )
        if name in ("n", "x", "price"):
            assert sum(column.bins) == len(real)
            assert len(column.bins) == BINS
        else:
            assert column.bins == ()


def test_one_value_is_one_bin_and_few_whole_numbers_have_one_each(tmp_path: Path) -> None:
    schema = pa.schema([("one", pa.float64()), ("few", pa.int64()), ("far", pa.float64())])
    table = bs.create(f"{tmp_path}/t?durable=false", schema=schema)
    for few in (1, 2, 3, 3):
        table.append(pa.table({"one": [2.5], "few": [few], "far": [math.inf]}, schema))
    found = {one.name: one for one in totals(table.snapshot().snapshot).columns}
    assert found["one"].bins == (4,)
    assert found["few"].bins == (1, 1, 2)
    assert found["far"].bins == ()


def test_labels_are_counted_by_their_values(tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/t?durable=false", schema=pa.schema([("n", pa.int64())]))
    for rows_, labels in ((2, {"site": "a"}), (3, {"site": "b"}), (1, {}), (2, {"site": "a"})):
        table.append(pa.table({"n": list(range(rows_))}), labels=labels)
    assert totals(table.snapshot().snapshot).labels == {"site": {"a": 4, "b": 3, None: 1}}

"""Numbers of an INSERT become those of the table, or are refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.rows.numbers import with_numbers


def written(values: list[Any], found: pa.DataType, wanted: pa.DataType) -> list[Any]:
    batch = pa.record_batch([pa.array(values, found)], names=["n"])
    taken = with_numbers(batch, pa.schema([("n", wanted), ("other", pa.string())]))
    assert taken.schema.field("n").type == wanted
    return taken.column("n").to_pylist()


@pytest.mark.parametrize(
    ("values", "found", "wanted", "becomes"),
    [
        ([5, None], pa.int32(), pa.int16(), [5, None]),
        ([3], pa.int32(), pa.decimal128(10, 2), [Decimal("3.00")]),
        ([2**63 - 1], pa.int64(), pa.decimal128(19, 0), [Decimal(2**63 - 1)]),
        ([Decimal("1.5")], pa.decimal128(2, 1), pa.float64(), [1.5]),
        ([Decimal("0.1")], pa.decimal128(1, 1), pa.float64(), [0.1]),
        ([Decimal("2.0")], pa.decimal128(2, 1), pa.int64(), [2]),
        ([2.25], pa.float64(), pa.decimal128(10, 2), [Decimal("2.25")]),
        ([0.5, None, math.inf], pa.float64(), pa.float32(), [0.5, None, math.inf]),
        ([2.0], pa.float64(), pa.int32(), [2]),
        ([2**53], pa.int64(), pa.float64(), [2.0**53]),
    ],
)
def test_a_number_that_the_type_has_is_taken(
    values: list[Any], found: pa.DataType, wanted: pa.DataType, becomes: list[Any]
) -> None:
    assert written(values, found, wanted) == becomes


def test_nan_stays() -> None:
    (found,) = written([math.nan], pa.float64(), pa.float32())
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("value", "found", "wanted"),
    [
        (70_000, pa.int32(), pa.int16()),
        (-1, pa.int32(), pa.uint8()),
        (2**53 + 1, pa.int64(), pa.float64()),
        (10**8, pa.int32(), pa.decimal128(10, 2 + 1)),
        (0.1, pa.float64(), pa.float32()),
        (1e300, pa.float64(), pa.float32()),
        (1.5, pa.float64(), pa.int32()),
        (math.nan, pa.float64(), pa.int32()),
        (math.nan, pa.float64(), pa.decimal128(10, 2)),
        (2.255, pa.float64(), pa.decimal128(10, 2)),
        (Decimal("2.5"), pa.decimal128(2, 1), pa.int32()),
        (Decimal("2.25"), pa.decimal128(3, 2), pa.decimal128(10, 1)),
        (Decimal("16777217"), pa.decimal128(8, 0), pa.float32()),
        (Decimal("0.99999999"), pa.decimal128(8, 8), pa.float32()),
    ],
)
def test_a_number_that_the_type_lacks_is_refused(
    value: Any, found: pa.DataType, wanted: pa.DataType
) -> None:
    with pytest.raises(Invalid, match="'n'"):
        written([value], found, wanted)

"""What Parquet does not hold as it is, is found: at any depth, and only in what is written."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from blockstore.format.storable import is_limited, not_storable
from tests.support.long_decimals import long_decimals

NARROW = pa.decimal128(5, 2)
GOOD, BAD = "999.99", "99999.00"
PAIRS = pa.struct([("k", NARROW), ("n", pa.int64())])


def pairs(values: pa.Array, **options: object) -> pa.Array:
    return pa.StructArray.from_arrays(
        [values, pa.array(range(len(values)))], fields=list(PAIRS), **options
    )


@pytest.mark.parametrize("bad", ["1000.00", "-1000.00", "99999.00", "-83886.00"])
def test_a_value_of_more_digits_is_found(bad: str) -> None:
    assert (
        not_storable(long_decimals([GOOD, None, bad, "-999.99"], NARROW))
        == f"{bad}, which has more digits than decimal128(5, 2)"
    )


def test_what_fits_is_not_found() -> None:
    assert not_storable(long_decimals([GOOD, None, "-999.99"], NARROW)) is None
    assert not_storable(pa.nulls(3, NARROW)) is None
    assert not_storable(pa.array([], NARROW)) is None


def test_the_greatest_number_of_38_digits_fits() -> None:
    greatest = Decimal("9" * 38)
    assert not_storable(pa.array([greatest, greatest.copy_negate()], pa.decimal128(38, 0))) is None


NESTED = {
    "list": (pa.ListArray.from_arrays([0, 1, 1, 3], long_decimals([GOOD, "1", BAD], NARROW)), 2),
    "fixed list": (
        pa.FixedSizeListArray.from_arrays(long_decimals([GOOD, "1", BAD, "2"], NARROW), 2),
        1,
    ),
    "struct": (pairs(long_decimals([GOOD, BAD, "1"], NARROW)), 1),
    "map key": (
        pa.MapArray.from_arrays(
            [0, 1, 2], long_decimals([GOOD, BAD], NARROW), pa.array(["a", "b"])
        ),
        1,
    ),
    "map item": (
        pa.MapArray.from_arrays(
            [0, 1, 2], pa.array(["a", "b"]), long_decimals([GOOD, BAD], NARROW)
        ),
        1,
    ),
    "list of structs": (
        pa.ListArray.from_arrays([0, 2, 3], pairs(long_decimals([GOOD, "1", BAD], NARROW))),
        1,
    ),
}


@pytest.mark.parametrize(("array", "row"), NESTED.values(), ids=NESTED.keys())
def test_nested_decimals_are_looked_at_and_only_those_of_the_rows_asked_for(
    array: pa.Array, row: int
) -> None:
    assert is_limited(array.type)
    assert not_storable(array).startswith(BAD)
    assert not_storable(array.slice(0, row)) is None
    assert not_storable(array.slice(row)).startswith(BAD)
    assert not_storable(array.slice(row + 1)) is None


HIDDEN = {
    "null struct": pairs(long_decimals([BAD, "1"], NARROW), mask=pa.array([True, False])),
    "null list": pa.ListArray.from_arrays(
        [0, 1, 2], long_decimals([BAD, "1"], NARROW), mask=pa.array([True, False])
    ),
    "null map": pa.MapArray.from_arrays(
        [0, 1, 2], long_decimals([BAD, "1"], NARROW), pa.array([1, 2]), mask=pa.array([True, False])
    ),
}


@pytest.mark.parametrize("array", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_lies_under_a_null_is_not_written_and_not_looked_at(array: pa.Array) -> None:
    assert not_storable(array) is None


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.time32("s")], ids=str
)
def test_seconds_that_are_no_milliseconds_are_found(kind: pa.DataType) -> None:
    whole = pa.int64() if kind.bit_width == 64 else pa.int32()
    most = (2 ** (kind.bit_width - 1) - 1) // 1000
    assert not_storable(pa.array([most, None, -most], whole).view(kind)) is None
    for beyond in (
        most + 1,
        -most - 1,
        2 ** (kind.bit_width - 1) - 1,
        -(2 ** (kind.bit_width - 1)),
    ):
        found = not_storable(pa.array([0, None, beyond], whole).view(kind))
        assert str(found).startswith(f"{beyond} seconds")


def test_other_types_have_no_such_values() -> None:
    for kind in (
        pa.int64(),
        pa.float64(),
        pa.timestamp("ms"),
        pa.list_(pa.string()),
        pa.struct([("n", pa.int8())]),
    ):
        assert not is_limited(kind)

"""A number becomes a decimal of a type with all its digits, or not at all."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.decimals import exactly


@st.composite
def kinds(draw: st.DrawFn) -> pa.DataType:
    precision = draw(st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


@given(kinds(), st.data())
def test_a_number_is_taken_exactly_or_refused(kind: pa.DataType, data: st.DataObject) -> None:
    digits, places = data.draw(st.integers(-(10**45), 10**45)), data.draw(st.integers(-45, 45))
    number = Decimal((int(digits < 0), Decimal(abs(digits)).as_tuple().digits, -places))
    whole, rest = divmod(abs(digits) * 10 ** (kind.scale + 45), 10 ** (places + 45))
    if rest or whole >= 10**kind.precision:
        with pytest.raises(ValueError, match=f"at most {kind.precision} digits"):
            exactly(kind)(number)
        return
    assert pa.array([exactly(kind)(number)], kind)[0].as_py() == number


@pytest.mark.parametrize(
    "number", ["NaN", "sNaN", "Infinity", "-Infinity", "1e999999999", "1e-999999999"]
)
def test_what_no_decimal_can_be_is_refused_at_once(number: str) -> None:
    with pytest.raises(ValueError, match="at most 38 digits"):
        exactly(pa.decimal128(38, 10))(Decimal(number))


def test_zero_is_zero_however_it_is_written() -> None:
    for number in ("0e921", "-0e-921", "0.000"):
        assert exactly(pa.decimal128(5, 2))(Decimal(number)) == 0

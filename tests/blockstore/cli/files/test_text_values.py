"""A text becomes a value of its column's type exactly, or not at all."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.cli.files.text_values import converted, first_bad


@st.composite
def numbers(draw: st.DrawFn) -> tuple[pa.DataType, str]:
    precision = draw(st.integers(1, 38))
    kind = pa.decimal128(precision, draw(st.integers(0, precision)))
    whole = draw(st.text("0123456789", min_size=1, max_size=40))
    places = draw(st.one_of(st.just(""), st.text("0123456789", max_size=45).map(".{}".format)))
    exponent = draw(st.one_of(st.just(""), st.integers(-60, 60).map("e{}".format)))
    return kind, draw(st.sampled_from(["", "-", "+"])) + whole + places + exponent


@given(numbers())
def test_a_decimal_is_read_exactly_or_refused(drawn: tuple[pa.DataType, str]) -> None:
    kind, text = drawn
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    scaled, rest = divmod(number * 10**200, 10 ** (200 - exponent - kind.scale))
    if rest or scaled >= 10**kind.precision:
        with pytest.raises(pa.ArrowInvalid):
            converted(pa.array([None, text]), kind)
        return
    assert converted(pa.array([None, text]), kind).to_pylist() == [None, Decimal(text)]
    assert sign == 0 or text.startswith("-")


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1_0", "٣", " 5", "0x1F", "inf", "NaN", "1e", "1,5", "1e100000"]
)
def test_what_is_no_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        converted(pa.array([text]), pa.decimal128(10, 2))


@pytest.mark.parametrize("text", ["inf", "-Inf", "Infinity", "+INFINITY"])
def test_infinity_is_a_float_when_it_is_written(text: str) -> None:
    assert abs(converted(pa.array([text, None, "1.5"]), pa.float32())[0].as_py()) == float("inf")


@pytest.mark.parametrize(
    ("text", "kind", "count"),
    [
        ("1970-01-01 00:00:01.500000", pa.timestamp("ms"), 1_500),
        ("1970-01-01 00:00:01.500000000", pa.timestamp("us"), 1_500_000),
        ("1970-01-01T00:00:01.000000Z", pa.timestamp("s", "UTC"), 1),
        ("1970-01-01T01:00:01.120000+01:00", pa.timestamp("ms", "Europe/Berlin"), 1_120),
        ("9999-12-31 00:00:00.000000", pa.timestamp("s"), 253_402_214_400),
        ("00:00:01.500000", pa.time32("ms"), 1_500),
        ("00:00:01.000000", pa.time32("s"), 1),
    ],
)
def test_zeros_behind_the_last_digit_of_a_unit_are_no_loss(
    text: str, kind: pa.DataType, count: int
) -> None:
    assert converted(pa.array([None, text]), kind)[1].value == count


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1970-01-01 00:00:01.0001", pa.timestamp("ms")),
        ("1970-01-01 00:00:01.00000001", pa.timestamp("us")),
        ("1970-01-01 00:00:01.05", pa.timestamp("s")),
        ("1970-01-01T00:00:01.050Z", pa.timestamp("s", "UTC")),
        ("1970-01-01 00:00:01.0000000000", pa.timestamp("ns")),
        ("00:00:01.0001", pa.time32("ms")),
    ],
)
def test_other_digits_behind_it_are_refused(text: str, kind: pa.DataType) -> None:
    assert first_bad(pa.array([None, text]), kind) == 1


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("42.0", pa.int64(), 42),
        ("-30.00", pa.int32(), -30),
        ("0.0", pa.uint8(), 0),
        ("-0.0", pa.int64(), 0),
        ("0.000", pa.int64(), 0),
        ("1.0000", pa.int64(), 1),
        ("1234.000", pa.int64(), 1234),
        ("1.0000", pa.bool_(), True),
        ("9007199254740991.0", pa.int64(), 2**53 - 1),
        ("-9007199254740991.0", pa.int64(), 1 - 2**53),
        ("t", pa.bool_(), True),
        ("f", pa.bool_(), False),
        ("1.0", pa.bool_(), True),
        ("0.0", pa.bool_(), False),
        ("True", pa.bool_(), True),
        ("FALSE", pa.bool_(), False),
        ("2020/01/02", pa.date32(), datetime.date(2020, 1, 2)),
        ("2020-01-02 00:00:00", pa.date32(), datetime.date(2020, 1, 2)),
        ("2020-01-02T00:00:00.000", pa.date32(), datetime.date(2020, 1, 2)),
        (
            "2020/01/02 03:04:05",
            pa.timestamp("us"),
            datetime.datetime(2020, 1, 2, 3, 4, 5),
        ),
        ("2020/01/02", pa.timestamp("us"), datetime.datetime(2020, 1, 2)),
    ],
)
def test_a_value_as_other_programs_write_it_is_read_exactly(
    text: str, kind: pa.DataType, value: object
) -> None:
    assert converted(pa.array([None, text]), kind).to_pylist() == [None, value]


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-02 03:04:05+00:00",
        "2020-01-02T03:04:05.000000Z",
        "2020/01/02 03:04:05",
        "2020-01-02T03:04:05.000000+0000",
        "2020-01-02 03:04:05+00",
        "2020/01/02 04:04:05+01:00",
    ],
)
def test_an_instant_as_other_programs_write_it_is_read_exactly(text: str) -> None:
    (found,) = converted(pa.array([text]), pa.timestamp("us", "UTC")).to_pylist()
    assert found == datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # A double is each of these, and other integers too.
        ("9007199254740992.0", pa.int64()),
        ("-9007199254740992.0", pa.int64()),
        ("123456789012345678.0", pa.int64()),
        # A thousand where the point separates groups of digits.
        ("1.000", pa.int64()),
        ("-123.000", pa.int32()),
        ("+12.000", pa.uint16()),
        ("1.000", pa.bool_()),
        ("42.5", pa.int64()),
        ("42.", pa.int64()),
        (".0", pa.int64()),
        ("1,000.0", pa.int64()),
        ("4.2E+1", pa.int64()),
        ("300.0", pa.int8()),
        ("-1.0", pa.uint8()),
        ("yes", pa.bool_()),
        ("2.0", pa.bool_()),
        ("2020/1/2", pa.date32()),
        ("01/02/2020", pa.date32()),
        ("2020/01-02", pa.date32()),
        ("2020-01-02 00:00:01", pa.date32()),
        ("2020-01-02 00:00:00.001", pa.date32()),
        ("2020-01-02 00:00:00Z", pa.date32()),
        ("2020/13/02 03:04:05", pa.timestamp("us")),
        # Perhaps cut: the program that writes slashes keeps milliseconds.
        ("2020/01/02 03:04:05.123", pa.timestamp("us")),
        ("2020/01/02 03:04:05.123+00:00", pa.timestamp("us", "UTC")),
    ],
)
def test_what_could_be_another_value_is_refused(text: str, kind: pa.DataType) -> None:
    assert first_bad(pa.array([None, text]), kind) == 1

"""Parameters as JSON: every value that a statement takes comes back as it was."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import orjson
import pytest

from blockstore.client.parameters import sendable
from blockstore.errors import Invalid
from blockstore.reader.forms.parameters import from_json

VALUES = [
    None,
    True,
    0,
    -(2**63),
    1.5,
    float("inf"),
    "text",
    "$decimal",
    b"\x00\xff",
    Decimal("12.50"),
    Decimal("-1000"),
    dt.date(2026, 1, 31),
    dt.time(12, 30, 0, 500_000),
    dt.datetime(2026, 1, 31, 12, 30),
    dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC),
    dt.timedelta(days=-1, microseconds=3),
    [1, [b"x", None]],
    {"a": dt.date(2026, 1, 1), "b": {"c": 2}},
    {},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_survives_json(value: object) -> None:
    for given in ([value], {"name": value}):
        again = from_json(orjson.loads(orjson.dumps(sendable(given))))
        assert again == given
        assert repr(again) == repr(given)


def test_a_whole_number_of_more_than_64_bits_keeps_its_digits() -> None:
    (found,) = from_json(orjson.loads(orjson.dumps(sendable([2**80])))) or []
    assert found == Decimal(2**80)


def test_nan_is_a_float() -> None:
    (found,) = from_json(orjson.loads(orjson.dumps(sendable([float("nan")])))) or []
    assert isinstance(found, float)
    assert found != found


@pytest.mark.parametrize(
    "text",
    [
        '{"$decimal": 1}',
        '{"$decimal": "1e999"}',
        '{"$float": "1"}',
        '{"$bytes": "?"}',
        '{"$date": "2026-13-01"}',
        '{"$time": "noon"}',
        '{"$timestamp": "yesterday"}',
        '{"$timestamp": "2020-01-01T00:00:00.123456789"}',
        '{"$time": "00:00:00.0000001"}',
        '{"$duration": true}',
        '{"$duration": 1e3}',
    ],
)
def test_a_value_that_is_none_of_its_type_is_one_sentence_with_its_parameter(text: str) -> None:
    with pytest.raises(Invalid, match=r"^parameter 2 is "):
        from_json(["fine", json.loads(text)])


def test_zeros_below_a_microsecond_are_no_digits() -> None:
    found = from_json([{"$timestamp": "2020-01-01T00:00:00.123456000"}])
    assert found == [dt.datetime(2020, 1, 1, 0, 0, 0, 123456)]


def test_a_duration_with_nanoseconds_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    assert sendable([pandas.Timedelta(2000, "ns")]) == [{"$duration": 2}]
    with pytest.raises(Invalid, match="parameter 1 is Timedelta"):
        sendable([pandas.Timedelta(2001, "ns")])


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(Invalid, match="parameter x is complex"):
        sendable({"x": 1j})


def test_a_decimal_of_many_digits_takes_no_time_that_grows_with_their_square() -> None:
    with pytest.raises(Invalid, match="a decimal"):
        from_json({"p": {"$decimal": "0" * 300_000 + "!"}})

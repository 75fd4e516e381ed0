"""Values in messages, as people write them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from blockstore.format.value_text import (
    plain,
    plain_keys,
    plain_rows,
    plain_values,
    row_text,
    value_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "'a b'"),
        (7, "7"),
        (True, "true"),
        (None, "null"),
        (Decimal("1.50"), "1.50"),
        (1.5, "1.5"),
        (b"abc", "YWJj"),
        (dt.date(2026, 1, 1), "2026-01-01"),
        (dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), "2026-01-01T12:00:00+00:00"),
        ({"site": "x", "day": dt.date(2026, 1, 1)}, '{"site": "x", "day": "2026-01-01"}'),
    ],
)
def test_a_value_is_written_as_people_write_it(value: object, text: str) -> None:
    assert value_text(value) == text


def test_a_key_of_several_columns_is_a_json_array() -> None:
    assert row_text(("x", dt.date(2026, 1, 1))) == '["x", "2026-01-01"]'
    assert row_text(("é", 3)) == '["é", 3]'
    assert row_text(("x",)) == row_text("x") == "'x'"


NANO = pa.scalar(1_577_836_800_000_000_005, pa.timestamp("ns"))
LATE = pa.scalar(10**18, pa.timestamp("us"))
LONG = pa.scalar(1_001, pa.duration("ns"))


def test_values_of_arrow_become_those_of_python_where_nothing_is_lost() -> None:
    exact = pa.scalar(5_000, pa.timestamp("ns", "UTC"))
    assert plain(exact) == dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)
    assert plain(pa.scalar(5_000, pa.duration("ns"))) == dt.timedelta(microseconds=5)
    assert plain(pa.scalar(5_000, pa.time64("ns"))) == dt.time(0, 0, 0, 5)
    assert plain(pa.scalar(None, pa.timestamp("ns"))) is None
    for one in (NANO, LATE, LONG):
        assert plain(one) is one
        lists = pa.array([[one, None], None], pa.list_(one.type))
        assert plain_values(lists) == [[one, None], None]
        assert plain(pa.StructArray.from_arrays([lists], ["a"])[0]) == {"a": [one, None]}
        pairs = pa.array([[("a", one)], []], pa.map_(pa.string(), one.type))
        assert plain_values(pairs) == [[("a", one)], []]
        table = pa.table({"k": pa.array([one]), "v": [1]})
        assert plain_rows(table) == [{"k": one, "v": 1}]
        assert plain_keys(table) == [(one, 1)]


def test_what_python_cannot_hold_is_written_with_all_its_digits() -> None:
    assert value_text(NANO) == "2020-01-01T00:00:00.000000005"
    assert value_text([NANO]) == '["2020-01-01T00:00:00.000000005"]'
    assert value_text(LONG) == "1001"

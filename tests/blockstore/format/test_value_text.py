"""Values in messages, as people write them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from blockstore.format.value_text import row_text, value_text


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

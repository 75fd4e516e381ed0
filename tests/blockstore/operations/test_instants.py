from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from blockstore.errors import Invalid
from blockstore.operations.instants import to_ms


@pytest.mark.parametrize(
    ("instant", "ms"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T02:00:00+02:00", 0),
        (" 1969-12-31T23:59:59.999500 ", -1),
        (dt.datetime(1970, 1, 1, 0, 0, 1), 1000),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
    ],
)
def test_an_instant_is_utc_unless_it_says_otherwise(instant: Any, ms: int) -> None:
    assert to_ms(instant) == ms


@pytest.mark.parametrize("instant", ["yesterday", "", None, 1.5, True, dt.date(2024, 1, 1)])
def test_what_is_no_instant_is_refused(instant: Any) -> None:
    with pytest.raises(Invalid, match="expected"):
        to_ms(instant)

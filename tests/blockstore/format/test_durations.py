"""Durations: what people write is read exactly, or refused with a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Invalid
from blockstore.format.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("48h", 172_800),
        ("1h30m", 5_400),
        ("500ms", 0.5),
        ("2d", 172_800),
        ("1w", 604_800),
        (" 5S ", 5),
        (90, 90),
        (0.25, 0.25),
        ("0s", 0),
    ],
)
def test_the_usual_notations_are_read(text: str | float, seconds: float) -> None:
    assert parse_duration(text, "sync_delay") == seconds


@pytest.mark.parametrize(
    "text",
    ["", "15", "m", "-5m", "1.5h", "5 m", "5m!", "9999999999w", -1, float("nan"), True, None],
)
def test_anything_else_is_refused_by_name(text: object) -> None:
    with pytest.raises(Invalid, match="sync_delay"):
        parse_duration(text, "sync_delay")  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=10**12))
def test_writing_and_reading_again_gives_the_same(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds), "x") == pytest.approx(seconds, abs=1e-9)

"""Dates and timestamps from text are of the years 1 to 9999."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.format.years import in_years


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.date64(),
        pa.timestamp("s"),
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    ],
)
def test_the_first_and_the_last_day_are_taken_and_their_neighbours_are_not(
    kind: pa.DataType,
) -> None:
    within = pa.array(["0001-01-01", None, "9999-12-31"])
    day = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
    assert in_years(within.cast(day).cast(kind)).null_count == 1
    with pytest.raises(pa.ArrowInvalid, match="the years 1 to 9999"):
        in_years(pa.array(["0000-12-31"]).cast(day).cast(kind))
    last = pa.array(["9999-12-31"]).cast(day).cast(kind)
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    beyond = last.cast(whole).to_pylist()[0] + 86_400_000_000
    later = beyond if kind != pa.date32() else last.cast(whole).to_pylist()[0] + 1
    with pytest.raises(pa.ArrowInvalid):
        in_years(pa.array([later], whole).cast(kind))


def test_nanoseconds_and_nothing_at_all_are_taken() -> None:
    assert len(in_years(pa.array([0], pa.timestamp("ns")))) == 1
    assert len(in_years(pa.array([None], pa.date32()))) == 1
    assert len(in_years(pa.array([], pa.date32()))) == 0

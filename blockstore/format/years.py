"""The years of dates and timestamps that are read from text.

Rule: 1 to 9999. Arrow reads the year 0 too, which other programs show as 1 BC or cannot hold at
all. What comes as a date or a timestamp, and not as text, is not judged here.
"""

from __future__ import annotations

import pyarrow as pa

YEARS = "the years 1 to 9999"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days from 1970-01-01 to the first day of the year 1, and to the last of the year 9999."""
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def in_years(times: pa.Array) -> pa.Array:
    """Return the dates or timestamps. Raises pa.ArrowInvalid if one is of another year."""
    kind = times.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return times  # The type holds only years from 1677 to 2262.
    import pyarrow.compute as pc

    whole = times.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    bounds = pc.min_max(whole).as_py()
    if pa.types.is_date32(kind):
        day = 1
    else:
        day = _A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
    low, high = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1
    if bounds["min"] is not None and not (low <= bounds["min"] and bounds["max"] <= high):
        raise pa.ArrowInvalid(f"a time in {YEARS} was expected")
    return times

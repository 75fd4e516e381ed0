"""Texts as values of a column's type.

Rules: a text is a value of the type in full or it is refused; nothing is rounded or cut. A timestamp without a zone
is UTC in a column that has one; one with a zone is refused in a column that has none.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["converted", "first_bad", "is_plain"]

_TIMED_ZONE = r"(?i)\d\d:\d\d.*(z|[+-]\d\d(:?\d\d)?)$"


def is_plain(kind: pa.DataType) -> bool:
    """Whether a text can hold a value of the type."""
    return not pa.types.is_nested(kind)


def converted(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Strings as values of ``kind``; nulls stay. Raises pa.ArrowInvalid if one is no such value."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _instants(texts, kind)
    if pa.types.is_time(kind):
        return _times(texts, kind)
    if pa.types.is_duration(kind):
        return texts.cast(pa.int64()).cast(kind)
    return texts.cast(kind)


def first_bad(texts: pa.Array, kind: pa.DataType) -> int | None:
    """The position of the first text that is no value of ``kind``, found by halving."""
    if _converts(texts, kind):
        return None
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        if _converts(texts.slice(low, middle - low), kind):
            low = middle
        else:
            high = middle
    return low


def _converts(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        converted(texts, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _instants(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    zoned = pc.match_substring_regex(texts, _TIMED_ZONE)
    with_zone = pc.if_else(zoned, texts, None).cast(pa.timestamp(kind.unit, "UTC"))
    without = pc.if_else(zoned, None, texts).cast(pa.timestamp(kind.unit))
    return pc.coalesce(with_zone, pc.assume_timezone(without, "UTC")).cast(kind)


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of day, by way of a timestamp of day zero: Arrow casts no text to a time."""
    moments = pc.binary_join_element_wise("1970-01-01 ", texts, "").cast(pa.timestamp("ns"))
    return moments.cast(pa.time64("ns")).cast(kind, safe=True)

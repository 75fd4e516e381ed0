"""Dates, times and intervals as text, for every form that is text; on request long numbers too.

Rules:
- A value has one text everywhere: in a column or inside a nested value, in JSON, CSV, TSV or a
  table for people.
- ISO 8601, exact to the column's unit; a moment with a zone is shown in UTC. The calendar continues
  in both directions: the year 12345 is ``12345``, the year before 1 is ``0000``, the one before
  that ``-0001``. DuckDB reads these texts back.
- Long numbers are those of types that a double cannot hold: 64-bit integers and decimals. Their
  texts have all digits.
- DuckDB's infinite dates and moments are ``infinity`` and ``-infinity``; the end of a day is
  ``24:00:00``.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS = 86_400
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST = datetime.date.min.toordinal() - _EPOCH
_LAST = datetime.date.max.toordinal() - _EPOCH
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The Gregorian calendar repeats after this many years."""


def is_shown_as_text(kind: pa.DataType) -> bool:
    """Whether values of this type become text."""
    return bool(
        pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_time(kind) or pt.is_interval(kind)
    )


def is_long(kind: pa.DataType) -> bool:
    """Whether a column's numbers may have more digits than a double."""
    return bool(pt.is_int64(kind) or pt.is_uint64(kind) or pt.is_decimal(kind))


def readable(column: pa.Array, *, long: bool = False) -> pa.Array:
    """The column with each such value as its text, also inside nested values; other values stay
    as they are. ``long``: also numbers with more digits than a double has."""
    kind = column.type
    if pt.is_interval(kind):
        return pa.array(
            [None if value is None else _interval(value) for value in column.to_pylist()],
            pa.string(),
        )
    if is_shown_as_text(kind):
        return _moments(column)
    if long and is_long(kind):
        return _digits(column)
    return _within(column, long) if _holds_text(kind, long) else column


def _holds_text(kind: pa.DataType, long: bool) -> bool:
    """Whether a value contains one that becomes text; members of a union do not, and a list of
    size 0 is empty."""
    if pt.is_union(kind) or (pt.is_fixed_size_list(kind) and kind.list_size == 0):
        return False
    if is_shown_as_text(kind) or (long and is_long(kind)):
        return True
    return any(_holds_text(part.type, long) for part in _parts(kind))


def _parts(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(place) for place in range(kind.num_fields)] if pt.is_nested(kind) else []


def _digits(column: pa.Array) -> pa.Array:
    if pt.is_integer(column.type):
        return column.cast(pa.string())
    return pa.array(
        [None if value is None else format(value, "f") for value in column.to_pylist()], pa.string()
    )


def _within(column: pa.Array, long: bool) -> pa.Array:
    """A nested column, its values as text."""
    kind = column.type
    # A copy starts at the first value of its child arrays; a slice does not.
    column = pa.concat_arrays([column])
    nulls = column.is_null()
    if pt.is_struct(kind):
        parts = [readable(column.field(place), long=long) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            parts, names=[part.name for part in _parts(kind)], mask=nulls
        )
    if pt.is_map(kind):
        keys, items = readable(column.keys, long=long), readable(column.items, long=long)
        return pa.MapArray.from_arrays(column.offsets, keys, items, mask=nulls)
    values = readable(column.values, long=long)
    if pt.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=nulls)
    if pt.is_list_view(kind) or pt.is_large_list_view(kind):
        return type(column).from_arrays(column.offsets, column.sizes, values, mask=nulls)
    return type(column).from_arrays(column.offsets, values, mask=nulls)


def _moments(column: pa.Array) -> pa.Array:
    """Dates, moments or times of day: Arrow converts those of the years 1 to 9999, and the code
    here the others, one by one."""
    import pyarrow.compute as pc

    kind = column.type
    if pt.is_date64(kind):
        column, kind = column.cast(pa.date32()), pa.date32()
    counts = column.view(pa.int64() if kind.bit_width == 64 else pa.int32()).cast(pa.int64())
    least, greatest = _usual(kind)
    ends = pc.min_max(counts).as_py()
    if ends["min"] is None or (least <= ends["min"] and ends["max"] <= greatest):
        return _by_arrow(column)
    odd = pc.fill_null(pc.or_(pc.less(counts, least), pc.greater(counts, greatest)), False)
    texts = [_text(count, kind) for count in counts.filter(odd).to_pylist()]
    usual = _by_arrow(pc.if_else(odd, pa.scalar(None, kind), column))
    return pc.replace_with_mask(usual, odd, pa.array(texts, pa.string()))


def _by_arrow(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    texts = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")


def _usual(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest count that Arrow converts as DuckDB does."""
    if pt.is_date(kind):
        return _FIRST, _LAST
    a_day = _DAY_SECONDS * _PER_SECOND[kind.unit]
    if pt.is_time(kind):
        return 0, a_day - 1
    return max(_FIRST * a_day, 2 - 2**63), min((_LAST + 1) * a_day - 1, 2**63 - 2)


def _text(count: int, kind: pa.DataType) -> str:
    """The text of a count of the type's units since the epoch, or since midnight."""
    if not pt.is_time(kind) and abs(count) == (2**31 if pt.is_date32(kind) else 2**63) - 1:
        return "infinity" if count > 0 else "-infinity"
    if pt.is_date(kind):
        return _date(count)
    per_second = _PER_SECOND[kind.unit]
    if pt.is_time(kind):
        return _clock(count, per_second)
    days, rest = divmod(count, _DAY_SECONDS * per_second)
    return f"{_date(days)}T{_clock(rest, per_second)}{'Z' if kind.tz else ''}"


def _date(days: int) -> str:
    cycles, within = divmod(days + _EPOCH - 1, _CYCLE_DAYS)
    date = datetime.date.fromordinal(within + 1)
    year = date.year + cycles * _CYCLE_YEARS
    return f"{'-' * (year < 0)}{abs(year):04}-{date.month:02}-{date.day:02}"


def _clock(count: int, per_second: int) -> str:
    seconds, rest = divmod(count, per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}}" if rest else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _interval(value: pa.MonthDayNano) -> str:
    """An interval as ISO 8601 with its three parts: P1M2DT3.5S."""
    seconds = Decimal(value.nanoseconds) / 1_000_000_000
    texts = [f"{value.months}M" * bool(value.months), f"{value.days}D" * bool(value.days)]
    clock = f"T{seconds.normalize():f}S" if seconds else ""
    return "P" + ("".join(texts) + clock or "T0S")

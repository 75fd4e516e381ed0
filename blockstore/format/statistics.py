"""Bounds of a column in a chunk: computed while it is written, used for pruning.

Rules:
- ``min`` is a lower and ``max`` an upper bound of the values that are neither null nor NaN. Strings
  are cut to 64 characters: the upper bound is then the least such text above all of them, or none
  if there is none.
- NaN is never a bound; ``nans`` counts them, because SQL engines order NaN above every number and
  pruning must consider it. Zero is written so that -0.0 and 0.0 are inside the bounds.
- A bound is JSON: integers as they are; dates, times, timestamps and durations as the integer of
  the column's unit; decimals as text; infinities as ``"Infinity"`` and ``"-Infinity"``; binary
  columns have none.
- Bounds keep their meaning when a column is widened: decoding does not depend on the original
  width.
- A missing bound means unknown, unless every value is null or NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Corrupt
from blockstore.format.block import ColumnStats, StatValue
from blockstore.format.types import is_primitive

Comparable = bool | int | float | str | Decimal
"""A bound as Python compares it; one Python type for each column type, temporal values as integers
of the column's unit."""

_FIRST = 32
_CHARACTERS = 64
_LAST_CODE_POINT = 0x10FFFF
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def columns_of(
    schema: pa.Schema, sort_by: Iterable[str], identity: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the columns that have statistics: the plain ones of the sort key, of the identity and
    of the first 32 columns, in schema order."""
    wanted = {*schema.names[:_FIRST], *sort_by, *identity}
    return tuple(
        field.name for field in schema if field.name in wanted and is_primitive(field.type)
    )


class Tally:
    """The exact bounds of one column, widened as rows are added."""

    __slots__ = ("high", "low", "nans", "nulls", "unreadable")

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls = 0
        self.nans = 0
        self.unreadable = False
        """Some text is not UTF-8: the column has no bounds."""

    def add(self, column: pa.ChunkedArray) -> None:
        """Add some rows, reading every value."""
        self.nulls += column.null_count
        self.nans += count_nans(column) if pt.is_floating(column.type) else 0
        self.widen(extremes, column)

    def widen(
        self, bounds: Callable[[Any], tuple[Comparable, Comparable] | None], values: Any
    ) -> None:
        """Widen the bounds by the result of ``bounds`` for ``values``.

        ``bounds`` may raise UnicodeDecodeError for text that is not UTF-8.
        """
        try:
            found = bounds(values)
        except UnicodeDecodeError:
            self.unreadable, found = True, None
        if found is not None:
            self.include(*found)

    def include(self, low: Comparable, high: Comparable) -> None:
        """Widen the bounds by the extremes of some rows."""
        if self.low is None or low < self.low:
            self.low = low
        if self.high is None or high > self.high:
            self.high = high

    def stats(self) -> ColumnStats:
        """Return the bounds as meta.json holds them."""
        if self.low is None or self.unreadable:
            return ColumnStats(min=None, max=None, nulls=self.nulls, nans=self.nans)
        return ColumnStats(
            min=_bound(self.low, lower=True),
            max=_bound(self.high, lower=False),
            nulls=self.nulls,
            nans=self.nans,
        )


def collect(table: pa.Table, columns: Sequence[str]) -> dict[str, ColumnStats]:
    """Return the statistics of these columns of a table, reading every value."""
    tallies = {name: Tally() for name in columns}
    for name, tally in tallies.items():
        tally.add(table.column(name))
    return {name: tally.stats() for name, tally in tallies.items()}


def extremes(column: pa.ChunkedArray) -> tuple[Comparable, Comparable] | None:
    """Return the least and the greatest value of a column, or None if it has none.

    Raises UnicodeDecodeError.
    """
    import pyarrow.compute as pc

    kind = column.type
    if _is_bytes(kind) or not is_primitive(kind):
        return None
    if pt.is_duration(kind):
        # Durations have no min_max.
        column, kind = column.cast(pa.int64()), pa.int64()
    found = pc.call_function("min_max", [column])
    low, high = comparable(found["min"]), comparable(found["max"])
    if low is None or high is None or low != low:
        return None
    return low, high


def count_nans(column: pa.ChunkedArray) -> int:
    """Return how many values of a floating column are NaN."""
    import pyarrow.compute as pc

    # A sum is NaN if any value is (or if infinities cancel): one fast pass settles the common case.
    total = pc.call_function("sum", [column]).as_py()
    if total is None or not math.isnan(total):
        return 0
    return pc.sum(pc.is_nan(column)).as_py() or 0


def merge(kind: pa.DataType, parts: Iterable[tuple[ColumnStats, int]]) -> ColumnStats:
    """Return the statistics of several chunks together, each given with its number of rows."""
    listed = [(stats, rows) for stats, rows in parts]
    valued = [stats for stats, rows in listed if stats.nulls + stats.nans < rows]
    lows = [decode(kind, stats.min) for stats in valued]
    highs = [decode(kind, stats.max) for stats in valued]
    return ColumnStats(
        min=_outermost(kind, lows, min),
        max=_outermost(kind, highs, max),
        nulls=sum(stats.nulls for stats, _ in listed),
        nans=sum(stats.nans for stats, _ in listed),
    )


def encode(kind: pa.DataType, value: Comparable) -> StatValue:
    """Return a bound as JSON holds it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value) if pt.is_floating(kind) and not isinstance(value, str) else value


def decode(kind: pa.DataType, stat: StatValue | None) -> Comparable | None:
    """Return a bound of a column of this type as Python compares it; None for None.

    Raises Corrupt.
    """
    if stat is None:
        return None
    if pt.is_floating(kind):
        if isinstance(stat, str) and stat in _INFINITIES:
            return _INFINITIES[stat]
        if (
            isinstance(stat, (int, float))
            and not isinstance(stat, bool)
            and abs(stat) <= sys.float_info.max
        ):
            return float(stat)
    elif pt.is_boolean(kind):
        if isinstance(stat, bool):
            return stat
    elif pt.is_decimal(kind):
        if isinstance(stat, str):
            return _decimal(stat)
    elif _is_text(kind):
        if isinstance(stat, str):
            return stat
    elif type(stat) is int and is_primitive(kind) and not _is_bytes(kind):
        return stat
    raise Corrupt(
        f"the statistic {stat!r} is not a value of type {kind}: a faulty program wrote the block"
    )


def comparable(scalar: pa.Scalar) -> Comparable | None:
    """Return a scalar as Python compares it with its column's bounds; None if null or unordered."""
    if not scalar.is_valid or _is_bytes(scalar.type):
        return None
    if pt.is_temporal(scalar.type):
        return int(scalar.value)
    return scalar.as_py()


def lower_bound(text: str) -> str:
    """Return a text of at most 64 characters that is not above ``text``."""
    return text[:_CHARACTERS]


def upper_bound(text: str) -> str | None:
    """Return the least text of at most 64 characters that is not below any text that begins like
    ``text``, or None."""
    if len(text) <= _CHARACTERS:
        return text
    for end in range(_CHARACTERS, 0, -1):
        point = ord(text[end - 1])
        if point < _LAST_CODE_POINT:
            # The code points between are the surrogates, which UTF-8 cannot write.
            return text[: end - 1] + chr(0xE000 if point == 0xD7FF else point + 1)
    return None


def _outermost(
    kind: pa.DataType, bounds: list[Comparable | None], pick: Callable[[list[Any]], Any]
) -> StatValue | None:
    """Return the bound of all parts, or None if one of them has none."""
    return encode(kind, pick(bounds)) if bounds and None not in bounds else None


def _bound(value: Any, *, lower: bool) -> StatValue | None:
    if isinstance(value, str):
        return lower_bound(value) if lower else upper_bound(value)
    if isinstance(value, float):
        if value == 0:
            return -0.0 if lower else 0.0
        return encode(pa.float64(), value)
    return format(value, "f") if isinstance(value, Decimal) else value


def _decimal(stat: str) -> Decimal:
    try:
        value = Decimal(stat)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise Corrupt(
            f"the statistic {stat[:60]!r} is not a decimal number: a faulty program wrote the block"
        )
    return value


def _is_text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pt.is_binary(kind) or pt.is_fixed_size_binary(kind)

"""The values of rows as the vectors' JSON holds them, and Arrow's columns: there and back.

Numbers, texts and booleans are JSON's; a float that JSON lacks is "NaN", "Infinity" or "-Infinity";
decimals are texts, bytes are hexadecimal; dates, times, timestamps and durations are integers in
the column's unit; a map is a list of pairs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["array_of", "plain", "sorted_rows"]


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """JSON's values as a column."""
    if pt.is_date32(kind) or pt.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pt.is_temporal(kind):
        return pa.array(values, pa.int64()).cast(kind)
    made: dict[Callable[[pa.DataType], bool], Callable[[Any], Any]] = {
        pt.is_decimal: Decimal,
        pt.is_binary: bytes.fromhex,
        pt.is_fixed_size_binary: bytes.fromhex,
        pt.is_floating: float,
        pt.is_map: lambda pairs: [tuple(pair) for pair in pairs],
    }
    make = next((make for fits, make in made.items() if fits(kind)), lambda value: value)
    return pa.array([None if value is None else make(value) for value in values], kind)


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """A column as JSON's values."""
    kind = column.type
    if pt.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if pt.is_date32(kind) or pt.is_time32(kind):
        return column.cast(pa.int32()).to_pylist()
    if pt.is_temporal(kind):
        return column.cast(pa.int64()).to_pylist()
    return [_value(value) for value in column.to_pylist()]


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in one order: no reader promises one."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    return [_value(one) for one in value] if isinstance(value, (list, tuple)) else value

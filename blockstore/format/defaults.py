"""The default of a column: the value of rows that come without the column.

Rules:
- A default fills a missing column only. A null that a row brings stays a null.
- It is read as its column's type exactly, or refused.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.column import rules_of


def defaults_of(schema: pa.Schema) -> Mapping[str, pa.Scalar]:
    """Return the defaults of the columns that have one. Raises Invalid."""
    found = {}
    for field in schema:
        text = rules_of(field).default
        if text is not None:
            found[field.name] = scalar_of(text, field)
    return found


def scalar_of(text: str, field: pa.Field) -> pa.Scalar:
    """Return a stored default as a value of its column. Raises Invalid."""
    try:
        return _scalar(json.loads(text, parse_float=_Digits), field.type)
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
        raise Invalid(
            f"column {field.name!r} has the default {text[:60]}, expected a value of type "
            f"{field.type} as JSON: give another default"
        ) from None


class _Digits(str):
    """A number with a point or an exponent, as it is written."""


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    from blockstore.format.given import array_of

    if pt.is_boolean(kind):
        return pa.scalar(_a(bool, value), kind)
    if isinstance(value, bool):
        raise TypeError("a boolean")
    if pt.is_integer(kind):
        return pa.scalar(_a(int, value), kind)
    if pt.is_floating(kind):
        number = float(value) if isinstance(value, _Digits) else _a((int, float), value)
        return array_of([float(number)], kind)[0]
    if pt.is_decimal(kind):
        return pa.scalar(Decimal(value), pa.decimal128(38, kind.scale)).cast(kind)
    if isinstance(value, _Digits):
        raise TypeError("a number")
    if pt.is_string(kind):
        return pa.scalar(_a(str, value), kind)
    if pt.is_time(kind):
        return array_of([datetime.time.fromisoformat(_a(str, value))], kind)[0]
    if pt.is_timestamp(kind) or pt.is_date(kind):
        from blockstore.format.years import in_years

        return in_years(pa.array([_a(str, value)], pa.string()).cast(kind))[0]
    raise TypeError("a type without defaults")


def _a(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError("another type")
    return value

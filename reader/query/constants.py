"""Constants of a query as values to prune a column by, so that they mean what DuckDB's own cast makes of them.

Rule: exact or nothing. A constant whose meaning could differ by a rounding, a format or a time zone is no value,
and its condition prunes nothing. The session's time zone is UTC (``instance.py``).
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from reader.query.statement import Node

__all__ = ["Constant", "constant_for"]

Constant: TypeAlias = bool | int | Decimal | str | dt.date | dt.datetime

_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2})(:\d{2}(?:\.\d{1,6})?)?)?(Z|\+00|\+00:00)?")
_ZONED = ("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
_TIMED = ("TIMESTAMP", "DATETIME", *_ZONED)
_EXACT_INTEGERS = 2**53
_DIGITS = 400
"""A number with more digits than any type holds prunes nothing, and is not computed with: 1e999999999 takes for ever."""


def constant_for(node: Node, kind: pa.DataType) -> Constant | None:
    """The constant for comparison with a column of type ``kind``; None if it is no plain constant of that kind."""
    named, node = _cast(node)
    found = node.get("literal")
    if node.get("class") != "CONSTANT" or not isinstance(found, dict) or "text" not in found:
        return None
    form, text = str(found.get("kind")), str(found["text"])
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _moment(text, named, kind) if form == "STRING" else None
    if named is not None:
        return None
    if pa.types.is_string(kind):
        return text if form == "STRING" else None
    if pa.types.is_boolean(kind):
        return text.lower() == "true" if form == "BOOLEAN" else None
    if form == "DOUBLE" and not pa.types.is_floating(kind):
        return None
    return _number(text, kind) if form in ("INTEGER", "NUMERIC", "DOUBLE") else None


def _cast(node: Node) -> tuple[str | None, Node]:
    """The type that a typed constant (``DATE '…'``) names, and the constant."""
    if node.get("class") != "CAST" or node.get("try_cast"):
        return None, node
    return str(node.get("type_expr", {}).get("type_name", "")).upper(), node["child"]


def _number(text: str, kind: pa.DataType) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
        return None
    if pa.types.is_integer(kind):
        return value if value == value.to_integral_value() and abs(value) < 2**63 else None
    if pa.types.is_decimal(kind):
        return value if _fits(value, kind) else None
    if pa.types.is_floating(kind):
        return value if _is_exact(value, kind) else None
    return None


def _fits(value: Decimal, kind: pa.DataType) -> bool:
    """Whether a decimal column could hold the value, so that no cast of DuckDB's rounds either side."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = len(digits) + int(exponent)
    return bool(scale <= kind.scale and whole <= kind.precision - kind.scale)


def _is_exact(value: Decimal, kind: pa.DataType) -> bool:
    """Only numbers that the column's type holds exactly: any other is rounded, and by whom decides the answer."""
    number = float(value)
    if abs(number) >= _EXACT_INTEGERS or Decimal(number) != value:
        return False
    return bool(pa.types.is_float64(kind) or float(np.float32(number)) == number)


def _moment(text: str, named: str | None, kind: pa.DataType) -> dt.date | dt.datetime | None:
    match = _MOMENT.fullmatch(text.strip())
    if match is None or named not in (None, "DATE", *_TIMED):
        return None
    day, clock, seconds, zone = match.groups()
    is_date = pa.types.is_date(kind)
    if zone and (is_date or kind.tz is None or named not in (None, *_ZONED)):
        return None
    if clock and (named == "DATE" or (named is None and is_date)):
        # DuckDB cuts the time of day off, or refuses: not ours to say.
        return None
    try:
        moment = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}{seconds or ':00'}").replace(
            tzinfo=dt.UTC
        )
    except ValueError:
        return None
    return moment

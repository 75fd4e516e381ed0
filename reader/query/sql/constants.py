"""Constants of a query as values to prune a column by, so that they mean what DuckDB's own cast
makes of them.

Rules:
- Exact or nothing. A constant whose meaning could differ by a rounding, a format or a time zone is
  no value, and its condition prunes nothing. The session's time zone is UTC (``instance.py``).
- A number with an exponent, or of more digits than a DECIMAL has, is a DOUBLE to DuckDB, which then
  compares the column and all constants of the same condition as doubles: whole numbers from 2^53 on
  become others, and so do decimals.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from blockstore.reader.query.sql.statement import Node

Constant: TypeAlias = bool | int | Decimal | str | dt.date | dt.datetime

_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2})(:\d{2}(?:\.\d{1,6})?)?)?(Z|\+00|\+00:00)?"
)
_ZONED = ("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
_TIMED = ("TIMESTAMP", "DATETIME", *_ZONED)
_NUMBERS = ("INTEGER", "NUMERIC", "DOUBLE")
_DECIMAL_DIGITS = 38
_EXACT_INTEGERS = 2**53
_DIGITS = 400
"""A number with more digits than any type holds prunes nothing, and is not computed with:
1e999999999 takes for ever."""


def constants_for(nodes: Iterable[Node], kind: pa.DataType) -> list[Constant] | None:
    """The constants that one condition compares with a column of type ``kind``; None unless each is
    a plain constant of that kind."""
    given = list(nodes)
    doubles = any(_is_double(node) for node in given)
    found = [_constant(node, kind, doubles=doubles) for node in given]
    known = [value for value in found if value is not None]
    return known if len(known) == len(given) else None


def _constant(node: Node, kind: pa.DataType, *, doubles: bool) -> Constant | None:
    named, node = _cast(node)
    literal = _literal(node)
    if literal is None:
        return None
    form, text = literal
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _moment(text, named, kind) if form == "STRING" else None
    if named is not None:
        return None
    if pa.types.is_string(kind):
        return text if form == "STRING" else None
    if pa.types.is_boolean(kind):
        return text.lower() == "true" if form == "BOOLEAN" else None
    return _number(text, kind, doubles=doubles) if form in _NUMBERS else None


def _literal(node: Node) -> tuple[str, str] | None:
    """The kind of a constant and its text."""
    found = node.get("literal")
    if node.get("class") != "CONSTANT" or not isinstance(found, dict) or "text" not in found:
        return None
    return str(found.get("kind")), str(found["text"])


def _is_double(node: Node) -> bool:
    """Whether DuckDB may take a constant for a DOUBLE."""
    form, text = _literal(node) or ("", "")
    if form not in _NUMBERS:
        return False
    digits = sum(character.isdigit() for character in text)
    return form == "DOUBLE" or "e" in text.lower() or digits > _DECIMAL_DIGITS


def _cast(node: Node) -> tuple[str | None, Node]:
    """The type that a typed constant (``DATE '…'``) names, and the constant."""
    if node.get("class") != "CAST" or node.get("try_cast"):
        return None, node
    return str(node.get("type_expr", {}).get("type_name", "")).upper(), node["child"]


def _number(text: str, kind: pa.DataType, *, doubles: bool) -> Decimal | None:
    """The number, if comparing a column with it as DuckDB does is comparing it exactly;

    ``doubles``: it compares doubles.
    """
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
        return None
    if pa.types.is_integer(kind):
        limit = _EXACT_INTEGERS if doubles else 2**63
        return value if value == value.to_integral_value() and abs(value) < limit else None
    if pa.types.is_decimal(kind):
        return value if not doubles and _fits(value, kind) else None
    if pa.types.is_floating(kind):
        return value if _is_exact(value, kind) else None
    return None


def _fits(value: Decimal, kind: pa.DataType) -> bool:
    """Whether a decimal column could hold the value, so that no cast of DuckDB's rounds either
    side."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = len(digits) + int(exponent)
    return bool(scale <= kind.scale and whole <= kind.precision - kind.scale)


def _is_exact(value: Decimal, kind: pa.DataType) -> bool:
    """Only numbers that the column's type holds exactly: any other is rounded, and by whom decides
    the answer."""
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

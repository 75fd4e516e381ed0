"""Which columns of a VALUES may have one type: those of whose values DuckDB changes none when it
gives the column the type that holds all of them.

Rules:
- In doubt a column is not alike: then each value is cast by itself, which is always right, and only
  makes the text of a statement longer.
- Only constants, and parameters whose values are known, are looked at.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from blockstore.reader.statements.doing import Parameters
from blockstore.reader.statements.tokens import Piece

_WHOLE, _LARGE, _NUMBER, _FLOAT = "whole", "large", "number", "float"
_TEXT, _TRUTH, _NULL = "text", "truth", "null"
_PLAIN = re.compile(r"-?(\d+)(?:\.(\d+))?")
_POWER = re.compile(r"-?\d+(?:\.\d+)?[eE][-+]?\d+")
_PARAMETER = re.compile(r"\$(\w+)")
_BIGINT_DIGITS = 18
_EXACT_DIGITS = 15
"""Decimals of so many digits fit one DECIMAL, and a double has each of them."""


def alike(values: Sequence[Piece], kind: pa.DataType, parameters: Parameters) -> bool:
    """Whether a column of type ``kind`` has the same values, whether they are cast to it one by one
    or as one column."""
    if len(values) == 1:
        return True
    found = {_class_of(value, parameters) for value in values} - {_NULL}
    if _NUMBER in found:
        return found <= {_WHOLE, _NUMBER} and _is_exact(kind)
    return None not in found and (len(found) < 2 or found == {_WHOLE, _LARGE})


def _is_exact(kind: pa.DataType) -> bool:
    """Whether a number of few digits has one value in such a column, however many zeros follow."""
    return pt.is_decimal(kind) or pt.is_integer(kind) or kind == pa.float64()


def _class_of(value: Piece, parameters: Parameters) -> str | None:
    shown = value.text
    if found := _PARAMETER.fullmatch(shown):
        return _class_of_parameter(found[1], parameters)
    if value.word == "NULL":
        return _NULL
    if value.word in ("TRUE", "FALSE"):
        return _TRUTH
    if len(value.tokens) == 1 and value.tokens[0].is_text:
        return _TEXT if shown.startswith("'") else None
    return _FLOAT if _POWER.fullmatch(shown) else _class_of_number(shown)


def _class_of_parameter(name: str, parameters: Parameters) -> str | None:
    known: Mapping[str, object]
    if isinstance(parameters, Mapping):
        known = parameters
    else:
        known = {str(place): value for place, value in enumerate(parameters or (), 1)}
    if name not in known:
        return None
    match known[name]:
        case None:
            return _NULL
        case bool():
            return _TRUTH
        case int() as whole:
            return _class_of_number(str(whole))
        case Decimal() as number if number.is_finite():
            return _class_of_number(format(number, "f"))
        case float():
            return _FLOAT
        case str():
            return _TEXT
        case bytes() | dt.timedelta() as other:
            return type(other).__name__
        case dt.datetime() | dt.time() as moment:
            return f"{type(moment).__name__} {moment.tzinfo is not None}"
        case dt.date():
            return "date"
    return None


def _class_of_number(shown: str) -> str | None:
    found = _PLAIN.fullmatch(shown)
    if found is None:
        return None
    if found[2] is None and len(found[1]) <= _EXACT_DIGITS:
        return _WHOLE
    if found[2] is None:
        return _LARGE if len(found[1]) <= _BIGINT_DIGITS else None
    return _NUMBER if len(found[1]) + len(found[2]) <= _EXACT_DIGITS else None

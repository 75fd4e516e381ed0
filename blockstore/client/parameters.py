"""The values of a statement's parameters as JSON.

A value of a type that JSON lacks is an object with one key, such as ``{"$decimal": "12.50"}``; the
gateway's ``reader/forms/parameters.py`` reads them, and lists them all.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from blockstore.errors import Invalid

_DEEPEST = 100
_MICROSECOND = dt.timedelta(microseconds=1)


def sendable(parameters: object) -> list[object] | dict[str, object] | None:
    """The parameters as JSON values. Raises Invalid with the name of the parameter."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {str(name): _value(value, str(name)) for name, value in parameters.items()}
    if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes | bytearray):
        return [_value(value, str(place)) for place, value in enumerate(parameters, start=1)]
    raise Invalid(
        f"the parameters are {type(parameters).__name__}, expected a list for ? and $1, or names "
        "and values for $name"
    )


def _value(value: object, name: str, depth: int = 0) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else {"$decimal": str(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case Decimal() if value.is_finite():
            return {"$decimal": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case dt.datetime():
            return {"$timestamp": value.isoformat()}
        case dt.date():
            return {"$date": value.isoformat()}
        case dt.time():
            return {"$time": value.isoformat()}
        case dt.timedelta() if not value % _MICROSECOND:
            return {"$duration": value // _MICROSECOND}
        case list() | tuple() if depth < _DEEPEST:
            return [_value(one, name, depth + 1) for one in value]
        case Mapping() if depth < _DEEPEST:
            return {str(key): _value(one, name, depth + 1) for key, one in value.items()}
    raise Invalid(
        f"parameter {name} is {_kind(value)}, expected a number, a text, true or false, bytes, a "
        "date or a time, or a list of these: pass it as text and cast it in the SQL"
    )


def _kind(value: object) -> str:
    return f"Decimal({value})" if isinstance(value, Decimal) else type(value).__name__

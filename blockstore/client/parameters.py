"""The values of a query's parameters, as JSON can carry them to a gateway."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal

from blockstore.errors import Invalid

_DEEPEST = 4
"""As deep as a gateway looks."""


def sendable(parameters: object) -> list[object] | dict[str, object] | None:
    """A list or a dict of what JSON has; dates and times become ISO texts, which the gateway's
    engine casts to the type of what they are compared with, and decimals ``{"$decimal": digits}``,
    since JSON's numbers are read as floats. Raises Invalid, which names the parameter."""
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
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return {"$decimal": str(value)}
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_value(one, name, depth + 1) for one in value]
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(key): _value(one, name, depth + 1) for key, one in value.items()}
    raise Invalid(
        f"parameter {name} is {_kind(value)}, expected a number, a text, true or false, a date or "
        "a time, or a "
        "list of such: give it as text, and cast it in the SQL"
    )


def _kind(value: object) -> str:
    return f"Decimal({value})" if isinstance(value, Decimal) else type(value).__name__

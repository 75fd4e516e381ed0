"""The values of a query's parameters, put into its tree as the constants that they are, so that
they prune like those.

Rule: only values whose meaning is that of a constant written in the SQL. DuckDB casts a bound text
to the type of the column that it is compared with, as it does a quoted one; a float is bound as
DOUBLE, and so is marked as one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

from blockstore.errors import Invalid
from blockstore.reader.query.sql.statement import Node, walk
from blockstore.reader.query.task import Parameters

_VALUES = (
    bool,
    int,
    float,
    str,
    bytes,
    Decimal,
    dt.date,
    dt.datetime,
    dt.time,
    dt.timedelta,
    type(None),
)
_DEEPEST = 4


def checked(parameters: object) -> Parameters:
    """The parameters as a list or a dict of plain values. Raises Invalid."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        found = {str(name): _plain(value, str(name)) for name, value in parameters.items()}
        return found or None
    if isinstance(parameters, list | tuple):
        return [
            _plain(value, str(place)) for place, value in enumerate(parameters, start=1)
        ] or None
    raise Invalid(
        f"the parameters are {type(parameters).__name__}, expected a list for ? and $1, or names "
        "and values for $name"
    )


def bind(root: Node, parameters: Parameters) -> None:
    """Turn every parameter of the tree that has such a value into a constant, in place."""
    if parameters is None:
        return
    named = (
        parameters
        if isinstance(parameters, Mapping)
        else {str(n): v for n, v in enumerate(parameters, 1)}
    )
    for node in list(walk(root)):
        if node.get("class") == "PARAMETER" and str(node.get("identifier")) in named:
            constant = _constant(named[str(node["identifier"])])
            if constant is not None:
                node.clear()
                node.update(constant)


def _plain(value: object, name: str, depth: int = 0) -> object:
    if isinstance(value, list) and depth < _DEEPEST:
        return [_plain(one, name, depth + 1) for one in value]
    if isinstance(value, dict) and depth < _DEEPEST:
        return {str(key): _plain(one, name, depth + 1) for key, one in value.items()}
    if not isinstance(value, _VALUES):
        raise Invalid(
            f"parameter {name} is {type(value).__name__}, expected a number, a text, true or "
            "false, a date or a time, "
            "or a list of such"
        )
    return value


def _constant(value: object) -> Node | None:
    match value:
        case bool():
            return _literal("BOOLEAN", "true" if value else "false")
        case int():
            return _literal("INTEGER", str(value))
        case float():
            return _literal("DOUBLE", repr(value))
        case Decimal():
            return _literal("NUMERIC", format(value, "f")) if value.is_finite() else None
        case str():
            return _literal("STRING", value)
        case dt.datetime() if value.tzinfo is not None:
            return _typed("TIMESTAMPTZ", value.astimezone(dt.UTC).isoformat(sep=" "))
        case dt.datetime():
            return _typed("TIMESTAMP", value.isoformat(sep=" "))
        case dt.date():
            return _typed("DATE", value.isoformat())
        case _:
            return None


def _literal(kind: str, text: str) -> Node:
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "literal": {"kind": kind, "text": text}}


def _typed(kind: str, text: str) -> Node:
    return {"class": "CAST", "type_expr": {"type_name": kind}, "child": _literal("STRING", text)}

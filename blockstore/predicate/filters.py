"""Conditions from ``(column, op, value)`` with Python values, as Spark and programs hand them
over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.predicate import literals
from blockstore.predicate.literals import Kind, kind_of, one_of
from blockstore.predicate.nodes import FALSE, Column, IsNull, Node, Op, Prefix, find_column

_SETS = {"in": False, "not in": True}
_NULLS = {"is null": False, "is not null": True}
_PREFIX = "starts with"


def leaf(schema: pa.Schema, name: str, op: str, value: Any) -> Node:
    """One condition; raises Invalid, naming the column, what was found and what is expected."""
    column = find_column(schema, name)
    if column is None:
        raise Invalid(
            f"a filter names column {name!r}, expected one of {', '.join(schema.names[:20])}"
        )
    try:
        return _leaf(column, op, value)
    except ValueError as error:
        raise Invalid(
            f"column {column.name!r} is {column.type}, found {value!r} in a filter, expected "
            f"{error}"
        ) from None


def _leaf(column: Column, op: str, value: Any) -> Node:
    if op in _NULLS:
        return IsNull(column, _NULLS[op])
    if op in _SETS:
        return one_of(column, [literals.literal_of(item) for item in value], _SETS[op])
    if op == _PREFIX:
        prefix = literals.literal_of(value)
        if kind_of(column.type) is not Kind.STRING or not isinstance(prefix, str):
            raise ValueError("a text, and a text column")
        return Prefix(column, prefix) if prefix else IsNull(column, negated=True)
    if op not in list(Op):
        known = ", ".join([*Op, *_SETS, *_NULLS, _PREFIX])
        raise Invalid(
            f"a filter on column {column.name!r} has the operator {op!r}, expected one of {known}"
        )
    literal = literals.literal_of(value)
    return FALSE if literal is None else literals.compare(column, Op(op), literal)

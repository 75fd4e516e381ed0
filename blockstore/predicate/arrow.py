"""A condition as a pyarrow expression: true for exactly the rows for which the tree is true.

Arrow compares floats by IEEE 754 and finds 0.0 but not -0.0 in a set; SQL engines order NaN above
everything and treat both zeros as equal. The expressions here follow SQL, so that every reader
returns the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from blockstore.predicate.literals import Kind, kind_of, unit_ns
from blockstore.predicate.nodes import (
    Always,
    And,
    Column,
    Compare,
    Key,
    Node,
    OneOf,
    Op,
    Or,
    Prefix,
    columns_of,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc

_FUNCTIONS = {
    Op.EQ: "equal",
    Op.NE: "not_equal",
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
}


def to_expression(node: Node) -> pc.Expression:
    """Return the expression; a dot in a column's name is part of the name."""
    import pyarrow.compute as pc

    return _built(node, pc.field, pc.scalar)


def to_mask(node: Node, rows: pa.RecordBatch) -> pa.Array:
    """Return the value of the condition for each row: true, false or null.

    The same as filtering by the expression, without the engine that Arrow loads for expressions: a
    tenth of a second in a fresh process.
    """
    found = _built(node, rows.column, pa.scalar)
    return pa.repeat(found, rows.num_rows) if isinstance(found, pa.Scalar) else found


def _built(node: Node, column: Callable[[str], Any], constant: Callable[[bool], Any]) -> Any:
    """Apply Arrow's functions to what ``column`` and ``constant`` return: expressions, or
    values."""
    import pyarrow.compute as pc

    if isinstance(node, (And, Or)):
        parts = [_built(part, column, constant) for part in node.parts]
        return reduce(pc.and_kleene if isinstance(node, And) else pc.or_kleene, parts)
    if isinstance(node, Always):
        return constant(node.value)
    field = column(node.column.name)
    if isinstance(node, Compare):
        return _comparison(node, field)
    if isinstance(node, OneOf):
        found = pc.is_in(field, value_set=_value_set(node.column, node.keys))
        return pc.and_kleene(pc.invert(found), pc.is_valid(field)) if node.negated else found
    if isinstance(node, Prefix):
        found = pc.starts_with(field, pattern=node.prefix)
        return pc.invert(found) if node.negated else found
    return pc.is_valid(field) if node.negated else pc.is_null(field)


def to_scalar(type_: pa.DataType, key: Key) -> pa.Scalar:
    """Return the value of a key in a column's type."""
    if kind_of(type_) in (Kind.DATE, Kind.TIMESTAMP, Kind.TIME):
        assert isinstance(key, int)
        count = key // unit_ns(type_)
        return pa.scalar(count * 86_400_000 if pa.types.is_date64(type_) else count, type_)
    return pa.scalar(key, type_.value_type if pa.types.is_dictionary(type_) else type_)


def shown(expression: pc.Expression) -> str:
    """The expression as a text. pyarrow cuts long values by bytes, also within a character."""
    try:
        return str(expression)
    except UnicodeDecodeError as error:
        return bytes(error.object).decode(errors="replace")


def columns_of_expression(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns of ``schema`` that an expression refers to.

    Those are the columns without which it cannot be bound.
    """
    empty = schema.empty_table()

    def binds_without(names: list[str]) -> bool:
        try:
            empty.drop_columns(names).filter(expression)
        except pa.ArrowInvalid:
            return False
        return True

    def needed(names: list[str]) -> list[str]:
        if not names or binds_without(names):
            return []
        if len(names) == 1:
            return names
        middle = len(names) // 2
        return needed(names[:middle]) + needed(names[middle:])

    return needed(schema.names)


def _comparison(node: Compare, field: Any) -> Any:
    import pyarrow.compute as pc

    compare = getattr(pc, _FUNCTIONS[node.op])
    found = compare(field, to_scalar(node.column.type, node.key))
    if node.op in (Op.GT, Op.GE) and kind_of(node.column.type) is Kind.FLOAT:
        return pc.or_kleene(found, pc.is_nan(field))
    return found


def _value_set(column: Column, keys: tuple[Key, ...]) -> pa.Array:
    scalars = [to_scalar(column.type, key) for key in keys]
    if kind_of(column.type) is Kind.FLOAT and 0.0 in keys:
        scalars += [to_scalar(column.type, 0.0), to_scalar(column.type, -0.0)]
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.array(scalars, type_)


def names_of(node: Node) -> tuple[str, ...]:
    """Return the names of the tree's columns, each once, in order of appearance."""
    return tuple(dict.fromkeys(column.name for column in columns_of(node)))

"""A condition as a pyarrow expression: true for exactly the rows for which the tree is true.

Arrow compares floats by IEEE 754 and finds 0.0 but not -0.0 in a set; SQL engines order NaN above
everything and treat both zeros as equal. The expressions here follow SQL, so that every reader
returns the same rows.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

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


def to_expression(node: Node) -> pc.Expression:
    """Return the expression; a dot in a column's name is part of the name."""
    import pyarrow.compute as pc

    if isinstance(node, And):
        return reduce(and_, map(to_expression, node.parts))
    if isinstance(node, Or):
        return reduce(or_, map(to_expression, node.parts))
    if isinstance(node, Always):
        return pc.scalar(node.value)
    field = pc.field(node.column.name)
    if isinstance(node, Compare):
        return _comparison(node, field)
    if isinstance(node, OneOf):
        found = field.isin(_value_set(node.column, node.keys))
        return ~found & field.is_valid() if node.negated else found
    if isinstance(node, Prefix):
        found = pc.starts_with(field, pattern=node.prefix)
        return ~found if node.negated else found
    return field.is_valid() if node.negated else field.is_null()


def to_scalar(type_: pa.DataType, key: Key) -> pa.Scalar:
    """Return the value of a key in a column's type."""
    if kind_of(type_) in (Kind.DATE, Kind.TIMESTAMP, Kind.TIME):
        assert isinstance(key, int)
        count = key // unit_ns(type_)
        return pa.scalar(count * 86_400_000 if pa.types.is_date64(type_) else count, type_)
    return pa.scalar(key, type_.value_type if pa.types.is_dictionary(type_) else type_)


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


def _comparison(node: Compare, field: pc.Expression) -> pc.Expression:
    import pyarrow.compute as pc

    value = to_scalar(node.column.type, node.key)
    if node.op is Op.EQ:
        return field == value
    if node.op is Op.NE:
        return field != value
    if node.op is Op.LT:
        return field < value
    if node.op is Op.LE:
        return field <= value
    greater = field > value if node.op is Op.GT else field >= value
    if kind_of(node.column.type) is Kind.FLOAT:
        return greater | pc.is_nan(field)
    return greater


def _value_set(column: Column, keys: tuple[Key, ...]) -> pa.Array:
    scalars = [to_scalar(column.type, key) for key in keys]
    if kind_of(column.type) is Kind.FLOAT and 0.0 in keys:
        scalars += [to_scalar(column.type, 0.0), to_scalar(column.type, -0.0)]
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.array(scalars, type_)


def names_of(node: Node) -> tuple[str, ...]:
    """Return the names of the tree's columns, each once, in order of appearance."""
    return tuple(dict.fromkeys(column.name for column in columns_of(node)))

"""Parses conditions: from SQL text, a syntax tree, filters or a pyarrow expression to a
``Predicate``.

Rules:
- A condition keeps the rows for which it is true; null and false both drop a row.
- Pruning never drops a matching row, whatever the condition. A pyarrow expression is applied
  exactly and not pruned.
- Names are matched as SQL engines do: exactly, else regardless of case; a quoted name may hold any
  character.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.predicate import arrow, literals, prune
from blockstore.predicate.literals import Kind, kind_of, one_of
from blockstore.predicate.nodes import (
    FALSE,
    TRUE,
    Column,
    IsNull,
    Node,
    Op,
    Prefix,
    conjunction,
    find_column,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from sqlglot import exp

_SETS = {"in": False, "not in": True}
_NULLS = {"is null": False, "is not null": True}
_PREFIX = "starts with"

Condition: TypeAlias = "str | pc.Expression | Predicate | None"
"""What a caller may pass as ``where``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A condition on the rows of one schema: ``node`` and ``extra`` must both be true."""

    node: Node = TRUE
    extra: pc.Expression | None = None
    """A pyarrow expression, applied as it is and not used for pruning."""
    extra_columns: tuple[str, ...] = ()
    exact: bool = True
    """False: weaker than the given condition, for pruning only."""

    @property
    def everything(self) -> bool:
        """Whether every row is kept."""
        return self.node == TRUE and self.extra is None

    @property
    def expression(self) -> pc.Expression:
        """The condition for pyarrow, over a table that has the schema's columns."""
        if self.extra is None:
            return arrow.to_expression(self.node)
        return self.extra if self.node == TRUE else arrow.to_expression(self.node) & self.extra

    def filtered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        if self.extra is None:
            return rows.filter(arrow.to_mask(self.node, rows))
        return rows.filter(self.expression)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read to evaluate it, each once."""
        return tuple(dict.fromkeys((*arrow.names_of(self.node), *self.extra_columns)))

    def may(self, bounds_of: prune.BoundsOf) -> bool:
        """Return whether rows within bounds could be kept."""
        return prune.may(self.node, bounds_of)

    def must(self, bounds_of: prune.BoundsOf) -> bool:
        """Return whether all rows within bounds are certainly kept."""
        return self.extra is None and self.exact and prune.must(self.node, bounds_of)

    def hull(self, column: str) -> prune.Hull:
        """Return the range of a column that kept rows can have."""
        return prune.hull(self.node, column)

    def also(self, other: Predicate) -> Predicate:
        """Return the conjunction of both conditions."""
        both = [extra for extra in (self.extra, other.extra) if extra is not None]
        return Predicate(
            node=conjunction(self.node, other.node),
            extra=both[0] & both[1] if len(both) == 2 else both[0] if both else None,
            extra_columns=(*self.extra_columns, *other.extra_columns),
            exact=self.exact and other.exact,
        )


def parse(condition: Condition, schema: pa.Schema) -> Predicate:
    """Return the condition over the columns of ``schema``.

    Raises Invalid, with the position, for what is outside the subset, names a column that does not
    exist, or does not fit a column's type.
    """
    if condition is None:
        return Predicate()
    if isinstance(condition, Predicate):
        return condition
    import pyarrow.compute as pc

    if isinstance(condition, pc.Expression):
        return _parse_expression(condition, schema)
    node = _plain(condition, schema)
    if node is not None:
        return Predicate(node=node)
    from blockstore.predicate.translate import Translator

    return Predicate(node=Translator(schema).node(syntax_tree(condition)))


def parse_weakened(
    condition: str | exp.Expression, schema: pa.Schema, *, qualifiers: Iterable[str] = ()
) -> Predicate:
    """Return a weaker condition for pruning: it keeps every row that ``condition`` keeps.

    Takes SQL text (DuckDB's dialect) or a sqlglot tree; ``qualifiers`` are the table's name and
    aliases, lower case.
    """
    node = _plain(condition, schema)
    if node is not None:
        return Predicate(node=node)
    from blockstore.predicate.translate import Translator

    translator = Translator(schema, weaken=True, qualifiers=frozenset(qualifiers))
    node = translator.node(syntax_tree(condition) if isinstance(condition, str) else condition)
    return Predicate(node=node, exact=not translator.weakened)


def parse_filters(filters: Iterable[tuple[str, str, Any]], schema: pa.Schema) -> Predicate:
    """Return the conjunction of ``(column, op, value)`` with Python values.

    ``op`` is ``=  <>  <  <=  >  >=  in  not in  is null  is not null`` or ``starts with``.
    """
    return Predicate(node=conjunction(*(_filter(schema, *given) for given in filters)))


def between(column: str, schema: pa.Schema, start: object, end: object) -> Predicate:
    """Return ``start <= column < end``; None leaves a side open."""
    bounds = [
        (column, op, value) for op, value in ((Op.GE, start), (Op.LT, end)) if value is not None
    ]
    return parse_filters([(name, str(op), value) for name, op, value in bounds], schema)


def _filter(schema: pa.Schema, name: str, op: str, value: Any) -> Node:
    """Return one condition; raise Invalid with the column, what was found and what is expected."""
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


def _plain(condition: object, schema: pa.Schema) -> Node | None:
    """Return a condition that needs no SQL parser; None for all others."""
    if not isinstance(condition, str):
        return None
    from blockstore.predicate.plain import plain

    return plain(condition, schema)


def _parse_expression(expression: pc.Expression, schema: pa.Schema) -> Predicate:
    text = arrow.shown(expression)
    if "FieldPath(" in text:
        # What is read has other columns in other places.
        raise Invalid(f"the expression {text} names a column by its place: name it")
    try:
        kept = schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError) as error:
        raise Invalid(
            f"cannot apply the expression {text} to the columns "
            f"{', '.join(schema.names[:20])}: {error}"
        ) from None
    del kept
    return Predicate(
        extra=expression, extra_columns=tuple(arrow.columns_of_expression(expression, schema))
    )


def syntax_tree(text: str) -> exp.Expression:
    """Return the syntax tree of one condition. Raises Invalid, with the position."""
    if not isinstance(text, str):
        raise Invalid(
            f"a condition is {type(text).__name__}, expected SQL text or a pyarrow expression"
        )
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError

    from blockstore.predicate.syntax import Dialect

    try:
        trees = sqlglot.parse(text, dialect=Dialect)
    except ParseError as error:
        where = error.errors[0] if error.errors else {}
        near = where.get("highlight") or text
        raise Invalid(
            f"cannot read the condition {text!r} at line {where.get('line', 1)}, column "
            f"{where.get('col', 1)}, near {near!r}: expected SQL such as origin = 'JFK' AND "
            "dep_delay > 60"
        ) from None
    except (SqlglotError, RecursionError) as error:
        raise Invalid(
            f"cannot read the condition {text[:200]!r}: {str(error).splitlines()[0]}; "
            "expected SQL such as origin = 'JFK' AND dep_delay > 60"
        ) from None
    if len(trees) > 1:
        raise Invalid(
            f"the condition {text[:200]!r} has {len(trees)} statements, expected one condition: "
            "join conditions with AND"
        )
    if not trees or trees[0] is None:
        raise Invalid(
            f"the condition {text[:200]!r} is empty, expected SQL such as origin = 'JFK', or no "
            "condition"
        )
    tree: Any = trees[0]
    return tree

"""SQL syntax trees (sqlglot's) turned into conditions.

NOT is pushed down to the leaves, so that a part that is not understood can count as TRUE anywhere:
that can only keep more rows. The caller chooses whether it counts as TRUE (``weaken``) or raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
from sqlglot import exp

from blockstore.errors import Invalid
from blockstore.predicate import literals
from blockstore.predicate.literals import Kind, Literal, Temporal, kind_of, one_of
from blockstore.predicate.nodes import (
    FALSE,
    TRUE,
    Column,
    Compare,
    IsNull,
    Node,
    Op,
    Prefix,
    conjunction,
    disjunction,
    find_column,
)
from blockstore.predicate.syntax import (
    ALLOWED,
    NotUnderstood,
    bare,
    holds_column,
    is_double,
    literal,
    position,
    refuse,
    split_pattern,
    text,
)

_OPS = {exp.EQ: Op.EQ, exp.NEQ: Op.NE, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE}

_KNOWN_ARGS = frozenset(
    {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
)
"""The parts of a syntax tree that are read; any other part changes the meaning, so it is not
understood."""


@dataclass(slots=True)
class Translator:
    """Translates the parts of one condition over one schema."""

    schema: pa.Schema
    weaken: bool = False
    """Count what is not understood as TRUE instead of raising Invalid."""
    qualifiers: frozenset[str] = frozenset()
    """Names by which a column may be qualified: the table's, or its alias."""
    weakened: bool = field(default=False, init=False)
    """Whether anything was counted as TRUE."""

    def node(self, tree: exp.Expression, negated: bool = False) -> Node:
        """Return the condition of a syntax tree, or its negation."""
        if isinstance(tree, exp.Paren):
            return self.node(tree.this, negated)
        if isinstance(tree, exp.Not):
            return self.node(tree.this, not negated)
        if isinstance(tree, exp.And | exp.Or):
            parts = [self.node(cast(exp.Expression, part), negated) for part in tree.flatten()]
            return (conjunction if isinstance(tree, exp.And) != negated else disjunction)(*parts)
        try:
            return self._leaf(tree, negated)
        except NotUnderstood as error:
            if not self.weaken:
                raise Invalid(f"cannot use the condition{position(tree)}: {error}") from None
            self.weakened = True
            return TRUE

    def _leaf(self, tree: exp.Expression, negated: bool) -> Node:
        if any(value for name, value in tree.args.items() if name not in _KNOWN_ARGS):
            refuse(f"found {text(tree)}; {ALLOWED}")
        if self.weaken and any(map(is_double, tree.find_all(exp.Literal))):
            refuse(
                "engines compare a number with an exponent, or of more than 38 digits, as a "
                "double, which rounds the column's values"
            )
        negated ^= bool(tree.args.get("negate"))
        if isinstance(tree, exp.Boolean):
            return TRUE if bool(tree.this) != negated else FALSE
        if isinstance(tree, exp.Null):
            return FALSE
        if isinstance(tree, exp.Column):
            return self._compare(tree, Op.EQ, not negated)
        for kind, op in _OPS.items():
            if type(tree) is kind:
                return self._comparison(tree, op.negated if negated else op)
        if isinstance(tree, exp.NullSafeEQ | exp.NullSafeNEQ):
            return self._distinct(tree, distinct=isinstance(tree, exp.NullSafeNEQ) != negated)
        if isinstance(tree, exp.Between):
            return self._between(tree, negated)
        if isinstance(tree, exp.In):
            return self._in(tree, negated)
        if isinstance(tree, exp.Is):
            return self._is(tree, negated)
        if isinstance(tree, exp.Like | exp.Escape):
            return self._like(tree, negated)
        return refuse(f"found {text(tree)}; {ALLOWED}")

    def _comparison(self, tree: exp.Expression, op: Op) -> Node:
        left, right = bare(tree.this), bare(tree.expression)
        if not holds_column(left):
            left, right, op = right, left, op.flipped
        return self._compare(left, op, literal(right))

    def _compare(self, tree: exp.Expression, op: Op, value: Literal | None) -> Node:
        column = self._column(tree)
        if value is None:
            return FALSE
        return _typed(column, value, lambda: literals.compare(column, op, value))

    def _distinct(self, tree: exp.Expression, distinct: bool) -> Node:
        left, right = bare(tree.this), bare(tree.expression)
        if not holds_column(left):
            left, right = right, left
        value = literal(right)
        if value is None:
            return IsNull(self._column(left), negated=distinct)
        if distinct:
            return disjunction(self._compare(left, Op.NE, value), IsNull(self._column(left)))
        return self._compare(left, Op.EQ, value)

    def _between(self, tree: exp.Between, negated: bool) -> Node:
        subject = bare(tree.this)
        low, high = literal(bare(tree.args["low"])), literal(bare(tree.args["high"]))
        if negated:
            return disjunction(
                self._compare(subject, Op.LT, low), self._compare(subject, Op.GT, high)
            )
        return conjunction(self._compare(subject, Op.GE, low), self._compare(subject, Op.LE, high))

    def _in(self, tree: exp.In, negated: bool) -> Node:
        column = self._column(bare(tree.this))
        values = [literal(bare(value)) for value in tree.expressions]
        return _typed(column, values, lambda: one_of(column, values, negated))

    def _is(self, tree: exp.Is, negated: bool) -> Node:
        column, what = self._column(bare(tree.this)), tree.expression
        if isinstance(what, exp.Not):
            what, negated = what.this, not negated
        if isinstance(what, exp.Null):
            return IsNull(column, negated)
        if isinstance(what, exp.Boolean) and kind_of(column.type) is Kind.BOOLEAN:
            if negated:
                return disjunction(Compare(column, Op.NE, bool(what.this)), IsNull(column))
            return Compare(column, Op.EQ, bool(what.this))
        return refuse(f"found {text(tree)}, expected IS [NOT] NULL")

    def _like(self, tree: exp.Expression, negated: bool) -> Node:
        escape = ""
        if isinstance(tree, exp.Escape):
            tree, escape = tree.this, str(tree.expression.this)
            negated ^= bool(tree.args.get("negate"))
        if type(tree) is not exp.Like:
            refuse(f"found {text(tree)}; {ALLOWED}")
        column, pattern = self._column(bare(tree.this)), literal(bare(tree.expression))
        if pattern is None:
            return FALSE
        if kind_of(column.type) is not Kind.STRING or not isinstance(pattern, str):
            refuse(f"LIKE needs a text column and a text, but {column.name!r} is {column.type}")
        prefix, rest = split_pattern(pattern, escape)
        if rest == "":
            return Compare(column, Op.NE if negated else Op.EQ, prefix)
        if rest != "%":
            refuse(
                f"LIKE {pattern!r} is not a prefix, expected a text with one % at its end, such as "
                "'abc%'"
            )
        if not prefix:
            return FALSE if negated else IsNull(column, negated=True)
        return Prefix(column, prefix, negated)

    def _column(self, tree: exp.Expression) -> Column:
        if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
            refuse(f"found {text(tree)} where a column is expected; {ALLOWED}")
        parts = [part.name for part in tree.parts]
        if len(parts) > 1 and ".".join(parts[:-1]).lower() not in self.qualifiers:
            quoted = ".".join(parts).replace('"', '""')
            refuse(
                f"found {text(tree)}: fields inside a column cannot be selected; "
                f'if the dot is part of a column\'s name, quote the name: "{quoted}"'
            )
        column = find_column(self.schema, parts[-1])
        if column is None:
            refuse(f"there is no column {parts[-1]!r}, expected one of {_names(self.schema)}")
        return column


def _typed(column: Column, found: object, build: Callable[[], Node]) -> Node:
    try:
        return build()
    except ValueError as error:
        refuse(f"column {column.name!r} is {column.type}, found {_shown(found)}, expected {error}")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, Temporal):
        return f"a {value.kind}"
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _names(schema: pa.Schema) -> str:
    names = [repr(name) for name in schema.names[:20]]
    return ", ".join(names) + (f" and {len(schema) - 20} more" if len(schema) > 20 else "")

"""The names of a query's columns that have no alias, as PostgreSQL gives them: clients read
``version`` of ``SELECT version()``.

Rule: an expression has the name of its function, its cast or its column; ``?column?`` without one.
"""

from __future__ import annotations

import re

from sqlglot import exp

from blockstore.reader.postgres.trees import type_name

_NOTHING = "?column?"
_CALLED = re.compile(r"(?:\w+\.)*(\w+)\(")
_WITHIN = (exp.Paren, exp.Collate, exp.Bracket, exp.Window, exp.Filter, exp.WithinGroup)
_KINDS = {
    "INT": "int4",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "SMALLINT": "int2",
    "BOOLEAN": "bool",
    "DOUBLE": "float8",
    "FLOAT": "float4",
    "REAL": "float4",
    "DECIMAL": "numeric",
}
_CALLS = {"trim": "btrim", "listagg": "string_agg"}


def name_results(tree: exp.Expression) -> None:
    """Give each column of each SELECT its name."""
    for select in tree.find_all(exp.Select):
        made = []
        for one in select.expressions:
            plain = isinstance(one, exp.Alias | exp.Aliases | exp.Column | exp.Star)
            if plain or one.is_star or not isinstance(one, exp.Expression):
                made.append(one)
            else:
                made.append(exp.alias_(one, _named(one) or _NOTHING, quoted=True, copy=False))
        select.set("expressions", made)


def _named(node: exp.Expression | None) -> str:
    """The name of an expression; empty for one that has none."""
    return _own(node) or (_second(node) if node is not None else "")


def _own(node: exp.Expression | None) -> str:
    """The name of a column or a function."""
    if isinstance(node, _WITHIN):
        return _own(node.this)
    if isinstance(node, exp.Cast):
        return _own(node.this)
    if isinstance(node, exp.Case):
        return _own(node.args.get("default"))
    if isinstance(node, exp.Column | exp.Alias):
        return node.alias_or_name
    if isinstance(node, exp.Dot):
        last = node.expression
        return _own(last) if isinstance(last, exp.Func) else last.name
    if isinstance(node, exp.Subquery):
        first = node.this.expressions[:1] if isinstance(node.this, exp.Select) else []
        return _named(first[0]) if first else ""
    if isinstance(node, exp.Exists):
        return "exists"
    if isinstance(node, exp.Array):
        return "array"
    if isinstance(node, exp.AtTimeZone):
        return "timezone"
    if not isinstance(node, exp.Func) or isinstance(node, exp.Binary):
        return ""
    found = _CALLED.match(node.sql(dialect="postgres"))
    low = (found[1] if found else node.sql_name()).lower()
    return _CALLS.get(low, low)


def _second(node: exp.Expression) -> str:
    """The name where neither a column nor a function gives one."""
    if isinstance(node, exp.Paren | exp.Collate):
        return _second(node.this)
    if isinstance(node, exp.Case):
        return "case"
    if isinstance(node, exp.Interval):
        return "interval"
    if isinstance(node, exp.Cast):
        kind = node.to.expressions[0] if node.to.is_type("array") and node.to.expressions else None
        name = type_name(kind if isinstance(kind, exp.DataType) else node.to)
        return _KINDS.get(name, name.lower())
    return ""

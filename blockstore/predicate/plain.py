"""Plain conditions, read without the SQL parser, whose import takes longer than a small query.

A plain condition is ``column op literal``, ``column BETWEEN literal AND literal``, ``column IN
(literal, ...)`` or ``column IS [NOT] NULL``, or several of these with AND between them. The column
is a word or a quoted name; a literal is a number without an exponent, or a text without a quote or
a backslash in it.

Rules:
- What is read here means what the SQL parser reads in it; a test compares both.
- Everything else is None, and is left to the SQL parser: also what is wrong, so that there is one
  place for messages.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa

from blockstore.predicate import literals
from blockstore.predicate.literals import Literal, one_of
from blockstore.predicate.nodes import Column, IsNull, Node, Op, conjunction, find_column

__all__ = ["plain"]

_LITERAL = r"(?:-?[0-9]+(?:\.[0-9]+)?|'[^'\\]*')"
_SPACE = r"[ \t\r\n]"
_TERM = re.compile(
    rf"""
    (?P<column>[a-z_][a-z0-9_]*|"[^"\\]+"){_SPACE}*
    (?:
      (?P<op><=|>=|<>|!=|=|<|>){_SPACE}*(?P<value>{_LITERAL})
    | (?<={_SPACE})BETWEEN{_SPACE}+(?P<low>{_LITERAL}){_SPACE}+AND{_SPACE}+(?P<high>{_LITERAL})
    | (?<={_SPACE})IN{_SPACE}*\({_SPACE}*
      (?P<values>{_LITERAL}(?:{_SPACE}*,{_SPACE}*{_LITERAL})*){_SPACE}*\)
    | (?<={_SPACE})IS{_SPACE}+(?P<not>NOT{_SPACE}+)?NULL(?![a-z0-9_$])
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_AND = re.compile(rf"{_SPACE}+AND{_SPACE}+", re.IGNORECASE | re.ASCII)
_EACH = re.compile(_LITERAL)
_DIGITS_MOST = 38
"""A number of more digits is a double to engines."""
_WORDS = """
    alter analyze and any array as attach begin between cache call case comment commit connect
    connect_by_root copy create cross current_catalog current_date current_time
    current_timestamp current_user delete desc describe detach disconnect distinct drop else
    except execute explain false fetch for force from glob grant having if ilike inner insert
    install intersect into join kill lateral like list load localtime localtimestamp map merge
    not notnull null nullable object on only optimize or outer partitioned_by pivot pivot_wider
    positional pragma prepare qualify range regexp rename reset returning revoke rlike rollback
    row select session_user set show struct summarize table tablesample then true truncate
    uncache union unpivot update use using vacuum when where with xor
"""
_NOT_NAMES = frozenset(_WORDS.split())
"""Words that the SQL parser does not read as a column where they are not quoted."""


def plain(text: str, schema: pa.Schema) -> Node | None:
    """Return the condition over the columns of ``schema``; None unless it is a plain one that fits
    them."""
    text = text.strip(" \t\r\n")
    parts: list[Node] = []
    at = 0
    while (found := _TERM.match(text, at)) is not None:
        part = _part(found, schema)
        if part is None:
            return None
        parts.append(part)
        if found.end() == len(text):
            return conjunction(*parts)
        joint = _AND.match(text, found.end())
        if joint is None:
            return None
        at = joint.end()
    return None


def _part(found: re.Match[str], schema: pa.Schema) -> Node | None:
    column = _column(found["column"], schema)
    values = [_literal(one) for one in _EACH.findall(_written(found))]
    if column is None or None in values:
        return None
    try:
        return _node(found, column, [value for value in values if value is not None])
    except ValueError:
        return None


def _written(found: re.Match[str]) -> str:
    """Return the literals of a part, in order."""
    return found["values"] or " ".join(
        found[name] for name in ("value", "low", "high") if found[name] is not None
    )


def _node(found: re.Match[str], column: Column, values: list[Literal]) -> Node:
    if found["op"] is not None:
        op = Op.NE if found["op"] == "!=" else Op(found["op"])
        return literals.compare(column, op, values[0])
    if found["low"] is not None:
        return conjunction(
            literals.compare(column, Op.GE, values[0]), literals.compare(column, Op.LE, values[1])
        )
    if found["values"] is not None:
        return one_of(column, list(values), False)
    return IsNull(column, negated=found["not"] is not None)


def _column(written: str, schema: pa.Schema) -> Column | None:
    if written.startswith('"'):
        return find_column(schema, written[1:-1])
    return None if written.lower() in _NOT_NAMES else find_column(schema, written)


def _literal(written: str) -> Literal | None:
    """Return the literal, or None for a number that engines read as a double."""
    if written.startswith("'"):
        return written[1:-1]
    if sum(map(str.isdigit, written)) > _DIGITS_MOST:
        return None
    number = Decimal(written)
    # Zero has no sign, as in SQL.
    return number if number else number.copy_abs()

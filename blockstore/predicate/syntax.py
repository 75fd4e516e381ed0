"""Single pieces of SQL syntax trees (sqlglot's): literals, patterns, positions, and the text of a
piece.

``NotUnderstood`` is raised for a piece outside the subset; it never leaves this package.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from blockstore.predicate import literals
from blockstore.predicate.literals import Kind, Literal

ALLOWED = (
    "a condition consists of comparisons of one column with a literal (= <> < <= > >=), IN (...), "
    "BETWEEN, IS NULL, LIKE 'prefix%', AND, OR, NOT and parentheses"
)

_DECIMAL_DIGITS = 38
_DATE_TYPES = {exp.DataType.Type.DATE, exp.DataType.Type.DATE32}
_ZONED_TYPES = {exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ}
_TIMESTAMP_TYPES = {
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.DATETIME,
    *_ZONED_TYPES,
}
_TIME_TYPES = {exp.DataType.Type.TIME}


class Dialect(DuckDB):
    """DuckDB's SQL as sqlglot reads it, and ``x'...'``, which DuckDB reads too."""

    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]


class NotUnderstood(Exception):
    """A part of a condition is outside the subset; the message is a sentence for people."""


def refuse(message: str) -> NoReturn:
    raise NotUnderstood(message)


def literal(tree: exp.Expression) -> Literal | None:
    """Return the literal of a syntax tree; None for NULL."""
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else _number(tree)
    if isinstance(tree, exp.HexString):
        return _bytes(str(tree.this))
    if isinstance(tree, exp.Neg) and isinstance(bare(tree.this), exp.Literal | exp.Neg):
        inner = literal(bare(tree.this))
        if isinstance(inner, Decimal):
            # Not -inner, which rounds to 28 digits; zero has no sign, as in SQL.
            return inner.copy_negate() if inner else inner
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal) and tree.this.is_string:
        return _typed_literal(tree)
    return refuse(f"found {text(tree)} where a literal is expected; {ALLOWED}")


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        refuse(f"found x'{digits[:40]}', expected two hexadecimal digits for each byte")


def _number(tree: exp.Literal) -> Decimal:
    try:
        return Decimal(str(tree.this))
    except ArithmeticError:
        refuse(f"found {text(tree)}, expected a number")


def _typed_literal(tree: exp.Cast) -> Literal:
    written, type_ = str(tree.this.this), tree.to.this
    try:
        if type_ in _TIMESTAMP_TYPES:
            return literals.moment(written, Kind.TIMESTAMP, zoned=type_ in _ZONED_TYPES)
        if type_ in _DATE_TYPES:
            return literals.moment(written, Kind.DATE)
        if type_ in _TIME_TYPES:
            return literals.moment(written, Kind.TIME)
    except ValueError as error:
        refuse(f"found {text(tree)}, expected {error}")
    return refuse(
        f"found {text(tree)}, expected a plain literal, or DATE '...', TIMESTAMP '...', TIME '...'"
    )


def is_double(tree: exp.Literal) -> bool:
    """Return whether engines read the number as a double: it has an exponent, or more digits than a
    decimal can have."""
    written = str(tree.this).lower()
    return not tree.is_string and (
        "e" in written or sum(map(str.isdigit, written)) > _DECIMAL_DIGITS
    )


def split_pattern(pattern: str, escape: str) -> tuple[str, str]:
    """Return (the text before the first wildcard, the rest)."""
    prefix: list[str] = []
    characters = iter(enumerate(pattern))
    for at, character in characters:
        if escape and character == escape:
            prefix.append(next(characters, (0, ""))[1])
        elif character in "%_":
            return "".join(prefix), pattern[at:]
        else:
            prefix.append(character)
    return "".join(prefix), ""


def bare(tree: exp.Expression) -> exp.Expression:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def position(tree: exp.Expression) -> str:
    starts = [found.meta["start"] for found in tree.walk() if "start" in found.meta]
    return f" at character {min(starts) + 1}" if starts else ""


def text(tree: exp.Expression) -> str:
    sql = tree.sql(dialect="duckdb", comments=False)
    return sql if len(sql) <= 60 else sql[:57] + "..."


def holds_column(tree: exp.Expression) -> bool:
    """Return whether the piece contains a column."""
    return tree.find(exp.Column) is not None

"""Plain names in the clauses of a MERGE.

A clause of rows that are not matched is about one side alone, so a plain name there means that
side's column, also where the other side has one of the same name. The SELECT that a merge becomes
has both sides at once. So such a name gets its side before it.

Rules:
- A name is given a side only if both sides have it: it would be ambiguous otherwise. All else
  reaches DuckDB as it was written.
- In a query of its own, and in an expression with a lambda, names may mean other things: they are
  left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.clauses import Clause, Merge, When
from blockstore.reader.statements.tokens import Piece, Token, tokens_of
from blockstore.reader.tables.names import folded

_WORD = re.compile(r"[^\W\d]\w*")
_NOT_BEFORE = frozenset({".", "::", "AS"})
_NOT_AFTER = frozenset({".", "(", ":", ":=", "=>", "->"})
_LAMBDA = frozenset({"LAMBDA", "->"})
_QUERY = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE"})
"""With what a query in parentheses begins."""

Offered = Callable[[], Sequence[str]]
"""Returns the columns of the source."""


def resolved(dml: Merge, columns: Sequence[str], alias: str, offered: Offered) -> Merge:
    """A merge whose plain names mean the columns that they mean in DuckDB. ``columns`` are those of
    the table, ``alias`` is the name of the source, quoted."""
    own = {folded(name) for name in columns}
    target = quoted(dml.target.alias)
    shared: set[str] | None = None

    def both() -> set[str]:
        nonlocal shared
        if shared is None:
            shared = own & {folded(name) for name in offered()}
        return shared

    def piece(one: Piece, side: str, names: Callable[[], set[str]]) -> Piece:
        places = [token for token in _plain(one) if folded(token.text) in own]
        found = [token for token in places if folded(token.text) in names()] if places else []
        return replaced(one, {token.start: f"{side}.{quoted(token.text)}" for token in found})

    def clause(one: Clause) -> Clause:
        names = both
        side = alias if one.when is When.NOT_MATCHED else target
        if one.when is When.MATCHED:
            # Both sides have the same value there, and DuckDB makes one column of them.
            joined = {folded(name) for name in dml.columns}
            names = joined.copy
        return replace(
            one,
            condition=one.condition and piece(one.condition, side, names),
            values=one.values and tuple(piece(value, side, names) for value in one.values),
            message=one.message and piece(one.message, side, names),
            assignments=one.assignments
            and tuple(
                replace(given, value=piece(given.value, side, names)) for given in one.assignments
            ),
        )

    return replace(dml, clauses=tuple(map(clause, dml.clauses)))


def replaced(piece: Piece, texts: dict[int, str]) -> Piece:
    """A piece with other texts in the place of tokens, by where these begin."""
    if not texts:
        return piece
    made, at = "", piece.start
    for token in piece.tokens:
        if token.start in texts:
            made += piece.source[at : token.start] + texts[token.start]
            at = token.end
    made += piece.source[at : piece.tokens[-1].end]
    return Piece(made, tokens_of(made))


def _plain(piece: Piece) -> list[Token]:
    """The tokens of a piece that can be plain names of columns."""
    tokens = piece.tokens
    if any(token.word in _LAMBDA for token in tokens):
        return []
    found = []
    query: int | None = None
    for place, token in enumerate(tokens):
        if query is not None:
            query = None if token.depth <= query else query
            continue
        if token.text == "(" and place + 1 < len(tokens) and tokens[place + 1].word in _QUERY:
            query = token.depth
            continue
        before = tokens[place - 1].word if place else ""
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if before in _NOT_BEFORE or token.is_text or not (token.text and _is_name(token)):
            continue
        # A type before a text, as DATE '2026-01-01', or the name of an argument or a table.
        if after is None or not (after.is_text or after.word in _NOT_AFTER):
            found.append(token)
    return found


def _is_name(token: Token) -> bool:
    return not token.word or _WORD.fullmatch(token.text) is not None

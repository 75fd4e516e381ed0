"""What a statement reads of the table that it changes, for the commit of one whose isolation is
``serializable``.

Rules:
- A new row's key is looked up by whoever writes it (``changing.py``), and is no read of the SELECT.
- An UPDATE or DELETE without subqueries and other tables reads the rows of its condition, which it
  writes; the condition may be weakened, never narrowed.
- Every other statement that names its own table reads all of it.
- What is read of other tables is not compared: each table has a history of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from blockstore.errors import Invalid
from blockstore.predicate import Predicate, parse_weakened
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.statements.clauses import Delete, Dml, Insert, Update
from blockstore.reader.statements.tokens import Piece
from blockstore.rows.seen import Seen
from blockstore.scan.snapshot import Snapshot

Own: TypeAlias = Callable[[Seen, Snapshot], None]
"""Notes what a statement reads of a snapshot of its own table."""

_NOT_PLAIN = ('"SUBQUERY"', '"error":true')
"""In the tree of DuckDB's parser: a subquery, or a text that is no expression. A text of the first
value is taken for one too."""


def EVERYTHING(seen: Seen, _: Snapshot) -> None:  # noqa: N802
    """All of it."""
    seen.everything()


def own_reads(dml: Dml, name: str, syntax: Syntax, *, own: bool) -> Own:
    """Return what notes the reads of a statement on the table ``name``; ``own`` says whether its
    SELECT names that table."""
    if isinstance(dml, Insert) and not own:
        return _nothing
    if not isinstance(dml, Update | Delete) or dml.others is not None or dml.withs:
        return EVERYTHING
    if not all(_is_plain(one, syntax) for one in _expressions(dml)):
        return EVERYTHING
    where = dml.where
    if where is None:
        return EVERYTHING
    qualifiers = (name.lower(), dml.target.alias.lower())

    def note(seen: Seen, snapshot: Snapshot) -> None:
        try:
            condition = parse_weakened(where.text, snapshot.columns.all, qualifiers=qualifiers)
        except Invalid:
            condition = Predicate()
        seen.where(condition)

    return note


def _is_plain(piece: Piece, syntax: Syntax) -> bool:
    """Whether an expression reads nothing but its row."""
    if piece.word == "DEFAULT":
        return True
    tree = syntax(f"SELECT {piece.text}")
    return not any(one in tree for one in _NOT_PLAIN)


def _expressions(dml: Update | Delete) -> Iterator[Piece]:
    if dml.where is not None:
        yield dml.where
    if dml.returning is not None:
        yield dml.returning
    if isinstance(dml, Update):
        yield from (one.value for one in dml.assignments)


def _nothing(_: Seen, __: Snapshot) -> None:
    """None of it."""

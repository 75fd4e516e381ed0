"""``DROP TABLE``: the clauses. What a drop does is the business of ``operations/drop.py``; ``CALL
undrop`` takes it back."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.reader.statements.tokens import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """``DROP TABLE [IF EXISTS] name``."""

    name: str
    if_exists: bool


def read_drop(source: str) -> Drop:
    """The clauses of a DROP TABLE. Raises BadSql for another DROP."""
    cursor = Cursor(source)
    cursor.need("DROP")
    if not cursor.take("TABLE"):
        raise cursor.wrong("only tables can be dropped: expected TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("a table")
    if not cursor.done:
        raise cursor.wrong("expected the end of the statement: one table in each DROP")
    return Drop(name=name, if_exists=if_exists)

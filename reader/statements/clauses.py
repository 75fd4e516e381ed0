"""Statements that change rows, as their clauses: which table, and which pieces of the text.

Nothing here is bound to a table, and nothing runs. What an expression means is DuckDB's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from blockstore.reader.statements.tokens import Piece


class OnConflict(StrEnum):
    """What an insert does with a row whose key exists."""

    FAIL = "fail"
    NOTHING = "nothing"
    UPDATE = "update"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table of a statement."""

    name: str
    alias: str
    """By which the statement's expressions name it."""
    at: int
    """Where it is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One ``column = value``."""

    column: str
    at: int
    value: Piece
    """The only word DEFAULT means the default of the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """What all of them have."""

    source: str
    target: Target
    withs: str = ""
    """``WITH …`` before the statement, as it was written."""
    returning: Piece | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(Clauses):
    """``INSERT INTO``."""

    columns: tuple[str, ...] | None = None
    by_name: bool = False
    rows: Piece | None = None
    """VALUES or a query; None: one row of defaults."""
    on_conflict: OnConflict = OnConflict.FAIL
    conflict_columns: tuple[str, ...] | None = None
    assignments: tuple[Assignment, ...] = ()
    where: Piece | None = None
    """The condition of DO UPDATE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Clauses):
    """``UPDATE``."""

    assignments: tuple[Assignment, ...]
    others: Piece | None = None
    """What FROM names."""
    where: Piece | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Clauses):
    """``DELETE FROM``, and ``TRUNCATE``."""

    others: Piece | None = None
    """What USING names."""
    where: Piece | None = None
    truncates: bool = False


class When(StrEnum):
    """The rows that a clause of a merge is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    BY_SOURCE = "not matched by source"


class Act(StrEnum):
    """What a clause of a merge does."""

    UPDATE = "update"
    INSERT = "insert"
    DELETE = "delete"
    NOTHING = "nothing"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One WHEN of a merge."""

    when: When
    condition: Piece | None
    act: Act
    assignments: tuple[Assignment, ...] | None = None
    """None: all columns of the source, by name or by position."""
    by_name: bool = False
    values: tuple[Piece, ...] | None = None
    """Of an insert, for ``columns``; None: as ``assignments``."""
    columns: tuple[str, ...] | None = None
    defaults: bool = False
    """INSERT DEFAULT VALUES."""
    message: Piece | None = None
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Clauses):
    """``MERGE INTO``."""

    using: Piece
    using_alias: str
    condition: Piece | None
    columns: tuple[str, ...] = ()
    """Those of ``USING (…)`` in the place of a condition."""
    clauses: Sequence[Clause] = field(default_factory=tuple)


Dml: TypeAlias = Insert | Update | Delete | Merge

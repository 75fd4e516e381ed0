"""A statement that a client has prepared: what it is, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blockstore.reader.postgres.backends import Ending
from blockstore.reader.postgres.texts import Kind, Part
from blockstore.reader.postgres.wire import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """A query in the engine's SQL, and the catalogs that it names."""

    sql: str
    catalogs: tuple[str, ...] = ()
    translated: bool = False
    """Whether it is another text than the client's."""
    endings: tuple[Ending, ...] = ()
    """Its columns that cancel or end sessions."""


@dataclass(kw_only=True)
class Prepared:
    """A prepared statement."""

    part: Part
    types: Sequence[int]
    """The types of its parameters, as far as the client has given them; 0 where it has not."""
    sent: str = ""
    """The text as the client sent it, with its comments; empty if it is one of several."""
    resolved: tuple[int, ...] | None = None
    """The types of all parameters, once they are known."""
    spelled: Spelled | None = None
    """The statement in the engine's SQL, once it is known."""
    columns: list[Column] | None = None
    """The columns of its rows, once it was described; None if it returns none."""
    described: bool = False

    @property
    def text(self) -> str:
        """The text in which an error has its place; empty if what runs is another one."""
        translated = self.spelled is not None and self.spelled.catalogs
        return "" if translated else self.part.sql

    @property
    def returns_rows(self) -> bool:
        """Whether it may return rows."""
        rows = (Kind.QUERY, Kind.SHOW, Kind.FETCH, Kind.EXPLAIN)
        return self.part.kind in rows or self.returning

    @property
    def returning(self) -> bool:
        """Whether it changes rows and returns them."""
        return self.part.kind is Kind.CHANGE and "RETURNING" in self.part.words

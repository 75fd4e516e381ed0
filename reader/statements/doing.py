"""What statements run with: the tables that they may change, and what a caller says of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.index.change import Done
from blockstore.index.rules import batch_done
from blockstore.reader.query.admission import Budget
from blockstore.rows.attempts import Said
from blockstore.table import Table

_QUOTED = 2_000
"""So many characters of a statement are kept in the entry that it makes."""

Parameters: TypeAlias = Sequence[object] | Mapping[str, object] | None


class Tables(Protocol):
    """Where the tables are: an engine's source that can be written."""

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """All tables that the caller may see."""
        ...

    def open(self, name: str) -> Table:
        """A handle on a table. Raises UnknownTable."""
        ...

    def done(self, name: str, job: Job) -> Done | None:
        """What a job has done to a table, be it dropped; None if it has done nothing, or there is
        no such table."""
        ...

    def create(self, name: str, definition: Definition, job: Job | None = None) -> Table:
        """Create an empty table. Raises AlreadyExists."""
        ...

    def drop(self, name: str, message: str, job: Job | None = None) -> int:
        """Drop a table; return the version that did it."""
        ...

    def replace(
        self, name: str, definition: Definition, message: str, job: Job | None = None
    ) -> Table:
        """Drop a table, and create an empty one in its place."""
        ...

    def take_away(self, table: Table, message: str) -> None:
        """Drop a table that was created just now, if it is still empty."""
        ...

    def undrop(self, name: str, message: str, job: Job | None = None) -> int:
        """Bring a dropped table back; return the version that did it."""
        ...


class ExistingTables(ABC):
    """Tables that statements may change, while none is created, dropped or brought back."""

    @abstractmethod
    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]: ...

    @abstractmethod
    def open(self, name: str) -> Table: ...

    def done(self, name: str, job: Job) -> Done | None:
        table = self.open(name)
        return batch_done(table.log.poll(), job, ordered=True) if table.indexed else None

    def create(self, name: str, definition: Definition, job: Job | None = None) -> Table:
        raise Invalid(f"table {name} cannot be created here: send CREATE TABLE alone")

    def drop(self, name: str, message: str, job: Job | None = None) -> int:
        raise Invalid(f"table {name} cannot be dropped here: send DROP TABLE alone")

    def replace(
        self, name: str, definition: Definition, message: str, job: Job | None = None
    ) -> Table:
        raise Invalid(f"table {name} cannot be replaced here: send CREATE OR REPLACE TABLE alone")

    def take_away(self, table: Table, message: str) -> None:
        raise Invalid(f"table {table.name} cannot be dropped here: send DROP TABLE alone")

    def undrop(self, name: str, message: str, job: Job | None = None) -> int:
        raise Invalid(f"table {name} cannot be brought back here: send UNDROP alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """What the merges of ``CALL compact`` may use."""

    memory_bytes: int | None
    """None: what the environment of a compactor says."""
    folder: Path
    """For what does not fit into memory."""
    merged: Callable[[int], None]
    """Receives the rows of each merge that was committed; what it raises ends the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a caller says of a statement."""

    parameters: Parameters = None
    job: Job | None = None
    message: str = ""
    allowed: Collection[str] | None = None
    """The tables that this caller may see; None for all."""
    budget: Budget | None = None
    began: Callable[[Callable[[], None]], None] | None = None
    """Receives a function that stops the statement's query from any thread, each time before one
    runs."""
    advance: Callable[[int], None] | None = None
    """Receives how many rows of a statement were computed, batch by batch."""
    buffer_bytes: int = 256 << 20
    """Changed rows of about so many bytes are sorted into one chunk."""
    merging: Callable[[], AbstractContextManager[Merging]] | None = None
    """Opened while ``CALL compact`` merges; None: merges use what the environment of a compactor
    says."""
    commits: threading.Event | None = None
    """Set while what was computed is committed: from then on nothing may interrupt the
    statement."""

    def committing(self, event: threading.Event) -> Doing:
        """The same with an event that is set for a commit."""
        return replace(self, commits=event)

    def marks(self, commits: bool) -> None:
        """Say whether what was computed is being committed."""
        if self.commits is not None:
            (self.commits.set if commits else self.commits.clear)()

    @contextmanager
    def whole(self, is_so: bool) -> Iterator[None]:
        """A context in which nothing may interrupt the statement, if so."""
        self.marks(is_so)
        try:
            yield
        finally:
            self.marks(False)

    def said(self, sql: str) -> Said:
        """The same for an operation on rows that carries out these statements."""
        return Said(
            job=self.job,
            message=self.message,
            parameters={"statement": sql[:_QUOTED]},
            buffer_bytes=self.buffer_bytes,
        )

"""What was requested and what came back: the books that the oracle compares the table with.

A *write* is a handful of rows with one number; it is there completely or not at all, and once. Its
fate is OPEN until its caller has a certain result: ACKNOWLEDGED writes must be readable, REFUSED
ones must never be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.format.block import Job
from blockstore.simulation.changes import Counted, RowOperation

ROWS = 4
"""Rows of a write: two chunks of two."""


class Fate(StrEnum):
    """What the caller of a write knows."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(slots=True)
class Write:
    """One write."""

    number: int
    at_ms: int
    """The event time of its rows."""
    job: Job | None = None
    fate: Fate = Fate.OPEN
    acknowledged_ms: int | None = None
    published: bool = False
    """Whether its caller got the result that it is in the index."""

    def key(self, row: int) -> int:
        """The value of column ``key`` in one of its rows, by which conditions pick rows."""
        return (self.number * 7 + row * 3) % 10


@dataclass(slots=True)
class Intent:
    """An operation that changes rows, by the message of its entry."""

    operation: str
    message: str
    begun_ms: int
    key: int | None = None
    """Its condition, ``key = …``."""
    only: int | None = None
    """Its condition, ``write = …``; with neither it is about all rows."""
    sources: tuple[str, ...] = ()
    version: int | None = None
    write: Write | None = None
    """The rows that it brings."""
    read: int | None = None
    """The version that its caller has read before, and named."""
    rows: RowOperation | None = None
    """What it does where rows have an identity."""
    job: Job | None = None
    counted: Counted | None = None
    """The rows that its entry changes, by kind of change."""
    fate: Fate = Fate.OPEN
    versions: list[int] = field(default_factory=list)
    """The entries that it became."""
    nothing: int | None = None
    """The entry by which its job found nothing to do."""


@dataclass
class Ledger:
    """All writes and intents of one run."""

    writes: list[Write] = field(default_factory=list)
    intents: dict[str, Intent] = field(default_factory=dict)
    condemned: set[str] = field(default_factory=set)
    """Blocks that a person marked for deletion."""
    numbers: int = 0
    """How many numbers were drawn that rows of operations carry as their write."""
    jobs: dict[Job, Write] = field(default_factory=dict)
    """The writes of jobs that several processes do."""

    def intend(
        self,
        operation: str,
        now_ms: int,
        *,
        key: int | None = None,
        only: int | None = None,
        sources: tuple[str, ...] = (),
        version: int | None = None,
        write: Write | None = None,
        read: int | None = None,
        rows: RowOperation | None = None,
        job: Job | None = None,
    ) -> Intent:
        """Open the books for a new operation; its ``message`` is what the entry must carry."""
        message = f"intent {len(self.intents)}"
        self.intents[message] = Intent(
            operation, message, now_ms, key, only, sources, version, write, read, rows, job
        )
        return self.intents[message]

    def write(self, at_ms: int, job: Job | None = None) -> Write:
        """Open the books for a new write."""
        self.writes.append(Write(len(self.writes), at_ms, job))
        return self.writes[-1]

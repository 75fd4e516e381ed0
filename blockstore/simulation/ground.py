"""What all parts of one run share: its seed, its store, its time, its ledger, its trace.

Rule: nothing goes into the trace that may differ from one machine or process to another.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from blockstore.clock import ManualClock
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.ids import Ids
from blockstore.simulation.draw import subseed
from blockstore.simulation.faults import STALE_MS, Ask, Faults
from blockstore.simulation.ledger import Ledger
from blockstore.simulation.report import Report
from blockstore.simulation.schedule import Scheduler
from blockstore.simulation.store import Store
from blockstore.world import Serial, World

_KEPT = 3000


class Trace:
    """The events of one run."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[tuple[int, int, str, str]] = deque(maxlen=_KEPT)

    def add(self, step: int, now_ms: int, who: str, what: str) -> None:
        """Record one event."""
        self._tail.append((step, now_ms, who, what))
        self._hash.update(f"{step} {now_ms} {who} {what}\n".encode())

    @property
    def digest(self) -> str:
        """The hash of all events."""
        return self._hash.hexdigest()

    def tail(self, start_ms: int, count: int = _KEPT) -> list[str]:
        """The last events, one line each, with the time since the start."""
        return [
            f"{step:>7}  {_since(now_ms - start_ms):>14}  {who:<14} {what}"
            for step, now_ms, who, what in list(self._tail)[-count:]
        ]


def _since(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    days, seconds = divmod(seconds, 86_400)
    return f"{days}d{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


class Disasters(Protocol):
    """What replaces the table's history during a run (``replaced_history.py``)."""

    def pass_by(self, ask: Ask, key: str) -> None:
        """A request is about to be applied."""

    def at_night(self) -> None:
        """A night is over, and no process has begun anything yet."""

    def mend(self) -> None:
        """A person removes what stalled writers left above a gap."""

    def bring_back(self, ulids: Iterable[str]) -> None:
        """Put back what is gone of blocks that were complete in a bucket that was replaced."""


class Kind(StrEnum):
    """What kind of table the run is about."""

    INDEXED = "with an index"
    LISTED = "without an index"
    WITH_IDS = "of rows with ids"
    KEYED = "of rows with a key"

    @property
    def has_index(self) -> bool:
        """Whether the table has an index."""
        return self is not Kind.LISTED

    @property
    def has_identity(self) -> bool:
        """Whether its rows have an identity, and change."""
        return self in (Kind.WITH_IDS, Kind.KEYED)


WITH_INDEX = (Kind.INDEXED, Kind.WITH_IDS, Kind.KEYED)
APPENDED = (Kind.INDEXED, Kind.LISTED, Kind.WITH_IDS)
"""Tables to which rows are appended."""


@dataclass(kw_only=True)
class Ground:
    """One run, without its oracle."""

    seed: int
    kind: Kind
    properties: Properties
    scheduler: Scheduler
    store: Store
    faults: Faults
    trace: Trace = field(default_factory=Trace)
    report: Report = field(default_factory=Report)
    ledger: Ledger = field(default_factory=Ledger)
    definition: Definition | None = None
    era: int = 0
    """How often the history was replaced."""
    stale: bool = False
    """Whether the request that is being applied was decided, or sent, before the history was last
    replaced."""
    replacements: Disasters | None = None
    """The disasters of the run, if there are any."""
    crossing: bool = False
    """Whether the sender of that request, or another whose write it carries, began before that."""
    finishing: bool = False
    """Whether the run is coming to its end: nothing new begins, no fault strikes."""

    def world(self) -> World:
        """The world of a process outside of the run: a right clock, no fault."""
        clock = ManualClock(self.scheduler.now_ms)
        ids = Ids.seeded(clock, subseed(self.seed, self.era, clock.now_ms()))
        return World(clock=clock, ids=ids, pool=Serial())

    @property
    def promised_ms(self) -> int:
        """For how long a snapshot can be read."""
        properties = self.properties
        return round(1000 * (properties.delete_delay_s - properties.sync_delay_s)) - STALE_MS

    def expired(self, time_ms: int) -> bool:
        """Whether retention may have taken rows of this time out of the table."""
        retention_s = self.properties.retention_s
        return retention_s is not None and time_ms <= self.scheduler.now_ms - retention_s * 1000

    def note(self, who: str, what: str) -> None:
        """Add an event to the trace."""
        self.trace.add(self.scheduler.steps, self.scheduler.now_ms, who, what)

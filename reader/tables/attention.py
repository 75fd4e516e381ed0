"""Which tables of a gateway are polled, and of which something is kept in memory.

Rules:
- Polled is what was asked for lately, until it is idle. The first ``EAGER`` tables that are found
  are read once before they are asked for, so a small lake answers at once; the tables of a large
  one are read when they are first asked for.
- An idle table is forgotten, unless it is among the last ``EAGER`` that were asked for or read:
  memory does not grow with all tables that were ever asked for.
- A failure of the store is no longer said of an idle table; one of the table itself is.
- Every step costs as much as there are polled tables, however many there are in all.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

from blockstore.clock import Clock
from blockstore.reader.tables.held import HeldTable
from blockstore.reader.tables.polling import Polling

EAGER = 64


class Attention:
    """Safe to share between threads."""

    def __init__(self, polling: Polling, clock: Clock) -> None:
        self._polling = polling
        self._clock = clock
        self._lock = threading.Lock()
        self._polled: dict[str, HeldTable] = {}
        self._kept: dict[str, HeldTable] = {}
        """Those that were asked for last at the end."""
        self._eager: dict[str, HeldTable] = {}
        self._busy: set[str] = set()

    def found(self, tables: Iterable[HeldTable]) -> None:
        """New tables."""
        with self._lock:
            for held in tables:
                if len(self._eager) >= EAGER:
                    return
                self._eager[held.name] = self._polled[held.name] = self._kept[held.name] = held

    def asked(self, held: HeldTable) -> None:
        """A query asks for the table: poll it from now on, for a while."""
        with self._lock:
            self._polled[held.name] = held
            self._kept.pop(held.name, None)
            self._kept[held.name] = held

    def gone(self, held: HeldTable) -> None:
        """The table is no longer held."""
        with self._lock:
            for tables in (self._polled, self._kept, self._eager):
                if tables.get(held.name) is held:
                    del tables[held.name]

    @property
    def first_read(self) -> bool:
        """Whether the first tables were read, or tried."""
        with self._lock:
            return all(held.tried_s is not None for held in self._eager.values())

    @property
    def polled(self) -> int:
        """How many tables are polled."""
        return len(self._polled)

    def last(self, most: int) -> list[HeldTable]:
        """The tables that were asked for last, at most so many."""
        with self._lock:
            return list(self._kept.values())[-most:]

    def next_due_s(self) -> float:
        """When the next table is to be polled."""
        with self._lock:
            return min((held.due_s for held in self._polled.values()), default=math.inf)

    def take_due(self) -> HeldTable | None:
        """The table that is due for longest, until it is ``done``; None if none is due."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            idle = [held for held in self._polled.values() if self._idle(held, now_s)]
            for held in idle:
                del self._polled[held.name]
            due = [
                held
                for held in self._polled.values()
                if held.due_s <= now_s and held.name not in self._busy
            ]
            chosen = min(due, key=lambda held: held.due_s, default=None)
            if chosen is not None:
                self._busy.add(chosen.name)
        for held in idle:
            held.rest()
        return chosen

    def done(self, held: HeldTable) -> None:
        """The poll of a table that was taken has ended."""
        with self._lock:
            self._busy.discard(held.name)

    def forget_idle(self) -> None:
        """Drop what is known of the idle tables that were asked for longest ago."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            old = list(self._kept.values())[:-EAGER]
            idle = [held for held in old if self._idle(held, now_s)]
            for held in idle:
                del self._kept[held.name]
        for held in idle:
            held.forget()

    def _idle(self, held: HeldTable, now_s: float) -> bool:
        first = held.tried_s is None and held.name in self._eager
        return not first and self._polling.is_idle(held.asked_s, now_s)

"""What a running job tells of itself, and by what it learns that it should stop.

Rules: the worker counts and checks between batches; the keeper of its lease reads the counts and
sets the reason to stop. The first reason stands. What runs inside an engine, and checks nothing,
hands in how to interrupt it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum

from blockstore.clock import Clock
from blockstore.reader.jobs.record import Progress


class Stop(StrEnum):
    """Why a job should stop."""

    CANCELLED = "cancelled"
    LOST = "lost"
    """Another gateway has taken it over, or it ended elsewhere: nothing of it is to be told."""
    CLOSING = "closing"
    """This gateway ends; another will take the job."""
    OVERTIME = "overtime"


class Stopped(Exception):
    """The worker was stopped; the work that it did is not to be made visible."""

    def __init__(self, reason: Stop) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Meter:
    """Counts, and the reason to stop, of one run."""

    def __init__(self, clock: Clock, limit_s: float, bytes_total: int = 0) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + limit_s
        self._lock = threading.Lock()
        self._rows = 0
        self._bytes = 0
        self._total = bytes_total
        self._reason: Stop | None = None
        self._interrupt: Callable[[], None] | None = None

    def advance(self, *, rows: int = 0, size: float = 0) -> None:
        """Count what was done."""
        with self._lock:
            self._rows += rows
            self._bytes += int(size)

    @property
    def progress(self) -> Progress:
        """What was counted."""
        with self._lock:
            return Progress(rows=self._rows, bytes=self._bytes, bytes_total=self._total)

    def check(self) -> None:
        """Raise Stopped if there is a reason to."""
        reason = self.reason()
        if reason is not None:
            raise Stopped(reason)

    def reason(self) -> Stop | None:
        """Why the job should stop, if it should."""
        if self._reason is None and self._clock.monotonic_s() >= self._until_s:
            self.stop(Stop.OVERTIME)
        return self._reason

    def stop(self, reason: Stop) -> None:
        """Ask the worker to stop, and interrupt what it waits for."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()

    def interruptible(self, interrupt: Callable[[], None]) -> None:
        """Hand in how to interrupt what the worker is about to wait for."""
        with self._lock:
            self._interrupt = interrupt
            stopped = self._reason is not None
        if stopped:
            interrupt()

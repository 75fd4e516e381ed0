"""The progress of a running job, and the reason to stop it.

Rules: the worker counts, and checks between batches; the thread that renews the lease reads the
counts and sets the reason to stop. The first reason counts. Code that runs inside an engine and
cannot check registers a function that interrupts it.
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
    """Another gateway took it over or ended it: this attempt reports nothing."""
    CLOSING = "closing"
    """This gateway shuts down; another will take the job."""
    OVERTIME = "overtime"


class Stopped(Exception):
    """The worker was stopped; its work must not become visible."""

    def __init__(self, reason: Stop) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Meter:
    """The counts of one run, and the reason to stop it."""

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
        """Add to the counts."""
        with self._lock:
            self._rows += rows
            self._bytes += int(size)

    @property
    def progress(self) -> Progress:
        """The counts."""
        with self._lock:
            return Progress(rows=self._rows, bytes=self._bytes, bytes_total=self._total)

    def check(self) -> None:
        """Raise Stopped if there is a reason to."""
        reason = self.reason()
        if reason is not None:
            raise Stopped(reason)

    def reason(self) -> Stop | None:
        """Why the job should stop, or None."""
        if self._reason is None and self._clock.monotonic_s() >= self._until_s:
            self.stop(Stop.OVERTIME)
        return self._reason

    def stop(self, reason: Stop) -> None:
        """Set the reason to stop, and interrupt what the worker waits for."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()

    def interruptible(self, interrupt: Callable[[], None]) -> None:
        """Register a function that interrupts what the worker is about to wait for."""
        with self._lock:
            self._interrupt = interrupt
            stopped = self._reason is not None
        if stopped:
            interrupt()

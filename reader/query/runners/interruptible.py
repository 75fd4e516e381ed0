"""The calls of one query into DuckDB, which may be stopped at any moment.

Why: DuckDB ignores an interruption that comes before a statement has begun to run, so a single one
may have no effect. Here a stopped query stays stopped: its running call is interrupted again and
again until it ends, and no call begins after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

_AGAIN_S = 0.01


class Interruptible:
    """For one caller at a time; any thread may call ``stop`` and ``idle``. ``interrupt`` makes a
    running call end soon."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._stopped = False

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A block that ``stop`` interrupts. Raises InterruptException if the query was stopped
        before."""
        with self._lock:
            self.check()
            self._idle.clear()
        try:
            yield
        finally:
            # Under the lock: the next call on the connection must not be interrupted.
            with self._lock:
                self._idle.set()

    def check(self) -> None:
        """Raise InterruptException if it was stopped."""
        if self._stopped:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    def stop(self) -> None:
        """End the running call and allow no other; returns at once."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        if self._interrupted():
            threading.Thread(target=self._insist, name="interrupting", daemon=True).start()

    def idle(self, *, within_s: float) -> bool:
        """Wait at most ``within_s`` until no call runs; return whether that is so."""
        return self._idle.wait(within_s)

    def _insist(self) -> None:
        while not self._idle.wait(_AGAIN_S):
            self._interrupted()

    def _interrupted(self) -> bool:
        with self._lock:
            if self._idle.is_set():
                return False
            self._interrupt()
            return True

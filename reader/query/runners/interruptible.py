"""The calls of one query into DuckDB, which somebody may ask to stop at any moment.

Why: DuckDB forgets an interruption that comes before a statement has begun to run, so one that is
asked for once may be asked for in vain, and the query runs on. Here a query that was stopped stays
so: a call that runs is interrupted again until it ends, and none begins after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

_AGAIN_S = 0.01


class Interruptible:
    """For one caller at a time;

    ``stop`` and ``idle`` from any thread. ``interrupt`` makes a call that runs end soon.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._stopped = False

    @contextmanager
    def calling(self) -> Iterator[None]:
        """While it is open, ``stop`` interrupts.

        Raises InterruptException if that was asked for before.
        """
        with self._lock:
            self.check()
            self._idle.clear()
        try:
            yield
        finally:
            # Under the lock: what comes next on the connection is not to be interrupted.
            with self._lock:
                self._idle.set()

    def check(self) -> None:
        """Raise InterruptException if it was stopped."""
        if self._stopped:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    def stop(self) -> None:
        """End the call that runs, and let none begin; returns at once."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        if self._interrupted():
            threading.Thread(target=self._insist, name="interrupting", daemon=True).start()

    def idle(self, *, within_s: float) -> bool:
        """Whether no call runs any more, once that is so or the time is over."""
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

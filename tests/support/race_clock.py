"""Threads that take turns in simulated time: a race in which only what requests take decides, the
same every time.

One thread runs at a time. It gives up its turn when it sleeps, and goes on when the others have
reached its time.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable

__all__ = ["RaceClock"]


class RaceClock:
    """A clock, and the threads that it wakes."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self._now_s = now_s
        self._sleeping: list[tuple[float, int, threading.Lock]] = []
        self._slept = 0
        self._errors: list[BaseException] = []
        self._main = _taken()
        self._racing = False

    def now_ms(self) -> int:
        return int(self._now_s * 1000)

    def monotonic_s(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        if not self._racing:
            self._now_s += seconds
            return
        baton = self._lie_down(seconds)
        self._wake_next()
        baton.acquire()

    def race(self, bodies: list[Callable[[], None]]) -> None:
        """Run them all from now on, each in a thread of its own, until the last ends.

        Raises the first error of one.
        """
        self._racing = True
        for body in bodies:
            threading.Thread(target=self._live, args=(body, self._lie_down(0)), daemon=True).start()
        self._wake_next()
        self._main.acquire()
        self._racing = False
        if self._errors:
            raise self._errors[0]

    def _live(self, body: Callable[[], None], baton: threading.Lock) -> None:
        baton.acquire()
        try:
            body()
        except BaseException as error:
            self._errors.append(error)
        self._wake_next()

    def _lie_down(self, seconds: float) -> threading.Lock:
        baton = _taken()
        self._slept += 1
        heapq.heappush(self._sleeping, (self._now_s + seconds, self._slept, baton))
        return baton

    def _wake_next(self) -> None:
        if self._sleeping:
            self._now_s, _, baton = heapq.heappop(self._sleeping)
            baton.release()
        else:
            self._main.release()


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock

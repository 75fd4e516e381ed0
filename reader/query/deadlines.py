"""The time limits of running queries, enforced by one thread, also if the caller stopped
reading."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from blockstore.clock import Clock


class Deadlines:
    """Calls functions at their deadlines; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int]] = []
        self._calls: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call ``call`` once, in so many seconds; return a function that cancels that."""
        number = next(self._numbers)
        with self._changed:
            self._calls[number] = call
            heapq.heappush(self._heap, (self._clock.monotonic_s() + seconds, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            self._changed.notify()
        return lambda: self._forget(number)

    def close(self) -> None:
        """End the thread; calls that are not due are dropped."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify()

    def _forget(self, number: int) -> None:
        with self._changed:
            self._calls.pop(number, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                call = self._due()
                while call is None:
                    if self._closed:
                        return
                    self._changed.wait(self._nap_s())
                    call = self._due()
            call()

    def _due(self) -> Callable[[], None] | None:
        while self._heap and (
            self._heap[0][1] not in self._calls or self._heap[0][0] <= self._clock.monotonic_s()
        ):
            call = self._calls.pop(heapq.heappop(self._heap)[1], None)
            if call is not None:
                return call
        return None

    def _nap_s(self) -> float | None:
        return max(0.0, self._heap[0][0] - self._clock.monotonic_s()) if self._heap else None

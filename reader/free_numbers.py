"""Numbers that are handed out and come back: always the lowest that is free, so that few are ever in use."""

from __future__ import annotations

import heapq
import threading

__all__ = ["FreeNumbers"]


class FreeNumbers:
    """From 0 on; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._returned: list[int] = []
        self._next = 0

    def take(self) -> int:
        """A number that nobody has."""
        with self._lock:
            if self._returned:
                return heapq.heappop(self._returned)
            self._next += 1
            return self._next - 1

    def give_back(self, number: int) -> None:
        """It may be handed out again; once only."""
        with self._lock:
            heapq.heappush(self._returned, number)

"""Who may run a query now: a few at once, a bounded queue behind them, and a clear no to everyone
else.

Rules:
- Turns come in the order in which they were asked for.
- Who waits longer than ``wait_s``, or than its own time limit, goes; what it was refused for was
  never begun.
- A turn that was given is given back exactly once, whatever happened.
"""

from __future__ import annotations

import threading
from collections import deque

from blockstore.clock import Clock
from blockstore.reader.errors import Busy
from blockstore.reader.query.budget import Capacity

_RETRY_S = 1.0


class Turn:
    """The right to run one query; allowed to be given back twice."""

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission

    def give_back(self) -> None:
        """The query has ended."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.leave()


class Admission:
    """The turns of one engine; safe to share between threads."""

    def __init__(self, capacity: Capacity, clock: Clock) -> None:
        self._capacity = capacity
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self.running = 0
        self.refused = 0
        """How often somebody was sent away; only grows."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    def turn(self, seconds: float | None = None) -> Turn:
        """A turn, at the latest after ``wait_s`` or ``seconds``. Raises Busy."""
        with self._lock:
            if self.running < self._capacity.queries and not self._queue:
                self.running += 1
                return Turn(self)
            if len(self._queue) >= self._capacity.waiting:
                self.refused += 1
                raise Busy(
                    f"{self.running} queries run and {len(self._queue)} wait, which is as many as "
                    "may: come back in a "
                    "moment",
                    retry_after_s=_RETRY_S,
                )
            mine = threading.Event()
            self._queue.append(mine)
        patience_s = (
            self._capacity.wait_s if seconds is None else min(self._capacity.wait_s, seconds)
        )
        if mine.wait(patience_s):
            return Turn(self)
        with self._lock:
            if mine.is_set():
                return Turn(self)
            self._queue.remove(mine)
            self.refused += 1
        raise Busy(
            f"no turn came free within {patience_s:g} s, {self._capacity.queries} queries run at "
            "once: come back in a "
            "moment",
            retry_after_s=_RETRY_S,
        )

    def leave(self) -> None:
        """Give a turn to who waits longest, or keep it free."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self.running -= 1

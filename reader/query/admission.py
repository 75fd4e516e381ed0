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
from dataclasses import dataclass

from blockstore.clock import Clock
from blockstore.errors import Invalid
from blockstore.reader.errors import Busy

_RETRY_S = 1.0
_LEAST_MEMORY = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one query; None = without."""

    rows: int | None = None
    """An answer with more rows fails."""
    bytes: int | None = None
    """An answer with more bytes of Arrow data fails."""
    seconds: float | None = None
    """From the call to the last row taken, the wait for a turn included."""
    limit: int | None = None
    """No more rows are answered; the rest is not computed where DuckDB can spare it."""

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "limit"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 0
            ):
                raise Invalid(f"{name} is {value!r}, expected a whole number from 0")
        if self.seconds is not None and not self.seconds > 0:
            raise Invalid(f"the time limit is {self.seconds!r} seconds, expected more than nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an engine may use of the machine."""

    queries: int = 4
    """So many run at once,"""
    waiting: int = 64
    """so many wait for their turn; the next is refused,"""
    wait_s: float = 10.0
    """and so is who has waited so long."""
    memory_bytes: int | None = None
    """Of all queries together; None = DuckDB's own default."""
    threads: int | None = None
    """Of each query; None = one a core."""
    spill_bytes: int | None = None
    """Temporary disk of all queries together."""

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise Invalid(f"concurrency is {self.queries}, expected at least one query at once")
        if self.memory_bytes is not None and self.memory_bytes // self.queries < _LEAST_MEMORY:
            raise Invalid(
                f"memory is {self.memory_bytes:,} bytes for {self.queries} queries at once, "
                "expected at least "
                f"{_LEAST_MEMORY:,} for each: raise memory, or run fewer at once"
            )


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

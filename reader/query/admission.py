"""The limits of a query and of an engine, and the turns of queries: a few run at once, a bounded
number waits, and further ones are refused.

Rules:
- Turns are given in the order of the requests.
- A query that waits longer than ``wait_s``, or than its own time limit, is refused; it never began.
- A turn is given back exactly once, whatever happened.
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
    """The limits of one query; None: no limit."""

    rows: int | None = None
    """A query with more rows fails."""
    bytes: int | None = None
    """A query with more bytes of Arrow data fails."""
    seconds: float | None = None
    """From the call to the last row read, including the wait for a turn."""
    limit: int | None = None
    """At most so many rows are returned; DuckDB computes no more where it can avoid it. With 0 no
    file is read: the query is described."""

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "limit"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 0
            ):
                raise Invalid(f"{name} is {value!r}, expected a whole number from 0")
        if self.seconds is not None and not self.seconds > 0:
            raise Invalid(
                f"the time limit is {self.seconds!r} seconds, and must be greater than zero"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an engine may use of the machine."""

    queries: int = 4
    """How many queries run at once."""
    waiting: int = 64
    """How many wait for their turn; the next is refused."""
    wait_s: float = 10.0
    """How long one waits before it is refused."""
    memory_bytes: int | None = None
    """Of all queries together; None: DuckDB's default."""
    threads: int | None = None
    """Of each query; None: one per core."""
    spill_bytes: int | None = None
    """Temporary disk space of all queries together."""

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise Invalid(f"concurrency is {self.queries}, expected at least one query at once")
        if self.memory_bytes is not None and self.memory_bytes // self.queries < _LEAST_MEMORY:
            raise Invalid(
                f"memory is {self.memory_bytes:,} bytes for {self.queries} queries at once, "
                f"expected at least {_LEAST_MEMORY:,} for each: raise memory, or run fewer at once"
            )


class Turn:
    """The right to run one query; giving it back twice is allowed."""

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
        """How many queries were refused; only grows."""

    @property
    def waiting(self) -> int:
        """How many queries wait."""
        return len(self._queue)

    def turn(self, seconds: float | None = None) -> Turn:
        """Wait for a turn, at most ``wait_s`` and at most ``seconds``. Raises Busy."""
        with self._lock:
            if self.running < self._capacity.queries and not self._queue:
                self.running += 1
                return Turn(self)
            if len(self._queue) >= self._capacity.waiting:
                self.refused += 1
                raise Busy(
                    f"query limit reached ({self.running} running, {len(self._queue)} waiting); "
                    "retry in a moment",
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
            f"query limit reached ({self._capacity.queries} at a time), and none ended within "
            f"{patience_s:g} s; retry in a moment",
            retry_after_s=_RETRY_S,
        )

    def leave(self) -> None:
        """Give the turn to the query that waits longest, or keep it free."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self.running -= 1

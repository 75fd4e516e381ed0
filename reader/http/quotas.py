"""How many queries of each token run at once, and how many bytes it is sent in a day.

Rules:
- A change takes a place as a query does, and so does a job that runs here and needs the engine: it
  waits for one, where another one is refused.
- A query of a token above its number is refused at once and may be sent again: it takes no turn of
  the engine, so one token cannot fill the queue of all others.
- A place is free when its query has ended, however it ended.
- Bytes count as they are sent, as the audit log counts them: those of HTTP and PostgreSQL, and of
  Flight the bytes of the rows. Only those of tokens with a limit are counted.
- What was begun below the limit is sent to its end. Then the token is refused until the day ends,
  in UTC: so it may exceed its limit by what it had under way. On an open connection of PostgreSQL
  queries are refused; a transaction can still be ended.
- Each gateway counts for itself, from its start.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from blockstore.clock import Clock
from blockstore.reader.errors import Busy
from blockstore.reader.http.tokens import Caller, shown
from blockstore.service.kinds import format_size

_RETRY_S = 1.0
_DAY_MS = 86_400_000


class Quotas:
    """What all tokens have taken; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()
        self._day = 0
        self._sent: Counter[str] = Counter()

    def take(self, caller: Caller) -> Callable[[], None]:
        """Take a place; return what gives it back, once. Raises Busy."""
        most = caller.queries_at_once
        place = self.take_of(caller.fingerprint, most)
        if place is None:
            raise Busy(
                f"the token {caller.name!r} runs {most} queries at once, its limit: retry in a "
                "second",
                retry_after_s=_RETRY_S,
            )
        return place

    def take_of(self, key: str, most: int | None) -> Callable[[], None] | None:
        """A place of the token or person with this fingerprint, and this limit; None where none is
        free."""
        with self._lock:
            if most is not None and self._taken[key] >= most:
                return None
            self._taken[key] += 1
        return _Place(self._lock, self._taken, key)

    def check_bytes(self, caller: Caller) -> None:
        """Raise Busy for a token that has had its bytes of today."""
        most = caller.bytes_a_day
        if most is None:
            return
        with self._lock:
            day = self._begin_day()
            spent = self._sent[caller.fingerprint] >= most
        if spent:
            ends_ms = (day + 1) * _DAY_MS
            raise Busy(
                f"the token {caller.name!r} was sent its bytes_a_day ({format_size(most)}): it is "
                f"served again from {shown(ends_ms)} on",
                retry_after_s=(ends_ms - self._clock.now_ms()) / 1000,
            )

    def counting(self, caller: Caller) -> Callable[[int], None] | None:
        """What counts the bytes that a token is sent; None where nothing limits them."""
        return None if caller.bytes_a_day is None else partial(self._add, caller.fingerprint)

    def _add(self, key: str, size: int) -> None:
        with self._lock:
            self._begin_day()
            self._sent[key] += size

    def _begin_day(self) -> int:
        """Forget what was sent on another day; return today."""
        today = self._clock.now_ms() // _DAY_MS
        if today != self._day:
            self._day = today
            self._sent.clear()
        return today

    def taken(self, caller: Caller) -> int:
        """How many queries of a token run."""
        with self._lock:
            return self._taken[caller.fingerprint]


class _Place:
    def __init__(self, lock: threading.Lock, taken: Counter[str], key: str) -> None:
        self._lock = lock
        self._taken = taken
        self._key: str | None = key

    def __call__(self) -> None:
        with self._lock:
            key, self._key = self._key, None
            if key is not None:
                self._taken[key] -= 1
                if not self._taken[key]:
                    del self._taken[key]

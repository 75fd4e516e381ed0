"""How many queries of each token run at once.

Rules:
- A query of a token above its number is refused at once and may be sent again: it takes no turn of
  the engine, so one token cannot fill the queue of all others.
- A place is free when its query has ended, however it ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from blockstore.reader.errors import Busy
from blockstore.reader.http.tokens import Caller

_RETRY_S = 1.0


class Quotas:
    """The places of all tokens; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, caller: Caller) -> Callable[[], None]:
        """Take a place; return what gives it back, once. Raises Busy."""
        most, key = caller.queries_at_once, caller.fingerprint
        with self._lock:
            if most is not None and self._taken[key] >= most:
                raise Busy(
                    f"the token {caller.name!r} runs {most} queries at once, its limit: retry in a "
                    "second",
                    retry_after_s=_RETRY_S,
                )
            self._taken[key] += 1
        return _Place(self._lock, self._taken, key)

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

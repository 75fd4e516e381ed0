"""A bounded rate of requests: a bucket of tokens that fills with time.

Rule: over any stretch of time no more than ``per_s`` tokens a second are handed out, plus one
second's worth that was saved up. A caller that requests more than there are waits; the clock is
handed in.
"""

from __future__ import annotations

import threading

from blockstore.clock import Clock
from blockstore.errors import Invalid


class Rate:
    """Hands out tokens; safe to share between threads."""

    def __init__(self, clock: Clock, per_s: float) -> None:
        if not per_s > 0:
            raise Invalid(f"the rate of requests is {per_s:g} a second, must be greater than 0")
        self._clock = clock
        self._per_s = per_s
        self._full = max(per_s, 1.0)
        self._tokens = self._full
        self._at_s = clock.monotonic_s()
        self._lock = threading.Lock()

    def take(self, count: int = 1) -> None:
        """Take ``count`` tokens, waiting until they are there; more than a second's worth is paid
        off afterwards."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._tokens = min(self._full, self._tokens + (now_s - self._at_s) * self._per_s)
            self._at_s = now_s
            self._tokens -= count
            wait_s = -self._tokens / self._per_s
        if wait_s > 0:
            self._clock.sleep(wait_s)

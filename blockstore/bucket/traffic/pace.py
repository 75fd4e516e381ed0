"""The pace of a process's requests to a store that limits their rate.

Rules:
- There is no limit until the store responds "slow down" (``Throttled``). Then the rate is half of
  what was sent in the last second or so, or half of the limit that was already in force.
- Responses within ``_SETTLES_S`` of a reduction belong to requests sent before it: they do not
  reduce the rate again.
- The limit grows by ``_MORE_PER_S`` each second, and ends once it is twice the rate that the store
  last refused.
- Requests are spaced by the limit of the time at which they are sent, not of that at which they
  begin to wait: many that come at once right after a refusal do not wait for as long as its lowest
  value would make them. One that would wait longer than ``_LONGEST_WAIT_S`` is sent then: the
  pace relieves a store, and is not a reason to fail.
"""

from __future__ import annotations

import math

_SLOWEST = 5.0
_MORE_PER_S = 10.0
_SETTLES_S = 1.0
_LOAD_S = 1.0
_LONGEST_WAIT_S = 10.0


class Pace:
    """When the next request may be sent. All times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._rate: float | None = None
        self._enough = 0.0
        self._since_s = -math.inf
        self._next_s = -math.inf
        self._load = 0.0
        self._load_s = 0.0

    def rate(self, now_s: float) -> float | None:
        """The most requests a second at present; None without a limit."""
        if self._rate is None:
            return None
        grown = self._rate + max(0.0, now_s - self._since_s) * _MORE_PER_S
        return None if grown >= self._enough else grown

    def turn(self, now_s: float) -> float:
        """Take the next turn; return the seconds to wait for it."""
        self._count(now_s)
        rate = self.rate(now_s)
        if rate is None:
            self._rate = None
            return 0.0
        start_s = max(self._next_s, now_s)
        wait_s = start_s - now_s
        if wait_s > _LONGEST_WAIT_S:
            return _LONGEST_WAIT_S
        self._next_s = start_s + 1 / (self.rate(start_s) or self._enough)
        return wait_s

    def throttled(self, now_s: float) -> None:
        """Note that the store refused a request because there were too many."""
        if now_s - self._since_s < _SETTLES_S:
            return
        sent = self.rate(now_s) or max(self._load_at(now_s) / _LOAD_S, 2 * _SLOWEST)
        self._rate = max(_SLOWEST, sent / 2)
        self._enough = max(2 * sent, self._rate + _MORE_PER_S)
        self._since_s = now_s
        self._next_s = now_s + 1 / self._rate

    def _count(self, now_s: float) -> None:
        self._load = self._load_at(now_s) + 1
        self._load_s = now_s

    def _load_at(self, now_s: float) -> float:
        """The requests of about the last second: older ones count less and less."""
        return self._load * math.exp(-max(0.0, now_s - self._load_s) / _LOAD_S)

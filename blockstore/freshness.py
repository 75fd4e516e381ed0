"""How long a process may act on what it has read, by both clocks of this machine.

The monotonic clock stops while a machine sleeps, and the other one may be set back; the longer of
the two durations counts.
"""

from __future__ import annotations

from blockstore.clock import Clock


class Freshness:
    """Starts before the request for the data of a decision, and is over ``lasts_s`` seconds later.

    Until ``lasts_s`` is set, the data may not be acted on.
    """

    def __init__(self, clock: Clock, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self._clock = clock
        self._from_s = clock.monotonic_s()
        self._from_ms = clock.now_ms()

    @property
    def passed_s(self) -> float:
        """Seconds since the start, by the monotonic clock."""
        return self._clock.monotonic_s() - self._from_s

    @property
    def is_over(self) -> bool:
        """Whether the data is too old to act on."""
        return max(self.passed_s, (self._clock.now_ms() - self._from_ms) / 1000) >= self.lasts_s

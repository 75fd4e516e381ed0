"""How long what was read may be acted on, by both clocks of this machine.

The monotonic clock stands still while a machine sleeps, and the other one may be set back;
whichever says more is believed.
"""

from __future__ import annotations

from blockstore.clock import Clock


class Freshness:
    """Made before that is asked for on which a decision rests; ``lasts_s`` seconds later it is
    over.

    Until ``lasts_s`` is said, nothing may be acted on.
    """

    def __init__(self, clock: Clock, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self._clock = clock
        self._from_s = clock.monotonic_s()
        self._from_ms = clock.now_ms()

    @property
    def passed_s(self) -> float:
        """Seconds since then, by the clock that nobody sets."""
        return self._clock.monotonic_s() - self._from_s

    @property
    def is_over(self) -> bool:
        """Whether it was read too long ago by now."""
        return max(self.passed_s, (self._clock.now_ms() - self._from_ms) / 1000) >= self.lasts_s

"""Clocks: the only code that reads the machine's time.

Everything else takes a ``Clock``, so that tests and the simulation decide what time it is, and no
decision about removing data reads the machine's clock by itself.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The time, as the code may use it."""

    def now_ms(self) -> int:
        """Return UTC now, in integer milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go back, for deadlines and durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; a simulated clock only advances."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that only ``advance`` and ``sleep`` move."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``."""
        self._now_ms += seconds * 1000

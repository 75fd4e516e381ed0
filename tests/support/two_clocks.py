"""A machine whose two clocks part."""

from __future__ import annotations

__all__ = ["TwoClocks"]


class TwoClocks:
    """A machine that may sleep, and whose time may be set."""

    def __init__(self) -> None:
        self.steady_s, self.wall_ms = 50.0, 1_700_000_000_000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.steady_s

    def sleep(self, seconds: float) -> None:
        self.steady_s += seconds
        self.wall_ms += round(seconds * 1000)

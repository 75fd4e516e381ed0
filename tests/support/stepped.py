"""A clock whose time of day is set while it runs."""

from __future__ import annotations

from blockstore.clock import ManualClock

__all__ = ["Stepped"]


class Stepped(ManualClock):
    """A clock whose time of day can be set, as a person or a time server does."""

    step_s = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.step_s * 1000

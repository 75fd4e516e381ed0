"""The bandwidth: one line that all connections share, in one direction.

The line keeps the time at which it is free again. Bytes wait for it, and not longer: a sleep that
lasted too long is made up for by the next one, so that the rate holds over any number of pieces.
"""

from __future__ import annotations

import asyncio

__all__ = ["Line"]

SLACK_S = 0.005
"""How far a late sleep may be made up for."""
WORTH_S = 0.001
"""A shorter sleep is not slept: the timer of the event loop is no finer."""


class Line:
    """``bits_per_s`` for all that pass; 0 for no bound."""

    def __init__(self, bits_per_s: float) -> None:
        self.bits_per_s = bits_per_s
        self._free = 0.0

    async def carry(self, size: int) -> None:
        """Return when ``size`` bytes more may pass."""
        if not self.bits_per_s:
            return
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now - SLACK_S) + size * 8 / self.bits_per_s
        if (wait := self._free - now) > WORTH_S:
            await asyncio.sleep(wait)

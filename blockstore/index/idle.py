"""A look, once a minute, whether a table is still the one that a follower reads.

An idle poll does not notice that the table was made again, or put back from a copy: a follower of a
table with fewer versions would wait for ever.
"""

from __future__ import annotations

from blockstore.clock import Clock
from blockstore.freshness import Freshness
from blockstore.index.log import Log

LOOK_S = 60.0
"""The interval of the looks: one small request each."""


class IdleLook:
    """The looks of one follower."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._last = Freshness(clock, LOOK_S)

    def look(self) -> None:
        """Look, if the last one was a minute ago. Raises HistoryReplaced."""
        if self._last.is_over:
            self._last = Freshness(self._clock, LOOK_S)
            self._log.confirm()

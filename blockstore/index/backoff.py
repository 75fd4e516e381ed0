"""How long the loser of a race pauses before its next attempt."""

from __future__ import annotations

import math

from blockstore.world import World


class Pace:
    """How long an attempt takes here, from the last look to the PUT's response: pauses between
    attempts are measured by it.

    The writer that has just won knows the newest entry first, and would win forever if it forgot
    its rivals: they are forgotten slowly by winning, and quickly only where a look after a pause
    finds that no other wrote. A writer that loses again and again pauses ever shorter. Decision 10
    has the figures.
    """

    _FIRST_PAUSE_S = 0.05
    _LONGEST_PAUSE_S = 5.0
    _MOST_RIVALS = 32.0
    _WON = 0.9
    _QUIET = 0.5
    _LOST = 0.3
    _IDLE = 0.1
    _ENOUGH = 10.0
    _OF_LEFT = 0.25
    _NEWEST = 0.25
    _OUTLIER = 4.0

    def __init__(self, world: World) -> None:
        self._world = world
        self._attempt_s = 0.0
        self._rivals = 0.0
        self._began: float | None = None
        self._gave_way_at = 0.0
        self._gave_way_s = 0.0
        self._came = 0

    def begin(self) -> None:
        """An attempt begins: from now on another's entry makes it lose."""
        self._began = self._world.clock.monotonic_s()

    def answered(self) -> None:
        """Record the response to its PUT.

        A recent mean, in which one that hung counts little, also if it was the first.
        """
        if self._began is None:
            return
        took = self._world.clock.monotonic_s() - self._began
        self._began = None
        if self._attempt_s:
            took = min(took, self._OUTLIER * self._attempt_s)
            mean = min(self._attempt_s, self._OUTLIER * took)
            self._attempt_s = mean + self._NEWEST * (took - mean)
        else:
            self._attempt_s = took

    def unanswered(self) -> None:
        """Record that no response came: what is sent again later began another time."""
        self._began = None

    @property
    def rivals(self) -> float:
        """About how many others write at the same time."""
        return self._rivals

    def lost(self) -> None:
        """Record a lost race: one more that writes at the same time."""
        self._rivals = min(self._rivals + 1, self._MOST_RIVALS)
        self._gave_way_s, self._came = 0.0, 0

    def won(self) -> None:
        """Record a race that was won: a few less, for the losers are still there."""
        self._rivals *= self._WON

    def looked(self, entries: int) -> None:
        """Record how many entries came while this writer gave way: half as many rivals, if there
        was room for ten times as many.

        Pauses since the last loss are judged together, once they have taken ten attempts: in a
        shorter time none may come however many write.
        """
        self._gave_way_s += self._world.clock.monotonic_s() - self._gave_way_at
        self._came += entries
        if self._gave_way_s < self._ENOUGH * self._attempt_s:
            return
        if self._came * self._attempt_s <= self._IDLE * self._gave_way_s:
            self._rivals *= self._QUIET
        self._gave_way_s, self._came = 0.0, 0

    def give_way(self, losses: int = 0, *, left_s: float = math.inf) -> None:
        """Pause for as long as the others may take, drawn again each time; shorter after so many
        ``losses`` in a row.

        Rivals are counted by losses, so that the writers that race together are soon about as many
        as there are turns in the pause. It takes at most a quarter of the time that is left in all.
        """
        self._gave_way_at = self._world.clock.monotonic_s()
        longest = self._rivals * self._attempt_s / (1 + self._LOST * losses)
        most = max(0.0, self._OF_LEFT * left_s)
        self._world.clock.sleep(self._world.ids.uniform(0, min(longest, most)))

    def after_silence(self, attempt: int) -> None:
        """Pause after a response that was lost or refused for now: full jitter under a bound that
        doubles."""
        bound = min(self._LONGEST_PAUSE_S, self._FIRST_PAUSE_S * 2.0 ** min(attempt, 16))
        self._world.clock.sleep(self._world.ids.uniform(0, bound))

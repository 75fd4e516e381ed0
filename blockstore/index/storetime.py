"""The time that an entry carries, and how long to wait for others: both measured at the store.

Rule (protocol 3.3): an entry's time is the writer's own clock, but at most 5 minutes above the store's, and never below
the entry before it (``assemble`` sees to the last). The store's clock is asked once in ten minutes; in between it is
carried on by the monotonic clock, so that a step of this machine's clock does no harm.
"""

from __future__ import annotations

from blockstore.bucket.api import ReadBucket
from blockstore.world import World

__all__ = ["Pace", "StoreTime"]

_AHEAD_MS = 5 * 60_000
_ASK_AGAIN_S = 600.0


class StoreTime:
    """Own time, bounded by the store's."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self._bucket = bucket
        self._clock = world.clock
        self._asked: tuple[float, int] | None = None

    def entry_ms(self) -> int:
        """The time for an entry that is written now; costs a request once in ten minutes."""
        now = self._clock.monotonic_s()
        if self._asked is None or now - self._asked[0] > _ASK_AGAIN_S:
            self._asked = (now, self._bucket.now_ms())
        at, store_ms = self._asked
        return min(self._clock.now_ms(), store_ms + int((now - at) * 1000) + _AHEAD_MS)


class Pace:
    """How long this store takes for a write: what pauses between attempts are measured by."""

    _FIRST_PAUSE_S = 0.05
    _LONGEST_PAUSE_S = 5.0
    _MOST_RIVALS = 32.0

    def __init__(self, world: World) -> None:
        self._world = world
        self._answer_s = 0.0
        self._rivals = 0.0

    def measured(self, seconds: float) -> None:
        """Take note of one answered write. The quickest of late is kept: others measured a busy machine as well."""
        self._answer_s = min(seconds, 1.25 * self._answer_s) if self._answer_s else seconds

    @property
    def rivals(self) -> float:
        """About how many others write at the same time."""
        return self._rivals

    def lost(self) -> None:
        """Take note of a lost race: one more who writes at the same time."""
        self._rivals = min(self._rivals + 1, self._MOST_RIVALS)

    def won(self) -> None:
        """Take note of a race that was won: half as many, until one is lost again."""
        self._rivals /= 2

    def give_way(self) -> None:
        """Pause for as long as the others may take, drawn anew each time.

        Whoever has just won pauses as well: it knows the newest entry first, and would win for ever. Rivals are counted by
        losses, so that those who race together are soon about as many as there are turns in the pause.
        """
        self._world.clock.sleep(self._world.ids.uniform(0, self._rivals * self._answer_s))

    def after_silence(self, attempt: int) -> None:
        """Pause after an answer that was lost or refused for now: full jitter under a bound that doubles."""
        bound = min(self._LONGEST_PAUSE_S, self._FIRST_PAUSE_S * 2.0 ** min(attempt, 16))
        self._world.clock.sleep(self._world.ids.uniform(0, bound))

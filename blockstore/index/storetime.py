"""The time that an entry carries, measured at the store.

Rule (protocol 3.3): an entry's time is the writer's own clock, but at most 5 minutes above the
store's, and never below the entry before it (``assemble`` sees to the last). The store's clock is
read once in ten minutes; in between the monotonic clock continues it, so that a step of this
machine's clock does no harm.
"""

from __future__ import annotations

from blockstore.bucket.api import ReadBucket
from blockstore.freshness import Freshness
from blockstore.world import World

_AHEAD_MS = 5 * 60_000
_ASK_AGAIN_S = 600.0


class StoreTime:
    """Own time, bounded by the store's."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self._bucket = bucket
        self._clock = world.clock
        self._asked: tuple[Freshness, int] | None = None

    def entry_ms(self) -> int:
        """The time for an entry that is written now; costs a request once in ten minutes."""
        if self._asked is None or self._asked[0].is_over:
            self._asked = (Freshness(self._clock, _ASK_AGAIN_S), self._bucket.now_ms())
        fresh, store_ms = self._asked
        return min(self._clock.now_ms(), store_ms + int(fresh.passed_s * 1000) + _AHEAD_MS)

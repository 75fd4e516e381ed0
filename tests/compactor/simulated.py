"""A compactor's process whose loops run in simulated time, in one thread: each loop when it falls
due, the clock set forward in between."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace

from blockstore.bucket import Bucket
from blockstore.clock import ManualClock
from blockstore.compactor.config import Schedule
from blockstore.compactor.process.ledger import LAKE
from blockstore.compactor.process.loops import Loop, Loops
from blockstore.compactor.process.process import TABLES
from blockstore.compactor.process.watch import WATCH
from blockstore.service.billing import Billed
from tests.compactor.tended import Tended, Tending

__all__ = ["QUIET", "SELDOM", "Simulated", "without_rest"]

QUIET = Schedule(objects_per_s=1e6)
"""The defaults: tables rest."""

SELDOM = replace(QUIET, tables_s=600.0)
"""The same for long times: the lake is listed less often."""


class _Loops(Loops):
    """Loops that wait in a heap instead of a scheduler."""

    def __init__(self, of: Loops) -> None:
        super().__init__(of._world, of._ledger, of._schedule, fatal=of._fatal)
        self._heap: list[tuple[float, int, Loop]] = []
        self._numbers = itertools.count()
        self._next: dict[str, int] = {}

    def _schedule_next(self, loop: Loop, in_s: float) -> None:
        number = next(self._numbers)
        self._next[loop.id] = number
        heapq.heappush(self._heap, (self._world.clock.monotonic_s() + in_s, number, loop))

    def run_until(self, end_s: float) -> None:
        clock = self._world.clock
        assert isinstance(clock, ManualClock)
        while self._heap and self._heap[0][0] <= end_s:
            due_s, number, loop = heapq.heappop(self._heap)
            if self._next.get(loop.id) != number or self._loops.get(loop.id) is not loop:
                continue
            clock.sleep(max(0.0, due_s - clock.monotonic_s()))
            self._fire(loop.id)
        clock.sleep(max(0.0, end_s - clock.monotonic_s()))


class Simulated(Tending):
    """A process over a lake; ``requests`` counts what it sends."""

    def __init__(
        self, lake: Tended, bucket: Bucket | None = None, loops: Schedule = QUIET, **options: object
    ) -> None:
        self.requests = Billed(bucket or lake.bucket)
        super().__init__(lake, self.requests, loops=loops, **options)  # type: ignore[arg-type]
        self.loops = _Loops(self.loops)
        urls = {TABLES: self.find_tables, WATCH: self.watch}
        for name, run in urls.items():
            self.loops.add(Loop(table=LAKE, name=name, url="", interval_s=loops.tables_s, run=run))

    def run(self, hours: float) -> int:
        """Let time pass; how many requests that took."""
        before = sum(self.requests.counts.values())
        assert isinstance(self.loops, _Loops)
        self.loops.run_until(self.world.clock.monotonic_s() + hours * 3600)
        return sum(self.requests.counts.values()) - before

    def resting(self) -> list[str]:
        return [one.name for one in self.status().tables if one.resting]


def without_rest() -> Schedule:
    return replace(QUIET, quiet_s=0.0)

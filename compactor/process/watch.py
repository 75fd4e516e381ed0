"""The resting tables of a process, and the looks at them.

Rules:
- One loop looks at all of them, as each falls due, several side by side. A resting table has no
  loop, no handle and no thread of its own.
- A look that fails wakes nothing: it is noted as the failure of the table, and repeated with
  growing waits. Waking thousands of tables because the store does not respond would make it worse.
- Whether a table is gone for good is decided when it is opened again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from blockstore.compactor.process.failures import backoff_s, classify
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.resting import Resting, fingerprint
from blockstore.errors import BlockstoreError
from blockstore.service.logs import about
from blockstore.world import World

_logger = logging.getLogger(__name__)

WATCH = "watch"
"""The loop of a resting table, and the one over all of them."""

_AT_ONCE = 64


class Watch:
    """Safe to share between threads; ``turn`` is called by one at a time."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        *,
        first_s: float,
        longest_s: float,
        retry_s: float,
        retry_most_s: float,
        wake: Callable[[Resting], None],
        stopping: Callable[[], bool],
    ) -> None:
        """``wake`` is called with a table whose passes are to run, and its present fingerprint."""
        self._world = world
        self._ledger = ledger
        self._first_s = min(first_s, longest_s)
        self._longest_s = longest_s
        self._retry_s = retry_s
        self._retry_most_s = retry_most_s
        self._wake = wake
        self._stopping = stopping
        self._lock = threading.Lock()
        self._resting: dict[str, Resting] = {}

    def add(self, resting: Resting) -> None:
        """A table comes to rest."""
        with self._lock:
            self._resting[resting.place.name] = resting

    def drop(self, name: str) -> None:
        """A table is gone."""
        with self._lock:
            self._resting.pop(name, None)

    def get(self, name: str) -> Resting | None:
        """What is kept of a resting table."""
        with self._lock:
            return self._resting.get(name)

    def __len__(self) -> int:
        return len(self._resting)

    def turn(self) -> None:
        """Look at every table that is due, and wake those that have changed or have work."""
        for some in self._due():
            if self._stopping():
                return
            self._world.pool.map(self._look, some)

    def _due(self) -> Iterator[list[Resting]]:
        now_s = self._world.clock.monotonic_s()
        with self._lock:
            due = [one for one in self._resting.values() if one.look_s <= now_s]
        due.sort(key=lambda one: one.look_s)
        for start in range(0, len(due), _AT_ONCE):
            yield due[start : start + _AT_ONCE]

    def _look(self, before: Resting) -> None:
        place, clock = before.place, self._world.clock
        started_s = clock.monotonic_s()
        self._ledger.started(place.name, WATCH)
        try:
            mark = fingerprint(place.bucket.list())
        except (BlockstoreError, OSError) as error:
            self._failed(before, error, clock.monotonic_s() - started_s)
            return
        now_s = clock.monotonic_s()
        if mark != before.mark or now_s >= before.due_s:
            if self._change(before, None):
                wait_s = before.wait_s if mark == before.mark else self._first_s
                self._wake(replace(before, mark=mark, wait_s=wait_s))
            return
        draw = self._world.ids.uniform(0.0, 1.0)
        after = before.looked(now_s, longest_s=self._longest_s, draw=draw)
        if self._change(before, after):
            self._ledger.succeeded(place.name, WATCH, now_s - started_s, after.look_s - now_s)

    def _failed(self, before: Resting, error: BaseException, seconds: float) -> None:
        name = before.place.name
        failure = classify(error, before.place.bucket.url)
        failures = self._ledger.failed(name, WATCH, seconds, failure)
        wait_s = backoff_s(
            failures, self._world.ids, first_s=self._retry_s, most_s=self._retry_most_s
        )
        with about(table=name, loop=WATCH):
            _logger.warning(
                "a look at the resting table failed (%s in a row), next try in %.0f s: %s",
                failures,
                wait_s,
                failure.problem,
            )
        if self._change(before, before.failed(self._world.clock.monotonic_s(), wait_s)):
            self._ledger.due(name, WATCH, wait_s)

    def _change(self, before: Resting, after: Resting | None) -> bool:
        """Replace what is kept, unless the table was dropped meanwhile."""
        name = before.place.name
        with self._lock:
            if self._resting.get(name) is not before:
                return False
            if after is None:
                del self._resting[name]
            else:
                self._resting[name] = after
            return True

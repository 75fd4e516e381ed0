"""What is really stored: the truth that the oracle looks at, and that the processes see only
through faults.

Rules:
- A request is applied at once and completely; each watcher gets every change, with what was there
  before.
- The store's clock is the run's own time.
- ``listed`` can return the state of some minutes ago, key by key: what an eventual store shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket, Stored
from blockstore.errors import ObjectMissing
from blockstore.simulation.draw import Draw
from blockstore.simulation.faults import STALE_MS
from blockstore.simulation.schedule import Scheduler


@dataclass(frozen=True, slots=True)
class Changed:
    """One applied change."""

    key: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What a store held at one moment: a backup of the bucket."""

    objects: Mapping[str, Stored]


class Watcher(Protocol):
    """The watchers, which get every change."""

    def changed(self, change: Changed) -> None: ...


class _StoreClock:
    """The store's clock, as a ``Clock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return self._scheduler.now_ms

    def monotonic_s(self) -> float:
        return self._scheduler.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a store never sleeps")


class Store(MemoryBucket):
    """A memory bucket on simulated time that reports its changes."""

    def __init__(self, scheduler: Scheduler, *, eventual: bool) -> None:
        super().__init__(_StoreClock(scheduler), "memory://simulation")
        self._scheduler = scheduler
        self.eventual = eventual
        self.watchers: list[Watcher] = []
        self._recent: deque[tuple[int, str, ObjectInfo | None]] = deque()
        """Changes of the last minutes: when, which key, and what was there before."""

    def put(self, key: str, data: bytes) -> str:
        return self._changing(key, data, lambda: super(Store, self).put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self._changing(key, data, lambda: super(Store, self).put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self._changing(key, data, lambda: super(Store, self).put_if_match(key, data, etag))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._remove(key)

    def copy(self) -> StoreCopy:
        """All objects as they are, with the times at which they were written."""
        return StoreCopy(dict(self._contents.objects))

    def put_back(self, copy: StoreCopy, *, fresh: bool) -> None:
        """Be again what was copied, at once; no watcher gets it. ``fresh``: every object counts as
        written now, as where it was copied from elsewhere, and not as where the store itself went
        back."""
        now_ms = self._scheduler.now_ms
        objects = {
            key: replace(one, modified_ms=now_ms) if fresh else one
            for key, one in copy.objects.items()
        }
        self._contents.objects = objects
        self._contents.keys = sorted(objects)
        self._recent.clear()

    def data(self, key: str) -> bytes | None:
        """An object's bytes, or None."""
        try:
            return self.get(key).data
        except ObjectMissing:
            return None

    def listed(
        self, prefix: str, start_after: str, recursive: bool, draw: Draw
    ) -> list[ObjectInfo]:
        """What a listing shows now, in any order; on an eventual store, some keys as they were
        minutes ago."""
        found = {
            info.key: info
            for info in self.list(prefix, start_after=start_after, recursive=recursive)
        }
        if self.eventual:
            self._forget_old()
            seen: set[str] = set()
            since = self._scheduler.now_ms - draw.integer(0, STALE_MS)
            for at, key, before in self._recent:
                if at < since or key in seen or not _is_listed(key, prefix, start_after, recursive):
                    continue
                seen.add(key)
                if draw.chance(0.5):
                    found.pop(key, None)
                    if before is not None:
                        found[key] = before
        items = sorted(found.values(), key=lambda info: info.key)
        return draw.shuffled(items) if draw.chance(0.3) else items

    def _changing(self, key: str, data: bytes, apply: Callable[[], str]) -> str:
        before, info = self._before(key)
        etag = apply()
        self._tell(key, before, info, data)
        return etag

    def _remove(self, key: str) -> None:
        before, info = self._before(key)
        super().delete([key])
        if before is not None:
            self._tell(key, before, info, None)

    def _before(self, key: str) -> tuple[bytes | None, ObjectInfo | None]:
        data = self.data(key)
        return data, None if data is None else self.head(key)

    def _tell(
        self, key: str, before: bytes | None, info: ObjectInfo | None, after: bytes | None
    ) -> None:
        if self.eventual:
            self._recent.append((self._scheduler.now_ms, key, info))
        change = Changed(key, before, after)
        for watcher in self.watchers:
            watcher.changed(change)

    def _forget_old(self) -> None:
        oldest = self._scheduler.now_ms - STALE_MS
        while self._recent and self._recent[0][0] < oldest:
            self._recent.popleft()


def _is_listed(key: str, prefix: str, start_after: str, recursive: bool) -> bool:
    return (
        key.startswith(prefix)
        and key > start_after
        and (recursive or "/" not in key[len(prefix) :])
    )

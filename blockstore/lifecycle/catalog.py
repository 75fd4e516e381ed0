"""The catalog: what one process has read of a table's blocks, kept between its looks at the bucket.

Rules:
- One sync is one LIST, and one GET for each block or mark that was not there before. A known block
  costs no request.
- The listing decides, always: what was read is used only while the listing shows the object with
  the same size and LastModified (or ETag), and what the listing does not show is forgotten.
- A listing that fails midway raises, and the catalog stays as it was.
- R2: ages go by the store's clock. A block whose ULID or ``uploaded_time`` is more than five
  minutes ahead of it was written by a machine whose clock is wrong: it waits longer, and is
  counted.
- What the cache file says is trusted no more than memory is (``catalog_file.py``).
- A listing and everything that is read because of it are read within half of ``delete_delay``, by
  both clocks of this machine, or read again. A block that the listing shows unmarked is removed
  ``delete_delay`` later at the earliest (R7). A process that stopped in between, as in a closed
  laptop or a paused container, would find merged blocks gone and not know the merge: it would
  return results without their rows. The other half of the delay is for reading the rows.

Safe to share between threads: each sync is about its own listing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Unavailable
from blockstore.format.durations import format_duration
from blockstore.format.properties import Properties
from blockstore.freshness import Freshness
from blockstore.ids import ulid_at
from blockstore.lifecycle.catalog_file import CatalogFile
from blockstore.lifecycle.listing import (
    Damage,
    Directory,
    Found,
    Listing,
    Seen,
    is_read,
    list_directories,
    look_at,
)
from blockstore.lifecycle.windows import is_slow, list_windows, windows_for
from blockstore.world import World

T = TypeVar("T")

SKEW_MS = 5 * 60 * 1000
"""A clock this far ahead of the store's is wrong."""

_SAVE_SHARE = 64
"""The cache file is written once the blocks read since are this share of all: each then costs a
bounded number of blocks written."""

_TRIES = 3
_TURNS = 256
"""Into so many pieces a long piece of reading is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """One sync: the listing, and what it and everything read before say of each directory that was
    not skipped."""

    listing: Listing
    found: Mapping[str, Found]
    new: int
    """Directories of which something was read now."""
    known: int
    """Directories of which nothing had to be read."""
    skewed: tuple[str, ...]
    """Blocks that were written by a clock more than five minutes ahead of the store's."""
    malformed: Mapping[Damage, int]
    """How many blocks are malformed, by the kind of damage."""


class Catalog:
    """What is known of one table's blocks;

    ``cache`` is a file of the caller's choice that survives the process.
    """

    def __init__(self, bucket: ReadBucket, world: World, cache: Path | None = None) -> None:
        self.bucket = bucket
        self._world = world
        self._file = None if cache is None else CatalogFile(cache, bucket.url, world.ids)
        self._seen: Mapping[str, Seen] | None = None
        self._last: Listing | None = None
        """The last listing, where the store is so slow that the next one may be taken in
        windows."""
        self._unsaved = 0
        self._lock = threading.Lock()

    def in_time(self, read: Callable[[], tuple[T, Properties]]) -> T:
        """Return what ``read`` found, in time.

        ``read`` begins with a listing of this catalog and returns the table's delays with its
        result. It is called again when it took too long. Raises Unavailable where it is too slow
        every time.
        """
        for _ in range(_TRIES):
            fresh = Freshness(self._world.clock)
            found, properties = read()
            fresh.lasts_s = properties.delete_delay_s / 2
            if not fresh.is_over:
                return found
        raise Unavailable(
            f"{self.bucket.url} was listed {_TRIES} times, and each time it took longer than half "
            f"of the table's delete_delay ({format_duration(properties.delete_delay_s)}) to read "
            "what the listing shows, which may be removed meanwhile: raise delete_delay, or open "
            "the table with a cache, so that less has to be read"
        )

    def sync(self, *, skip: Callable[[str], bool] = lambda ulid: False) -> Synced:
        """Look at the table.

        ``skip`` names directories not to be read; it is first called when the listing is complete.
        """
        return self.look(self.listing(), skip=skip)

    def listing(self) -> Listing:
        """One LIST of the table; in windows side by side where the last one was long and the store
        is slow."""
        last, clock = self._last, self._world.clock
        windows = () if last is None else windows_for(last)
        if windows:
            self._last = listing = list_windows(self.bucket, self._world, windows)
            return listing
        started = clock.monotonic_s()
        listing = list_directories(self.bucket)
        self._last = listing if is_slow(listing, clock.monotonic_s() - started) else None
        return listing

    def look(self, listing: Listing, *, skip: Callable[[str], bool] = lambda ulid: False) -> Synced:
        """What the directories of a listing of this bucket say, read where it is not known yet."""
        before = self._remembered()
        wanted = [directory for ulid, directory in listing.directories.items() if not skip(ulid)]
        looked = self._look_at_all(wanted, before)
        seen = {directory.ulid: one[1] for directory, one in zip(wanted, looked, strict=True)}
        found = {directory.ulid: one[0] for directory, one in zip(wanted, looked, strict=True)}
        new = sum(_is_new(one, before.get(ulid)) for ulid, one in seen.items())
        skipped = {
            ulid: before[ulid]
            for ulid in listing.directories.keys() - seen.keys()
            if ulid in before
        }
        self._remember({**skipped, **seen}, new)
        return Synced(
            listing=listing,
            found=found,
            new=new,
            known=len(found) - new,
            skewed=_skewed(found, listing.now_ms),
            malformed=Counter(one.kind for one in found.values() if one.kind is not None),
        )

    def save(self) -> None:
        """Write the cache file, if there is one and it lacks something."""
        with self._lock:
            if self._file is not None and self._seen is not None and self._unsaved:
                self._file.write(self._seen)
                self._unsaved = 0

    def _look_at_all(
        self, wanted: Sequence[Directory], before: Mapping[str, Seen]
    ) -> list[tuple[Found, Seen]]:
        """Everything known in this thread; what must be read side by side, in as few turns as keep
        all threads busy."""
        unread = [
            directory for directory in wanted if not is_read(directory, before.get(directory.ulid))
        ]
        size = max(1, len(unread) // _TURNS)
        turns = [unread[start : start + size] for start in range(0, len(unread), size)]
        read = self._world.pool.map(
            lambda turn: [look_at(self.bucket, one, before.get(one.ulid)) for one in turn], turns
        )
        looked = {one[0].directory.ulid: one for answer in read for one in answer}
        return [
            looked.get(directory.ulid)
            or look_at(self.bucket, directory, before.get(directory.ulid))
            for directory in wanted
        ]

    def _remembered(self) -> Mapping[str, Seen]:
        with self._lock:
            if self._seen is None:
                self._seen = {} if self._file is None else self._file.read()
            return self._seen

    def _remember(self, seen: Mapping[str, Seen], new: int) -> None:
        with self._lock:
            gone = 0 if self._seen is None else len(self._seen.keys() - seen.keys())
            self._seen = seen
            self._unsaved += new + gone
            due = self._unsaved * _SAVE_SHARE >= max(len(seen), 1)
        if due:
            self.save()


def _is_new(seen: Seen, before: Seen | None) -> bool:
    """Whether something was read that was not known before."""
    if before is None:
        return seen.meta is not None or seen.mark is not None
    return seen.meta is not before.meta or seen.mark is not before.mark


def _skewed(found: Mapping[str, Found], now_ms: int) -> tuple[str, ...]:
    """The blocks that claim a time which the store's clock has not reached by far."""
    limit_ms = now_ms + SKEW_MS
    limit = ulid_at(limit_ms + 1)
    return tuple(
        ulid
        for ulid, one in found.items()
        if ulid >= limit or (one.meta is not None and one.meta.uploaded_time > limit_ms)
    )

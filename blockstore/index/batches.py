"""The batches that one application has committed: what makes ``job = {app, batch}`` happen once
(protocol 3.7).

Invariants:
- Batches are kept as ranges, so that a backfill out of order is remembered exactly and a daily load
  costs a pair.
- An app named ``stream/…`` never requests a lower batch that was not committed: its ranges are one,
  up to the last. Only the last one may come again (``check_in_order``).
- The newest 64 batches also remember their entry and blocks, so that a retry returns what it wrote.
- An app named ``gateway/<job>/input-<ULID>`` is one upload, begun when the ULID was drawn (the
  job's own id may be a hash). A floor at or above the ULID forgets it, and from then on no batch of
  it is taken: else a late attempt would bring its rows a second time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

import immutables

from blockstore.errors import Conflict

STREAM = "stream/"
_UPLOAD = re.compile(r"gateway/[^/]+/input-([0-7][0-9A-HJKMNP-TV-Z]{25})")
_RECENT = 64


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch wrote: its entry and its blocks."""

    batch: int
    version: int
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppBatches:
    """The batches of one app; ranges are inclusive, sorted and never touch."""

    ranges: tuple[tuple[int, int], ...] = ()
    recent: tuple[Written, ...] = ()

    @property
    def last(self) -> int:
        """The highest batch committed."""
        return self.ranges[-1][1]

    def __contains__(self, batch: int) -> bool:
        place = bisect_right(self.ranges, (batch, 2**64)) - 1
        return place >= 0 and batch <= self.ranges[place][1]

    def written(self, batch: int) -> Written | None:
        """What the batch wrote, while it is one of the newest."""
        return next((one for one in reversed(self.recent) if one.batch == batch), None)

    def added(self, app: str, written: Written) -> AppBatches:
        """The batches with one more, which must not be among them."""
        recent = (*self.recent, written)[-_RECENT:]
        low = high = written.batch
        if app.startswith(STREAM):
            high = max(high, self.last) if self.ranges else high
            return AppBatches(((0, high),), recent)
        place = bisect_right(self.ranges, (low, high))
        before, after = self.ranges[:place], self.ranges[place:]
        if before and before[-1][1] == low - 1:
            low, before = before[-1][0], before[:-1]
        if after and after[0][0] == high + 1:
            high, after = after[0][1], after[1:]
        return replace(self, ranges=(*before, (low, high), *after), recent=recent)


Batches = immutables.Map[str, AppBatches]
"""The batches of every app."""


def is_forgotten(app: str, floor: str | None) -> bool:
    """Whether the app is an upload that a floor has passed."""
    upload = None if floor is None else _UPLOAD.fullmatch(app)
    return upload is not None and floor is not None and upload[1] <= floor


def forget_uploads(batches: Batches, floor: str) -> Batches:
    """The batches without those of uploads at or below the floor."""
    kept = batches.mutate()
    for app in batches:
        if is_forgotten(app, floor):
            del kept[app]
    return kept.finish()


def check_in_order(batches: Batches, app: str, batch: int, url: str) -> None:
    """Raise Conflict for a batch of a stream after which a later one was committed.

    Spark runs only the last batch of a query again, so this one is not the same batch. Treating it
    as done would lose its rows without an error.
    """
    own = batches.get(app) if app.startswith(STREAM) else None
    if own is not None and batch < own.last:
        raise Conflict(
            f"{url} already contains batch {own.last} of {app!r}, so batch {batch} was not "
            "written: the stream's checkpoint was set back or replaced, or another run of it is "
            "ahead. Start with a new checkpoint location (and, if you named the stream, another "
            "name), or stop the other run"
        )

"""A long listing, taken in windows of ULID space side by side.

Rules:
- Windows are prefixes, and one window of all that sorts after them: each block's key is in exactly
  one, whatever order the store lists in, also the keys of blocks that it is not yet known.
- They are cut where the blocks were at the last look, finer where there are many: a ULID starts
  with its time.
- Windows cost more requests than one listing, so they are taken only where they shorten the wait by
  half for at most three times the requests.
- If one window fails, the look fails: half a listing decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from blockstore.bucket.api import ObjectInfo, ReadBucket
from blockstore.lifecycle.listing import Listing, gathered
from blockstore.names import split_block_key
from blockstore.world import World

_PAGE = 1_000
"""Objects that a store lists in one request."""

_SLOW_S = 0.02
"""A page that takes longer is worth a thread: it is waiting, not computing."""

_LEAST = 4_000
"""Objects below which one listing after the other is quick enough."""

_LANES = 16
_LONGEST = 10
"""The characters of a ULID that are its time."""

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_AFTER = "~"
"""Sorts after every letter of a ULID."""


@dataclass(frozen=True, slots=True)
class Window:
    """One LIST: keys that start with ``prefix`` and sort after ``start_after``."""

    prefix: str
    start_after: str = ""


def is_slow(listing: Listing, seconds: float) -> bool:
    """Whether a listing that took so long was mostly waiting for the store."""
    return seconds > _SLOW_S * -(-listing.objects // _PAGE)


def windows_for(listing: Listing) -> tuple[Window, ...]:
    """The windows in which a table that looked like this is listed next; none where they would not
    pay."""
    if listing.objects < _LEAST:
        return ()
    ulids = list(listing.directories)
    upto = [0, *accumulate(len(directory.objects) for directory in listing.directories.values())]
    limit = max(listing.objects // _LANES, 2 * _PAGE)
    parts = list(_parts("", ulids, upto, limit))
    while parts and not parts[-1][1]:
        parts.pop()
    windows = (
        (*(Window(prefix) for prefix, _ in parts), Window("", parts[-1][0] + _AFTER))
        if parts
        else ()
    )
    pages = -(-listing.objects // _PAGE)
    longest = max((size for _, size in parts), default=0) // _PAGE + 1
    pays = 2 * (longest + len(windows) // _LANES) <= pages and len(windows) <= 2 * pages
    return windows if pays else ()


def list_windows(bucket: ReadBucket, world: World, windows: Sequence[Window]) -> Listing:
    """One look at the table, window by window."""
    now_ms = bucket.now_ms()
    objects: dict[str, dict[str, ObjectInfo]] = {}
    count = 0
    for found in world.pool.map(lambda window: _listed(bucket, window), windows):
        count += len(found)
        for info in found:
            place = split_block_key(info.key)
            if place is not None:
                objects.setdefault(place[0], {})[place[1]] = info
    return gathered(objects, now_ms=now_ms, count=count)


def _listed(bucket: ReadBucket, window: Window) -> list[ObjectInfo]:
    return list(bucket.list(window.prefix, start_after=window.start_after))


def _parts(
    prefix: str, ulids: Sequence[str], upto: Sequence[int], limit: int
) -> Iterator[tuple[str, int]]:
    """Prefixes that cover all of ULID space below ``prefix``, each once and in order, with the
    objects in each."""
    first, last = bisect_left(ulids, prefix), bisect_left(ulids, prefix + _AFTER)
    size = upto[last] - upto[first]
    if size <= limit or len(prefix) == _LONGEST:
        yield prefix, size
        return
    for letter in _letters(len(prefix)):
        yield from _parts(prefix + letter, ulids, upto, limit)


def _letters(place: int) -> str:
    """The letters that a ULID has at this place: it starts with an octal digit."""
    return _LETTERS[:8] if place == 0 else _LETTERS

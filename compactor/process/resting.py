"""A table that rests: nothing has changed, and nothing is to be done before a known time. Pure.

Rules:
- A table rests once each of its passes has run since a listing of its whole folder, a listing after
  them shows the same objects, and no pass has anything pending. What the passes themselves wrote
  shows too, so they run again until nothing more comes of them.
- A look at a resting table is one such listing. Anything that it shows otherwise wakes the table:
  an entry, a block, a mark, a boundary, the claim of another process.
- The wait between two looks doubles, from that between two plans of a table that does not rest to
  the longest that is configured.
- What falls due by time alone (a retention, a mark's delay, a window that closes, entries to
  collect) wakes it, too: a pass says when. And it does not rest longer than ``LONGEST_REST_S``.
- A listing decides nothing but that the passes run again. They look for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

from blockstore.bucket.api import ObjectInfo
from blockstore.compactor.process.lake import Place
from blockstore.index.chain import Link
from blockstore.index.epochs import Held

LONGEST_REST_S = 48 * 3600.0
"""The passes run at least this often, whatever they have said."""

Due: TypeAlias = float | None
"""In how many seconds time alone brings work: ``NOW`` if there is some, None if it never does."""

NOW = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """What is kept of a table while it rests. Times are seconds of a monotonic clock."""

    place: Place
    held: Held | None
    """The role, which stays claimed."""
    version: int
    last: Link
    """The newest entry, by which the table is known again."""
    hurried_s: tuple[float, ...] = ()
    """When rounds followed others at once, lately (``round.py``)."""
    mark: bytes
    """The fingerprint of its folder."""
    wait_s: float
    look_s: float
    """When it is looked at next."""
    due_s: float
    """When its passes run, though nothing changes."""

    def looked(self, now_s: float, *, longest_s: float, draw: float) -> Resting:
        """After a look that showed nothing new; ``draw`` is a random number from 0 to 1."""
        wait_s = min(2 * self.wait_s, longest_s)
        return replace(self, wait_s=wait_s, look_s=self._next(now_s, wait_s, draw))

    def failed(self, now_s: float, wait_s: float) -> Resting:
        """After a look that failed."""
        return replace(self, look_s=now_s + wait_s)

    def _next(self, now_s: float, wait_s: float, draw: float) -> float:
        """A little early, so that many tables that came to rest together part."""
        return min(now_s + wait_s * (1 - 0.1 * draw), self.due_s)


def earliest(dues: Iterable[Due]) -> Due:
    """The earliest of several."""
    return min((due for due in dues if due is not None), default=None)


def rests_until(now_s: float, due: Due, *, longest_s: float) -> float:
    """When the passes run again. Work that falls due one piece after the other, as entries do that
    were written over a day, is done together: at most once in the longest wait."""
    rest_s = LONGEST_REST_S if due is None else min(max(due, longest_s), LONGEST_REST_S)
    return now_s + rest_s


def fingerprint(objects: Iterable[ObjectInfo]) -> bytes:
    """What distinguishes two listings, in whatever order the store lists."""
    found = sorted((one.key, one.size, one.modified_ms, one.etag or "") for one in objects)
    digest = blake2b(digest_size=16)
    for one in found:
        digest.update(repr(one).encode())
    return digest.digest()

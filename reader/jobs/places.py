"""Places for jobs that all gateways of a bucket share, so that a cap holds over all of them.

Rules:
- A place is held like an attempt of a job (``store.py``): by the gateway that created its newest
  claim. It is free where there is no claim, where its holder gave it back, and where its lease has
  run out: a killed gateway frees its places after a lease.
- Threads of one gateway make claims that are alike: a place that one of them takes or holds is not
  sought by another.
- A place protects nothing. A gateway that slept for longer than a lease may run a job whose place
  another has, until that job ends or its own lease is found lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from blockstore.errors import BlockstoreError
from blockstore.names import job_claim_key
from blockstore.reader.jobs.record import Kind, Lease
from blockstore.reader.jobs.store import JobStore
from blockstore.reader.jobs.watch import LeaseWatch
from blockstore.world import World

_logger = logging.getLogger(__name__)

GROUPS = ("uploads", "changes", "reads")
"""The groups of jobs that share their places."""


def group_of(kind: Kind) -> str:
    """The group of a job of this kind."""
    if kind in (Kind.ROWS, Kind.TABLE, Kind.STATEMENT):
        return "changes"
    return "uploads" if kind is Kind.UPLOAD else "reads"


class SharedPlaces:
    """One gateway's part in the shared places; safe to share between threads."""

    def __init__(
        self, store: JobStore, world: World, holder: str, lease_s: float, caps: Mapping[str, int]
    ) -> None:
        self._store = store
        self._holder = holder
        self._caps = dict(caps)
        """How many places each group has; a group that is not named needs none."""
        self._watch = LeaseWatch(world.clock, lease_s)
        self._held: dict[str, tuple[str, int]] = {}
        """The place of each job of this gateway, and the attempt by which it is held."""
        self._full: set[str] = set()
        self._lock = threading.Lock()
        self._own: set[str] = set()
        """The places that this gateway holds, takes, or gives back."""

    def look_again(self) -> None:
        """Begin a pass: groups that were full are looked at again."""
        self._full.clear()

    def take(self, job: str, kind: Kind) -> bool:
        """Take a free place for a job; False if there is none. Raises Unavailable."""
        group = group_of(kind)
        if group not in self._caps:
            return True
        if group in self._full:
            return False
        for number in range(1, self._caps[group] + 1):
            place = f"places-{group}-{number}"
            attempt = self._take_alone(place)
            if attempt:
                self._held[job] = place, attempt
                return True
        self._full.add(group)
        return False

    def renew(self, job: str, beat: int) -> None:
        """Show that the holder of the job's place is alive."""
        if job in self._held:
            self._write(*self._held[job], beat=beat)

    def give_back(self, job: str) -> None:
        """Free the job's place at once; where the bucket does not answer, after its lease."""
        held = self._held.pop(job, None)
        if held is None:
            return
        try:
            self._write(*held, released=True)
        except BlockstoreError as error:
            _logger.warning("%s of the jobs is free only after its lease: %s", held[0], error)
        finally:
            self._own.discard(held[0])

    def _take_alone(self, place: str) -> int:
        """As ``_take``, by one thread of this gateway at a time; 0 for a place that it has."""
        with self._lock:
            if place in self._own:
                return 0
            self._own.add(place)
        attempt = 0
        try:
            attempt = self._take(place)
        finally:
            if not attempt:
                self._own.discard(place)
        return attempt

    def _take(self, place: str) -> int:
        """The attempt by which the place was taken; 0 if it was not free."""
        newest = max(self._store.claims(place), default=0)
        held = self._store.lease(place, newest) if newest else None
        if held is not None and not self._watch.over(place, held):
            return 0
        mine = Lease(attempt=newest + 1, holder=self._holder, beat=0)
        if not self._store.claim(place, mine):
            return 0
        # A gateway that slept since it looked may have made a claim that others have removed.
        claims = self._store.claims(place)
        counts = max(claims, default=0) == mine.attempt
        outdated = claims - {mine.attempt} if counts else {mine.attempt}
        self._store.bucket.delete(job_claim_key(place, one) for one in outdated)
        return mine.attempt if counts else 0

    def _write(self, place: str, attempt: int, *, beat: int = 0, released: bool = False) -> None:
        lease = Lease(attempt=attempt, holder=self._holder, beat=beat, released=released)
        self._store.renew(place, lease)

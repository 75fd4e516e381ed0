"""Which jobs a pass of a gateway looks at: those that are marked as open (``store.py``).

Rules:
- A mark is deleted when its job has ended, by the gateway that ended it or by the next one that
  looks. A mark that cannot be deleted is looked at once more.
- Of many marked jobs each gets its turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress

from blockstore.errors import BlockstoreError, Corrupt, NewerFormat, NotFound
from blockstore.reader.jobs.store import JobStore, Sketch

_logger = logging.getLogger(__name__)

AT_ONCE = 200
"""So many jobs are looked at in one pass."""


class Marks:
    """The marks, for one gateway."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._over: set[str] = set()
        """Jobs that ended here and are still marked."""
        self._places: dict[str, dict[str, int]] = {}
        """The places of jobs in the list, as the last check found them."""
        self._seen = ""
        """The last job that was looked at."""

    def ended(self, job: str) -> None:
        """The job has its outcome; safe to call from any thread."""
        with self._lock:
            self._over.add(job)

    def look(self) -> tuple[set[str], list[Sketch]]:
        """The jobs that may be open, and the records of those whose turn it is, in the order of
        their ids."""
        marked = set(self._store.marked())
        with self._lock:
            over, self._over = self._over & marked, set()
        sketches = [self._store.sketch(job) for job in self._next_of(marked - over)]
        over |= {one.job for one in sketches if one.ended}
        self._delete(over)
        return marked - over, sketches

    def check(self, limit_ms: int) -> list[Sketch]:
        """All jobs, by a listing: open ones without a mark get one, as those of a gateway of an
        earlier release, and marks without a job go that are older than ``limit_ms``; likewise with
        the places of jobs in the list."""
        sketches, marked = self._store.sketches(), self._store.marked()
        self._check_places({one.job for one in sketches if one.submitted}, limit_ms)
        known = {one.job for one in sketches if one.submitted}
        old = {job for job, at_ms in marked.items() if at_ms < limit_ms}
        self._delete(old - known)
        for sketch in sketches:
            if sketch.open and sketch.job not in marked:
                self._store.mark(sketch.job)
        return sketches

    def forget(self, sketch: Sketch) -> None:
        """Remove the records of a job that ``check`` found, and its places in the list."""
        self._store.forget(sketch)
        self._store.unlist(self._places.pop(sketch.job, ()))

    def _check_places(self, known: set[str], limit_ms: int) -> None:
        self._places = self._store.places()
        for job in sorted(known - set(self._places)):
            with suppress(NotFound, Corrupt, NewerFormat):
                self._store.list_as(job, self._store.request(job))
        lost = [
            place
            for job in set(self._places) - known
            for place, at_ms in self._places[job].items()
            if at_ms < limit_ms
        ]
        self._store.unlist(lost)

    def _next_of(self, marked: set[str]) -> list[str]:
        if len(marked) <= AT_ONCE:
            return sorted(marked)
        later = sorted(one for one in marked if one > self._seen)
        chosen = (later + sorted(marked - set(later)))[:AT_ONCE]
        self._seen = chosen[-1]
        return chosen

    def _delete(self, jobs: Iterable[str]) -> None:
        try:
            self._store.unmark(jobs)
        except BlockstoreError as error:
            _logger.warning("marks of jobs that have ended stay for now: %s", error)

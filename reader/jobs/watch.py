"""Whether a lease has run out, by the watcher's own clock.

Rule: the clocks of two machines are never compared. A lease is over for a watcher that has seen the
same claim, at the same beat, for the length of a lease on its own monotonic clock; a claim that it
sees for the first time is alive. A lease that its holder released is over at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from blockstore.clock import Clock
from blockstore.reader.jobs.record import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    attempt: int
    holder: str
    beat: int
    since_s: float


class LeaseWatch:
    """What one gateway has seen of the leases of others."""

    def __init__(self, clock: Clock, lease_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def over(self, job: str, lease: Lease) -> bool:
        """Whether the lease, read just now, is unchanged for the length of a lease."""
        if lease.released:
            return True
        now = self._clock.monotonic_s()
        with self._lock:
            seen = self._seen.get(job)
            if seen is None or (seen.attempt, seen.holder, seen.beat) != (
                lease.attempt,
                lease.holder,
                lease.beat,
            ):
                self._seen[job] = _Seen(
                    attempt=lease.attempt, holder=lease.holder, beat=lease.beat, since_s=now
                )
                return False
            return now - seen.since_s >= self._lease_s

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget all jobs but these."""
        wanted = set(jobs)
        with self._lock:
            self._seen = {job: seen for job, seen in self._seen.items() if job in wanted}

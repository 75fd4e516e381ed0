"""What all buckets of a process that are one bucket of one store have in common.

Rules:
- Retries take from one budget: a tenth of the requests, 100 at once, two a second. So a store that
  is down gets little more than its usual load.
- Hedges take from another one: a twentieth of the requests, five at once; none while the pace is
  limited.
- The time is handed in with each call, so one ``Traffic`` serves buckets of different clocks.
- Safe to share between threads. A forked child starts with what its parent knew.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from blockstore.bucket.traffic.budget import Budget
from blockstore.bucket.traffic.latency import Latency
from blockstore.bucket.traffic.pace import Pace

_lock = threading.Lock()
_shared: dict[str, Traffic] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficCounts:
    """What was sent until now, and the limit in force."""

    requests: int = 0
    """All of them, retries too, except hedges."""
    retries: int = 0
    retries_refused: int = 0
    hedges: int = 0
    hedges_won: int = 0
    throttled: int = 0
    rate: float = 0.0
    """Requests a second; 0 without a limit."""


_COUNTED = ("requests", "retries", "retries_refused", "hedges", "hedges_won", "throttled")


class Traffic:
    """The requests of this process to one bucket of a store.

    ``etags_are_md5s``: whether bodies can be compared with their ETags; until one shows that they
    cannot.
    """

    def __init__(self, *, etags_are_md5s: bool = False) -> None:
        self.etags_are_md5s = etags_are_md5s
        self._pace = Pace()
        self._retries = Budget(share=0.1, burst=100, per_s=2)
        self._hedges = Budget(share=0.05, burst=5)
        self._varying: set[str] = set()
        self._latencies: dict[str, Latency] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)

    def turn(self, now_s: float) -> float:
        """Count a request; return the seconds to wait before it is sent."""
        with _lock:
            self._counts["requests"] += 1
            self._retries.earn()
            self._hedges.earn()
            return self._pace.turn(now_s)

    def throttled(self, now_s: float) -> None:
        """Note that the store limits the rate of requests."""
        with _lock:
            self._counts["throttled"] += 1
            self._pace.throttled(now_s)

    def may_retry(self, now_s: float) -> bool:
        """Whether a request may be sent again; if so, it is counted."""
        with _lock:
            may = self._retries.spend(now_s)
            self._counts["retries" if may else "retries_refused"] += 1
            return may

    def may_hedge(self, now_s: float) -> bool:
        """Whether a late request may be sent a second time; if so, it is counted."""
        with _lock:
            may = self._pace.rate(now_s) is None and self._hedges.spend(now_s)
            self._counts["hedges"] += may
            return may

    def hedge_won(self) -> None:
        """Note that the second request had the first response."""
        with _lock:
            self._counts["hedges_won"] += 1

    def took(self, kind: str, seconds: float) -> None:
        """Note how long a successful request took."""
        with _lock:
            self._latencies.setdefault(kind, Latency()).note(seconds)

    def varies(self, kind: str) -> None:
        """Note that requests of this kind may take long for their size: none is late any more."""
        with _lock:
            self._varying.add(kind)

    def late_s(self, kind: str) -> float | None:
        """The seconds after which a request of this kind is late; None while that is unknown."""
        latency = self._latencies.get(kind)
        return None if latency is None or kind in self._varying else latency.late_s

    def counts(self, now_s: float) -> TrafficCounts:
        """The counts until now."""
        with _lock:
            return TrafficCounts(**self._counts, rate=self._pace.rate(now_s) or 0.0)


def shared_traffic(place: str, *, etags_are_md5s: bool = False) -> Traffic:
    """This process's traffic with the store's bucket ``place``; see ``Traffic``."""
    with _lock:
        return _shared.setdefault(place, Traffic(etags_are_md5s=etags_are_md5s))


def total_traffic(now_s: float) -> TrafficCounts:
    """The counts of all stores of this process together, with the lowest limit in force."""
    with _lock:
        every = list(_shared.values())
    counts = [one.counts(now_s) for one in every]
    sums = {name: sum(getattr(one, name) for one in counts) for name in _COUNTED}
    return TrafficCounts(**sums, rate=min((one.rate for one in counts if one.rate), default=0.0))


def _forget_lock() -> None:
    """In a forked child: a thread that held the lock does not exist there to release it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)

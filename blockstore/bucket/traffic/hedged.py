"""A bucket that sends a read a second time when it is late: the first response wins.

Rules:
- Only ``get`` and ``get_range``: never a write, never a listing.
- A read is late after the 95th percentile of its kind (``latency.py``). At most one more is sent,
  and only within the budget (``traffic.py``).
- The size of a complete object is not known before: if one was large, those whose names end like it
  are not sent again.
- An error that a retry could mend waits for the other request. Any other result is final: objects
  are immutable or replaced as a whole, so either response was true while the caller waited.
- Both requests run in spare threads, so that the slow one can be left behind. Without a free
  thread, or without enough samples, the caller's own thread sends the only one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from blockstore.bucket.api import Bucket, Object
from blockstore.bucket.traffic.latency import name_class, size_class
from blockstore.bucket.traffic.spare import Spare
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import Clock
from blockstore.errors import Unavailable

A = TypeVar("A")

_LARGE = 1024 * 1024


class Hedged(Wrapper):
    """``bucket``, of which late reads are sent again, in the threads of ``spare``."""

    def __init__(self, bucket: Bucket, clock: Clock, traffic: Traffic, spare: Spare) -> None:
        super().__init__(bucket)
        self._clock = clock
        self._traffic = traffic
        self._spare = spare

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        kind = name_class(key)

        def request() -> Object:
            found = self.inner.get(key, if_none_match=if_none_match)
            if len(found.data) > _LARGE:
                self._traffic.varies(kind)
            return found

        return self._read(kind, request)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(size_class(length), lambda: self.inner.get_range(key, start, length))

    def _read(self, kind: str, request: Callable[[], A]) -> A:
        timed = partial(self._timed, kind, request)
        late_s = self._traffic.late_s(kind)
        if late_s is None:
            return timed()
        race = _Race(timed)
        if not self._spare.run(partial(race.run, 0)):
            return timed()
        if race.ended.wait(late_s) or not self._traffic.may_hedge(self._clock.monotonic_s()):
            return race.result()
        race.enter()
        if not self._spare.run(partial(race.run, 1)):
            race.run(1)
        found = race.result()
        if race.winner:
            self._traffic.hedge_won()
        return found

    def _timed(self, kind: str, request: Callable[[], A]) -> A:
        """Send the request; a response counts as one whatever it says, also "not modified"."""
        start_s = self._clock.monotonic_s()
        responded = True
        try:
            return request()
        except Unavailable:
            responded = False
            raise
        finally:
            if responded:
                self._traffic.took(kind, self._clock.monotonic_s() - start_s)


class _Race(Generic[A]):
    """One read, carried out by one or two runners."""

    def __init__(self, request: Callable[[], A]) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._running = 1
        self._found: A | None = None
        self._error: BaseException | None = None
        self.winner = 0
        self.ended = threading.Event()

    def enter(self) -> None:
        """Let a second runner take part; without effect once the race has ended."""
        with self._lock:
            self._running += 1

    def run(self, runner: int) -> None:
        """Carry out the read; its result counts if it is the first."""
        found: A | None = None
        error: BaseException | None = None
        try:
            found = self._request()
        except BaseException as raised:  # noqa: BLE001 - raised again in the caller's thread
            error = raised
        with self._lock:
            self._running -= 1
            if self.ended.is_set():
                return
            if isinstance(error, Unavailable) and self._running:
                return  # the other one may still have a response
            self._found, self._error, self.winner = found, error, runner
            self.ended.set()

    def result(self) -> A:
        """Wait for the first response, and return or raise it."""
        self.ended.wait()
        if self._error is not None:
            raise self._error
        return self._found  # type: ignore[return-value]

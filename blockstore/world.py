"""The surroundings of a process in one value: clock, identifiers and threads.

Only this module makes a thread pool. Code that needs time, randomness, parallel calls or the end of
another thread's work takes a ``World``; a test hands in a manual clock, seeded ids and a pool that
runs everything in turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from blockstore.clock import Clock, ManualClock, SystemClock
from blockstore.ids import Ids

A = TypeVar("A")
B = TypeVar("B")


class Pool(Protocol):
    """Runs calls in parallel."""

    def map(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Return ``[call(item) for item in items]``; raise the first error after all have ended.

        Where this thread is interrupted (Ctrl-C) calls that have begun may still run.
        """
        ...

    def wait(self, event: threading.Event) -> None:
        """Sleep until another thread of this process has set the event."""
        ...

    def runs_beside(self) -> bool:
        """Return whether calls would run beside this thread: else ``start`` must not be used."""
        ...

    def start(self, call: Callable[[], None]) -> None:
        """Run a call in another thread, and do not wait for it. The call raises nothing.

        A call that was started may start others.
        """
        ...


class Serial:
    """A pool of one: calls run in turn, in the caller's thread. Deterministic."""

    def map(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [call(item) for item in items]

    def wait(self, event: threading.Event) -> None:
        event.wait()

    def runs_beside(self) -> bool:
        return False

    def start(self, call: Callable[[], None]) -> None:
        raise AssertionError("this pool has no other thread: check runs_beside first")


class Threads:
    """A pool of threads, made at its first use in a process and made again after a fork.

    The caller works too: it takes the first call, and, while the pool's threads are busy with those
    of others, what they have not begun. So many callers that share a pool never wait for a free
    thread. A call in the pool that maps again does so in turn, in its own thread: if it waited for
    the pool's threads, all of them could wait and none would be left to work.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ThreadPoolExecutor | None = None
        self._pid = -1
        self._inside = threading.local()

    def map(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        work = list(items)
        if len(work) <= 1:
            return [call(item) for item in work]
        if not self.runs_beside():
            futures = [_ended(call, item) for item in work]
        else:
            futures = self._shared(call, work)
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    def _shared(self, call: Callable[[A], B], work: list[A]) -> list[Future[B]]:
        """Carry out the first call here and the others in the pool, or here if it is busy."""
        threads = self._threads()
        sent = [threads.submit(self._within, call, item) for item in work[1:]]
        try:
            futures = [_ended(call, work[0]), *sent]
            # From the end, where the pool has not come to yet.
            for place in range(len(work) - 1, 0, -1):
                if futures[place].cancel():
                    futures[place] = _ended(call, work[place])
        except BaseException:
            for future in sent:
                future.cancel()
            raise
        return futures

    def _within(self, call: Callable[[A], B], item: A) -> B:
        self._inside.here = True
        return call(item)

    def wait(self, event: threading.Event) -> None:
        event.wait()

    def runs_beside(self) -> bool:
        return not getattr(self._inside, "here", False)

    def start(self, call: Callable[[], None]) -> None:
        self._threads().submit(self._within, lambda _: call(), None)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pid != os.getpid():
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="blockstore")
            self._pid = os.getpid()
        return self._pool


def _ended(call: Callable[[A], B], item: A) -> Future[B]:
    """Carry out the call now; return its result or its error as a finished future."""
    future: Future[B] = Future()
    try:
        future.set_result(call(item))
    except Exception as error:  # noqa: BLE001 - raised later, as the pool's calls are
        future.set_exception(error)
    return future


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The surroundings of one process."""

    clock: Clock
    ids: Ids
    pool: Pool

    @classmethod
    def real(cls, *, workers: int = 32) -> World:
        """Return the machine's clock and randomness, and ``workers`` threads."""
        clock = SystemClock()
        return cls(clock=clock, ids=Ids(clock), pool=Threads(workers))

    @classmethod
    def manual(cls, *, seed: int = 0, now_ms: int = 1_700_000_000_000) -> World:
        """Return a deterministic world: a manual clock, seeded ids, calls in turn."""
        clock = ManualClock(now_ms)
        return cls(clock=clock, ids=Ids.seeded(clock, seed), pool=Serial())

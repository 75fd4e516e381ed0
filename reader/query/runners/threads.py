"""Calls of the main thread, carried out in a thread beside it.

Why: a signal is heard by the main thread alone, and by none while that is inside DuckDB. So there
DuckDB gets a thread of its own, and the main thread waits where Ctrl-C reaches it.

Rules:
- A thread is kept for the next query: to start one takes longer than many a query should take as a
  whole.
- A thread is free again only once it has carried out its last call: a query that does not stop
  holds up no other.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

A = TypeVar("A")

_TO_STOP_S = 2.0
"""How long an interrupted call has to end; then it is left to itself."""
_HEARD_S = 0.25


class Beside:
    """Runs the calls of one query, one after the other, so that they can be interrupted; in the
    same thread if that is not the main one. ``interrupt`` makes a running call end soon."""

    def __init__(self, carriers: Carriers, interrupt: Callable[[], None]) -> None:
        self._carriers = carriers
        self._interrupt = interrupt
        self._carrier: _Carrier | None = None

    def run(self, call: Callable[[], A]) -> A:
        """What ``call`` answers or raises; an interruption of the main thread interrupts it
        first."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        if self._carrier is None:
            self._carrier = self._carriers.take()
        future = self._carrier.submit(call)
        try:
            # A signal that comes just before a wait begins does not end that wait, so it is a short
            # one.
            while not future.done():
                with suppress(TimeoutError):
                    return future.result(_HEARD_S)
            return future.result()
        except KeyboardInterrupt:
            self._interrupt()
            wait([future], timeout=_TO_STOP_S)
            raise

    def end(self, call: Callable[[], None]) -> None:
        """The last call, for which nobody waits if another thread has carried out the others."""
        carrier, self._carrier = self._carrier, None
        if carrier is None:
            call()
            return
        self._carriers.finish(carrier, call)


class Carriers:
    """The threads of one engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Carrier] = []
        self._finishing: set[_Carrier] = set()
        self._closed = False
        # One that is forgotten, not closed, leaves no threads behind. Nor does the end of the
        # interpreter, which would abort the process if a thread came back from DuckDB after it.
        weakref.finalize(self, _end_all, self._lock, self._idle, self._finishing)

    def take(self) -> _Carrier:
        """An idle thread, or a new one."""
        with self._lock:
            return self._idle.pop() if self._idle else _Carrier()

    def finish(self, carrier: _Carrier, call: Callable[[], None]) -> None:
        """Have it carry out a last call; then it is idle."""
        with self._lock:
            # Not apart: who closes between would end the thread before its last call.
            self._finishing.add(carrier)
            carrier.submit(call)
            carrier.submit(lambda: self._free(carrier))

    def close(self) -> None:
        """End the threads whose last call was handed in, others after it; waits for them, but not
        for what does not stop."""
        with self._lock:
            self._closed = True
        _end_all(self._lock, self._idle, self._finishing)

    def _free(self, carrier: _Carrier) -> None:
        with self._lock:
            self._finishing.discard(carrier)
            if not self._closed:
                self._idle.append(carrier)
                return
        carrier.end()


class _Carrier:
    """One thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_carry_out, args=(self._calls,), name="query", daemon=True
        )
        self._thread.start()

    def submit(self, call: Callable[[], A]) -> Future[A]:
        """Carry it out after all that was submitted before."""
        future: Future[A] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """Carry out what was submitted, and end."""
        self._calls.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_TO_STOP_S)


def _end_all(lock: threading.Lock, idle: list[_Carrier], finishing: set[_Carrier]) -> None:
    with lock:
        over = [*idle, *finishing]
        idle.clear()
    for carrier in over:
        carrier.end()


def _carry_out(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (asked := calls.get()) is not None:
        future, call = asked
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            future.set_exception(error)
        del asked, future, call  # a thread that waits holds nothing of what it has answered

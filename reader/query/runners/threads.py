"""Threads that run the queries of the main thread, so that Ctrl-C can stop them.

Why: Python delivers a signal to the main thread only, and not while that thread is inside DuckDB.
So DuckDB runs in a thread of its own, and the main thread waits where Ctrl-C reaches it.

Rules:
- A thread is kept for the next query: starting one takes longer than a small query.
- A thread is free again only after its last call: a query that does not stop delays no other.
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
"""How long to wait for an interrupted call to end."""
_HEARD_S = 0.25


class QueryThread:
    """Runs the calls of one query one after the other, so that Ctrl-C can interrupt them; in the
    calling thread if that is not the main one. ``interrupt`` makes a running call end soon."""

    def __init__(self, threads: QueryThreads, interrupt: Callable[[], None]) -> None:
        self._threads = threads
        self._interrupt = interrupt
        self._thread: _Thread | None = None

    def run(self, call: Callable[[], A]) -> A:
        """Return what ``call`` returns. If the main thread is interrupted, interrupt the call
        first."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        future: Future[A] | None = None
        try:
            if self._thread is None:
                self._thread = self._threads.take()
            future = self._thread.submit(call)
            # Short waits: a signal that arrives just before a wait begins does not end it.
            while not future.done():
                with suppress(TimeoutError):
                    return future.result(_HEARD_S)
            return future.result()
        except KeyboardInterrupt:
            # Also where it came before the call was submitted: then it does not begin.
            self._interrupt()
            wait([future] if future is not None else [], timeout=_TO_STOP_S)
            raise

    def end(self, call: Callable[[], None]) -> None:
        """Run the last call; without waiting for it if another thread ran the others."""
        thread, self._thread = self._thread, None
        if thread is None:
            call()
            return
        self._threads.finish(thread, call)


class QueryThreads:
    """The threads of one engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Thread] = []
        self._finishing: set[_Thread] = set()
        self._closed = False
        # Also ends the threads of an engine that was never closed, and before the interpreter ends:
        # a thread that returned from DuckDB after that would abort the process.
        weakref.finalize(self, _end_all, self._lock, self._idle, self._finishing)

    def take(self) -> _Thread:
        """An idle thread, or a new one."""
        with self._lock:
            return self._idle.pop() if self._idle else _Thread()

    def finish(self, thread: _Thread, call: Callable[[], None]) -> None:
        """Give the thread a last call; after it the thread is idle."""
        with self._lock:
            # In one step: a close between the two would end the thread before its last call.
            self._finishing.add(thread)
            thread.submit(call)
            thread.submit(lambda: self._free(thread))

    def close(self) -> None:
        """End the idle threads now and the others after their last call; wait for them, but not for
        a call that does not stop."""
        with self._lock:
            self._closed = True
        _end_all(self._lock, self._idle, self._finishing)

    def _free(self, thread: _Thread) -> None:
        with self._lock:
            self._finishing.discard(thread)
            if not self._closed:
                self._idle.append(thread)
                return
        thread.end()


class _Thread:
    """One thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_run_calls, args=(self._calls,), name="query", daemon=True
        )
        self._thread.start()

    def submit(self, call: Callable[[], A]) -> Future[A]:
        """Run the call after all that were submitted before."""
        future: Future[A] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """End after the calls that were submitted."""
        self._calls.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_TO_STOP_S)


def _end_all(lock: threading.Lock, idle: list[_Thread], finishing: set[_Thread]) -> None:
    with lock:
        over = [*idle, *finishing]
        idle.clear()
    for thread in over:
        thread.end()


def _run_calls(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (job := calls.get()) is not None:
        future, call = job
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            future.set_exception(error)
        del job, future, call  # an idle thread must not keep results alive

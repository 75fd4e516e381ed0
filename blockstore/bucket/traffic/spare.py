"""Spare threads: each carries out one request that its caller may leave behind.

Rules:
- A call is taken by an idle thread, or by a new one while there are fewer than ``most``. Else it is
  refused: it never waits for a thread, so threads cannot wait for each other.
- They are daemons, because an abandoned request must not keep a process from ending.
- An idle thread ends after a while. A forked child starts without any.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

_IDLE_S = 20.0


class Spare:
    """At most ``most`` threads, made when they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._start_again()
        os.register_at_fork(after_in_child=self._start_again)

    def run(self, call: Callable[[], None]) -> bool:
        """Carry out ``call``, which raises nothing, in a spare thread; False if none is free."""
        with self._lock:
            if self._idle:
                work = self._idle.pop()
            elif self._alive < self._most:
                self._alive += 1
                work = queue.SimpleQueue[Callable[[], None]]()
                threading.Thread(
                    target=self._carry_out, args=(work,), name="blockstore-spare", daemon=True
                ).start()
            else:
                return False
        work.put(call)
        return True

    def wait(self, event: threading.Event) -> None:
        """Sleep until a call has set the event."""
        event.wait()

    def _carry_out(self, work: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                call = work.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if work in self._idle:
                        self._idle.remove(work)
                        self._alive -= 1
                        return
                continue  # taken meanwhile: its call is about to arrive
            call()
            with self._lock:
                self._idle.append(work)

    def _start_again(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []
        self._alive = 0


SPARE = Spare(128)
"""The spare threads of this process."""

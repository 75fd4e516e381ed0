"""Who waits for which job of this gateway: they are called as soon as it does not run here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial


class Endings:
    """Those who wait; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, list[Callable[[], None]]] = {}

    def watch(self, job: str, call: Callable[[], None]) -> Callable[[], None]:
        """Call this, from any thread, each time the job has run here; return what ends that."""
        with self._lock:
            self._calls.setdefault(job, []).append(call)
        return partial(self._forget, job, call)

    def ended(self, job: str) -> None:
        """The job does not run here any more."""
        with self._lock:
            calls = tuple(self._calls.get(job, ()))
        for call in calls:
            call()

    def _forget(self, job: str, call: Callable[[], None]) -> None:
        with self._lock:
            calls = self._calls[job]
            calls.remove(call)
            if not calls:
                del self._calls[job]

"""The places of what is received to be stored: so many files and loads at once, at all doors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem


class Place:
    """The right to receive; giving it back twice is allowed, from any thread."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._held = True

    def give_back(self) -> None:
        """Nothing more is received."""
        with self._lock:
            held, self._held = self._held, False
        if held:
            self._gateway.receiving.release()


@contextmanager
def receiving(gateway: Gateway) -> Iterator[Place]:
    """Hold a place. Raises Problem 429 where none is free."""
    if not gateway.receiving.acquire(blocking=False):
        limit = gateway.settings.http.uploads_at_once
        raise Problem(429, f"upload limit reached ({limit} at a time); retry in a few seconds")
    place = Place(gateway)
    try:
        yield place
    finally:
        place.give_back()

"""A dictionary of bounded weight, from which the least recently used values are dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """Values with weights; safe to share between threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def weight(self) -> int:
        """The weight of all values together: never more than the limit."""
        return self._weight

    def get(self, key: K) -> V | None:
        """Return the value and note its use; None if it is not here."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep the value, and drop others for it; one heavier than the limit is not kept."""
        with self._lock:
            self._drop(key)
            if weight > self._limit:
                return
            self._held[key] = (value, weight)
            self._weight += weight
            while self._weight > self._limit:
                self._drop(next(iter(self._held)))

    def drop(self, key: K) -> None:
        """Forget the value, if it is here."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._weight -= found[1]

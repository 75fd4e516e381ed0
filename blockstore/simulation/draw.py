"""Choices, all from one seed: nothing else in a run is left to chance."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from blockstore.clock import ManualClock
from blockstore.ids import Ids

T = TypeVar("T")


def subseed(*parts: object) -> int:
    """A seed of its own for one part of a run: the same for the same parts, in every process."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Draw:
    """Draws from one seed."""

    def __init__(self, *seed: object) -> None:
        self._uniform = Ids.seeded(ManualClock(), subseed(*seed)).uniform

    def unit(self) -> float:
        """A float from 0 to below 1."""
        return self._uniform(0, 1)

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self._uniform(0, 1) < probability

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return min(high, low + int(self._uniform(0, high - low + 1)))

    def choice(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.integer(0, len(items) - 1)]

    def span(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, every power of two between them as likely as any
        other."""
        octaves = max(1, (high // low).bit_length() - 1)
        start = low << self.integer(0, octaves - 1)
        return min(high, self.integer(start, 2 * start))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of them, in any order."""
        mixed = list(items)
        for at in range(len(mixed) - 1, 0, -1):
            other = self.integer(0, at)
            mixed[at], mixed[other] = mixed[other], mixed[at]
        return mixed

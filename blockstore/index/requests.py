"""How one handle gets small objects: in turn where a request is quicker than another thread, side by side elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from blockstore.bucket.api import Object, ReadBucket
from blockstore.errors import ObjectMissing
from blockstore.world import World

__all__ = ["Requests"]

A = TypeVar("A")
B = TypeVar("B")

_WORTH_A_THREAD_S = 0.001


class Requests:
    """The requests of one handle; takes note of how long this store takes to answer one."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self._bucket = bucket
        self._clock = world.clock
        self._pool = world.pool
        self._answer_s = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether a request takes longer than handing it to another thread."""
        return self._answer_s >= _WORTH_A_THREAD_S

    def get(self, key: str) -> Object | None:
        """The object, or None."""
        try:
            return self.timed(lambda: self._bucket.get(key))
        except ObjectMissing:
            return None

    def data(self, key: str) -> bytes | None:
        """Its bytes, or None."""
        found = self.get(key)
        return None if found is None else found.data

    def get_all(self, keys: Sequence[str]) -> list[Object | None]:
        """Several objects."""
        if len(keys) < 2 or not self.is_slow:
            return [self.get(key) for key in keys]
        return self._pool.map(self.get, keys)

    def beside(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """The answers of two requests; both are sent after this call."""
        if not self.is_slow:
            return first(), second()
        requests: tuple[Callable[[], object], ...] = (first, second)
        one, other = self._pool.map(lambda request: request(), requests)
        return cast(A, one), cast(B, other)

    def timed(self, request: Callable[[], A]) -> A:
        """Make a request, and take note of how long it takes."""
        started = self._clock.monotonic_s()
        try:
            return request()
        finally:
            took = self._clock.monotonic_s() - started
            self._answer_s = 0.5 * (self._answer_s + took) if self._answer_s else took

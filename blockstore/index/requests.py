"""How one handle gets small objects: in turn where a request is quicker than another thread, side
by side elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from blockstore.bucket.api import NotModified, Object, ReadBucket
from blockstore.errors import ObjectMissing
from blockstore.world import World

A = TypeVar("A")
B = TypeVar("B")

_WORTH_A_THREAD_S = 0.001


class Requests:
    """The requests of one handle; records how long this store takes to respond."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self.bucket = bucket
        self._clock = world.clock
        self._pool = world.pool
        self._answer_s = 0.0
        self.quickest_s = 0.0
        """How long the quickest of them took."""

    @property
    def is_slow(self) -> bool:
        """Whether a request takes longer than handing it to another thread."""
        return self._answer_s >= _WORTH_A_THREAD_S

    @property
    def run_beside(self) -> bool:
        """Whether requests made here run side by side."""
        return self._pool.runs_beside()

    def get(self, key: str) -> Object | None:
        """The object, or None."""
        try:
            return self.timed(lambda: self.bucket.get(key))
        except ObjectMissing:
            return None

    def get_changed(self, key: str, etag: str | None) -> Object:
        """The object, unless it still has this ETag. Raises NotModified or ObjectMissing."""
        return self.timed(lambda: self.bucket.get(key, if_none_match=etag))

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
        """The results of two requests; both are sent after this call."""
        one, other, _ = self.beside_looks(first, second, {})
        return one, other

    def beside_looks(
        self, first: Callable[[], A], second: Callable[[], B], read: Mapping[str, str]
    ) -> tuple[A, B, bool]:
        """The results of two requests, and whether all that was read before, ETags by key, is still
        there: only then was it there together. All are sent after this call; the responses to the
        looks have no bytes (304)."""
        one, other, still, _ = self.wave(first, second, read, ())
        return one, other, still

    def wave(
        self,
        first: Callable[[], A],
        second: Callable[[], B],
        read: Mapping[str, str],
        keys: Sequence[str],
    ) -> tuple[A, B, bool, list[Object | None]]:
        """The same, and the objects of ``keys``, which may be got after all the others."""
        requests: list[Callable[[], object]] = [first, second]
        requests += [partial(self._is_still, key, etag) for key, etag in read.items()]
        requests += [partial(self.get, key) for key in keys]
        if self.is_slow:
            one, other, *rest = self._pool.map(lambda request: request(), requests)
        else:
            one, other, *rest = [request() for request in requests]
        found = cast("list[Object | None]", rest[len(read) :])
        return cast(A, one), cast(B, other), all(rest[: len(read)]), found

    def _is_still(self, key: str, etag: str) -> bool:
        try:
            return self.bucket.get(key, if_none_match=etag).etag == etag
        except NotModified:
            return True
        except ObjectMissing:
            return False

    def timed(self, request: Callable[[], A]) -> A:
        """Make a request, and record how long it takes."""
        started = self._clock.monotonic_s()
        try:
            return request()
        finally:
            took = self._clock.monotonic_s() - started
            self._answer_s = 0.5 * (self._answer_s + took) if self._answer_s else took
            self.quickest_s = min(self.quickest_s or took, took)

"""A bucket that sends its requests at the pace of its traffic.

Rules:
- Every request is counted, and waits for its turn before it is sent; conditional writes too, since
  nothing of theirs was sent yet. A listing waits once, a writer when it is closed.
- ``Throttled`` slows all buckets of the same traffic, and is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import Clock
from blockstore.errors import Throttled

A = TypeVar("A")


class Paced(Wrapper):
    """``bucket``, at the pace of ``traffic``."""

    def __init__(self, bucket: Bucket, clock: Clock, traffic: Traffic) -> None:
        super().__init__(bucket)
        self._clock = clock
        self._traffic = traffic

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.send(lambda: self.inner.get(key, if_none_match=if_none_match))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.send(lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self.send(lambda: self.inner.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return self._each(
            lambda: self.inner.list(
                prefix, start_after=start_after, recursive=recursive, at_most=at_most
            )
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return self._each(lambda: self.inner.prefixes(prefix))

    def now_ms(self) -> int:
        # Rarely a request, and a small one.
        return self.watch(self.inner.now_ms)

    def put(self, key: str, data: bytes) -> str:
        return self.send(lambda: self.inner.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.send(lambda: self.inner.put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.send(lambda: self.inner.put_if_match(key, data, etag))

    def writer(self, key: str) -> ObjectWriter:
        return _PacedWriter(self, self.inner.writer(key))

    def delete(self, keys: Iterable[str]) -> None:
        self.send(lambda: self.inner.delete(keys))

    def delete_once(self, key: str) -> None:
        self.send(lambda: self.inner.delete_once(key))

    def keeps_versions(self) -> bool | None:
        return self.send(self.inner.keeps_versions)

    def send(self, request: Callable[[], A]) -> A:
        """Send the request in its turn."""
        self.wait()
        return self.watch(request)

    def wait(self) -> None:
        """Wait for the turn of one request."""
        wait_s = self._traffic.turn(self._clock.monotonic_s())
        if wait_s:
            self._clock.sleep(wait_s)

    def watch(self, request: Callable[[], A]) -> A:
        """Send the request now; note a store that limits the rate."""
        try:
            return request()
        except Throttled:
            self._traffic.throttled(self._clock.monotonic_s())
            raise

    def _each(self, listing: Callable[[], Iterator[A]]) -> Iterator[A]:
        self.wait()
        try:
            yield from listing()
        except Throttled:
            self._traffic.throttled(self._clock.monotonic_s())
            raise


class _PacedWriter:
    def __init__(self, paced: Paced, inner: ObjectWriter) -> None:
        self._paced = paced
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        return self._paced.watch(lambda: self._inner.write(data))

    def close(self) -> None:
        self._paced.send(self._inner.close)

    def abort(self) -> None:
        self._inner.abort()

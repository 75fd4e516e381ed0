"""A bucket that repeats requests that got no response, where that is safe.

Rules:
- Only idempotent requests are repeated: reads, plain puts, writers' parts, deletes.
- Never a conditional write: its response decides, and a second one could lose against the first
  (3.3 step 4). Nor ``delete_once``: the key may name another object by then.
- Never after NoSpace: only a person can free a full disk.
- A write with one Unanswered attempt ends as Unanswered, whatever the last attempt raised: it may
  have been applied.
- Retries take from the budget that all requests to one bucket of a store share
  (``traffic/traffic.py``); an attempt for which there is none left was the last one.
- Full jitter: each pause is random, between zero and a bound that doubles; all of them end before
  the deadline.
- A body is requested again where its ETag is an MD5 and not the body's: a proxy that says too small
  a length cuts a response, and the client cannot see it. The same body twice is what the store
  holds: its ETags are not MD5s then (it encrypts), and show nothing from then on.
- A listing is returned once it is complete, so that a failure midway restarts it and no key is
  yielded twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import NoSpace, Unanswered, Unavailable
from blockstore.world import World

A = TypeVar("A")

_DELETE_BATCH = 1_000
_MD5 = re.compile("[0-9a-f]{32}")
_COMPARED_BYTES = 1 << 20
"""Larger objects are chunks and checkpoints: their readers compare stronger hashes."""


class Retrying(Wrapper):
    """``bucket``, with up to ``attempts`` attempts within ``deadline_s`` where that is safe."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        *,
        traffic: Traffic | None = None,
        attempts: int = 6,
        deadline_s: float = 60.0,
        first_pause_s: float = 0.1,
        longest_pause_s: float = 10.0,
    ) -> None:
        super().__init__(bucket)
        self._world = world
        self._traffic = traffic or Traffic()
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        def request() -> Object:
            found = self.inner.get(key, if_none_match=if_none_match)
            if not self._traffic.etags_are_md5s or _fits(found):
                return found
            again = self.inner.get(key)
            if again == found:
                self._traffic.etags_are_md5s = False
            elif not _fits(again):
                raise Unavailable(
                    f"the object {key!r} of {self.url} was received with {len(found.data)} and "
                    f"with {len(again.data)} bytes, and neither match its ETag {again.etag}: try "
                    "again; if it stays so, a proxy or the store changes responses"
                )
            return again

        return self.retry(request)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.retry(lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self.retry(lambda: self.inner.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return iter(
            self.retry(
                lambda: [
                    *self.inner.list(
                        prefix, start_after=start_after, recursive=recursive, at_most=at_most
                    )
                ]
            )
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return iter(self.retry(lambda: [*self.inner.prefixes(prefix)]))

    def now_ms(self) -> int:
        return self.retry(self.inner.now_ms)

    def put(self, key: str, data: bytes) -> str:
        return self.retry(lambda: self.inner.put(key, data))

    def writer(self, key: str) -> ObjectWriter:
        return _RetryingWriter(self, self.inner.writer(key))

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while batch := tuple(islice(remaining, _DELETE_BATCH)):
            self.retry(lambda batch=batch: self.inner.delete(batch))  # type: ignore[misc]

    def keeps_versions(self) -> bool | None:
        return self.retry(self.inner.keeps_versions)

    def retry(self, request: Callable[[], A]) -> A:
        """Return the result of ``request`` from its first successful attempt.

        Else raise its last error, or Unanswered if any attempt of a write was.
        """
        clock = self._world.clock
        deadline = clock.monotonic_s() + self._deadline_s
        unanswered = False
        for attempt in range(1, self._attempts + 1):
            try:
                return request()
            except Unavailable as error:
                unanswered |= isinstance(error, Unanswered)
                longest = min(self._longest_pause_s, self._first_pause_s * 2.0 ** (attempt - 1))
                pause = self._world.ids.uniform(0, longest)
                over = attempt == self._attempts or clock.monotonic_s() + pause >= deadline
                final = over or isinstance(error, NoSpace)
                if final or not self._traffic.may_retry(clock.monotonic_s()):
                    if unanswered and not isinstance(error, Unanswered):
                        raise Unanswered(f"{error} (an earlier attempt got no response)") from error
                    raise
            clock.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


def _fits(found: Object) -> bool:
    """Whether nothing shows that the body is not the object's."""
    if len(found.data) > _COMPARED_BYTES or _MD5.fullmatch(found.etag) is None:
        return True
    return hashlib.md5(found.data, usedforsecurity=False).hexdigest() == found.etag


class _RetryingWriter:
    """A writer that sends unsent bytes again: by ``write(b"")`` or by ``close``."""

    def __init__(self, retrying: Retrying, inner: ObjectWriter) -> None:
        self._retrying = retrying
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        size = len(memoryview(data).cast("B"))
        unsent = [data]

        def send() -> None:
            # The inner writer keeps the data, also when it raises: pass it only once.
            self._inner.write(unsent.pop() if unsent else b"")

        self._retrying.retry(send)
        return size

    def close(self) -> None:
        self._retrying.retry(self._inner.close)

    def abort(self) -> None:
        self._inner.abort()

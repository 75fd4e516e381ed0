"""Sends again what may be sent again, when the store did not answer.

Rules:
- Only requests that are the same whether done once or twice: reads, plain puts, writers' parts,
  deletes.
- Never a conditional write: its answer decides, and a second one could lose against the first (3.3
  step 4). Nor ``delete_once``: what has the key by then may be another's.
- Never after NoSpace: a full disk is a matter for people.
- A write of which one attempt was not answered ends as Unanswered, whatever the last one was told:
  it may be there.
- Full jitter: each pause is drawn between nothing and a bound that doubles; all of them end before
  the deadline.
- A listing is handed out once it is whole, so that a failure midway starts it again and none is
  seen twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import NoSpace, Unanswered, Unavailable
from blockstore.world import World

A = TypeVar("A")

_DELETE_BATCH = 1_000


class Retrying(Wrapper):
    """``bucket``, asked up to ``attempts`` times within ``deadline_s`` where a second request does
    no harm."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        *,
        attempts: int = 6,
        deadline_s: float = 60.0,
        first_pause_s: float = 0.1,
        longest_pause_s: float = 10.0,
    ) -> None:
        super().__init__(bucket)
        self._world = world
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.retry(lambda: self.inner.get(key, if_none_match=if_none_match))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.retry(lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self.retry(lambda: self.inner.head(key))

    def list(
        self, prefix: str = "", *, start_after: str = "", recursive: bool = True
    ) -> Iterator[ObjectInfo]:
        return iter(
            self.retry(
                lambda: [*self.inner.list(prefix, start_after=start_after, recursive=recursive)]
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
        """What ``request`` answers, at the first attempt that is answered; else its last error, or
        Unanswered if a write among them was."""
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
                if isinstance(error, NoSpace) or over:
                    if unanswered and not isinstance(error, Unanswered):
                        raise Unanswered(
                            f"{error} (an earlier attempt was not answered)"
                        ) from error
                    raise
            clock.sleep(pause)
        raise AssertionError("the last attempt is answered or raises")


class _RetryingWriter:
    """A writer whose unsent bytes are sent again:

    ``write(b"")`` after ``write``, ``close`` after ``close``.
    """

    def __init__(self, retrying: Retrying, inner: ObjectWriter) -> None:
        self._retrying = retrying
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        size = len(memoryview(data).cast("B"))
        unsent = [data]

        def send() -> None:
            # The inner writer keeps what it was given, also when it raises: give it only once.
            self._inner.write(unsent.pop() if unsent else b"")

        self._retrying.retry(send)
        return size

    def close(self) -> None:
        self._retrying.retry(self._inner.close)

    def abort(self) -> None:
        self._inner.abort()

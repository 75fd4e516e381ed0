"""A bucket that misbehaves on order: what crash enumeration and fault tests are made with.

Every request is a numbered call, from 1 in the order in which they are made; each key of a
``delete`` is a call of its own, a writer is one call when it is closed (before that nothing is
visible), a listing is one call when it is asked for. A killed process makes no further call: once
``Killed`` was raised, every call raises it again, whoever makes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import BlockstoreError, Unanswered, Unavailable

__all__ = ["Call", "FaultyBucket", "Killed", "crash_points"]

A = TypeVar("A")

WRITES = frozenset({"put", "put_if_absent", "put_if_match", "writer", "delete"})


class Killed(BaseException):
    """The process died here. Not an Exception: no handler may survive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: its number, its method and its key (or prefix)."""

    number: int
    method: str
    key: str

    @property
    def writes(self) -> bool:
        return self.method in WRITES


def crash_points(calls: Sequence[Call], *, lost: bool = True) -> Iterator[tuple[str, Call]]:
    """Every fault that a process may meet which leaves other objects than those before it, or tells
    the process something else: it dies before its first call, or after one that writes; the answer
    of any call is ``lost``.

    A process that dies before a later call, or after a read, leaves what the last write left. That
    is so if it keeps nothing but its bucket, and makes its calls one after the other.
    """
    for call in calls[:1]:
        yield "kill_before", call
    for call in calls:
        if call.writes:
            yield "kill_after", call
        if lost:
            yield "lose_answer", call


class FaultyBucket(Wrapper):
    """``bucket`` with faults, by the number of the call.

    ``kill_before=k``: the process dies instead of making call k. ``kill_after=k``: call k is
    applied, then the process dies. ``lose_answer={k}``: call k is applied and its answer lost
    (Unanswered for a write, Unavailable for a read). ``refuse={k: error}``: call k is not applied
    and raises ``error``. ``before`` and ``after`` are hooks, called with the Call outside any lock;
    they may use the bucket below (``inner``) or raise.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        kill_before: int | None = None,
        kill_after: int | None = None,
        lose_answer: Iterable[int] = (),
        refuse: Mapping[int, BlockstoreError] | None = None,
    ) -> None:
        super().__init__(bucket)
        self.calls: list[Call] = []
        self.before: list[Callable[[Call], None]] = []
        self.after: list[Callable[[Call], None]] = []
        self.killed_at: Call | None = None
        self._kill_before = kill_before
        self._kill_after = kill_after
        self._lose_answer = frozenset(lose_answer)
        self._refuse = dict(refuse or {})
        self._lock = threading.Lock()

    @property
    def writes(self) -> list[Call]:
        """The calls made so far that change the store."""
        return [call for call in self.calls if call.writes]

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self._call("get", key, lambda: self.inner.get(key, if_none_match=if_none_match))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._call("head", key, lambda: self.inner.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return iter(
            self._call(
                "list",
                prefix,
                lambda: [
                    *self.inner.list(
                        prefix, start_after=start_after, recursive=recursive, at_most=at_most
                    )
                ],
            )
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return iter(self._call("prefixes", prefix, lambda: [*self.inner.prefixes(prefix)]))

    def now_ms(self) -> int:
        return self._call("now_ms", "", self.inner.now_ms)

    def put(self, key: str, data: bytes) -> str:
        return self._call("put", key, lambda: self.inner.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self._call("put_if_absent", key, lambda: self.inner.put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self._call("put_if_match", key, lambda: self.inner.put_if_match(key, data, etag))

    def writer(self, key: str) -> ObjectWriter:
        if self.killed_at is not None:
            raise Killed(self.killed_at)
        return _FaultyWriter(self, key, self.inner.writer(key))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._call("delete", key, lambda key=key: self.inner.delete([key]))  # type: ignore[misc]

    def delete_once(self, key: str) -> None:
        self._call("delete", key, lambda: self.inner.delete_once(key))

    def _call(self, method: str, key: str, request: Callable[[], A]) -> A:
        with self._lock:
            if self.killed_at is not None:
                raise Killed(self.killed_at)
            call = Call(number=len(self.calls) + 1, method=method, key=key)
            self.calls.append(call)
            if call.number == self._kill_before:
                self.killed_at = call
                raise Killed(call)
        for hook in self.before:
            hook(call)
        if call.number in self._refuse:
            raise self._refuse[call.number]
        answer = request()
        if call.number == self._kill_after:
            self.killed_at = call
            raise Killed(call)
        for hook in self.after:
            hook(call)
        if call.number in self._lose_answer:
            lost = Unanswered if call.writes else Unavailable
            raise lost(f"The answer to {method} {key} (call {call.number}) was lost.")
        return answer


class _FaultyWriter:
    def __init__(self, faulty: FaultyBucket, key: str, inner: ObjectWriter) -> None:
        self._faulty = faulty
        self._key = key
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        return self._inner.write(data)

    def close(self) -> None:
        self._faulty._call("writer", self._key, self._inner.close)

    def abort(self) -> None:
        """A dead process aborts nothing, but the test that holds it must not leak its files."""
        self._inner.abort()

"""Actors that take turns at their requests: every order in which two processes can meet at one
bucket, tried one by one.

Each actor is ordinary code in a thread of its own; it runs until its next request and waits there
for its turn. A schedule is a list of (actor, number of requests); what is left afterwards runs
actor by actor, in the schedule's order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo
from blockstore.bucket.wrapper import Wrapper

__all__ = ["Schedule", "interleave", "requests_of", "schedules"]

A = TypeVar("A")

Schedule = Sequence[tuple[str, int]]
_PATIENCE_S = 60
_TO_THE_END = 10**9


class _Actor:
    def __init__(self, name: str, work: Callable[[Bucket], object], bucket: Bucket) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.answer: object = None
        self.requests: list[str] = []
        self.done = False
        self._left = 0
        # Locks: a semaphore of the library hands a turn over in several times as long.
        self._go = _taken()
        self._stopped = _taken()
        self._thread = threading.Thread(
            target=self._run, args=(work, _Turns(bucket, self)), daemon=True
        )
        self._thread.start()
        self._wait()

    def go_on(self, requests: int) -> None:
        """Let so many requests through, up to the next one or the end."""
        if requests and not self.done:
            self._left = requests
            self._go.release()
            self._wait()

    def turn(self, request: str) -> None:
        """In the actor's thread: wait for the turn to make a request."""
        if not self._left:
            self._stopped.release()
            assert self._go.acquire(timeout=_PATIENCE_S), f"{self.name} never got its turn"
        self._left -= 1
        self.requests.append(request)

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=_PATIENCE_S), f"{self.name} hangs"

    def _run(self, work: Callable[[Bucket], object], bucket: Bucket) -> None:
        try:
            self.answer = work(bucket)
        except BaseException as error:
            self.error = error
        finally:
            self.done = True
            self._stopped.release()


class _Turns(Wrapper):
    def __init__(self, inner: Bucket, actor: _Actor) -> None:
        super().__init__(inner)
        self._actor = actor

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._actor.turn(f"get {key}")
        return self.inner.get(key, if_none_match=if_none_match)

    def head(self, key: str) -> ObjectInfo:
        self._actor.turn(f"head {key}")
        return self.inner.head(key)

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        self._actor.turn(f"list {prefix}")
        return self.inner.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        )

    def put(self, key: str, data: bytes) -> str:
        self._actor.turn(f"put {key}")
        return self.inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        self._actor.turn(f"put_if_absent {key}")
        return self.inner.put_if_absent(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        self._actor.turn(f"put_if_match {key}")
        return self.inner.put_if_match(key, data, etag)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._actor.turn(f"delete {key}")
            self.inner.delete([key])

    def delete_once(self, key: str) -> None:
        self.delete([key])


def interleave(
    bucket: Bucket, actors: Mapping[str, Callable[[Bucket], A]], schedule: Schedule
) -> dict[str, A | BaseException]:
    """Run the actors to their ends under a schedule; what each answered, or raised."""
    running = {name: _Actor(name, work, bucket) for name, work in actors.items()}
    rest = [name for name, _ in schedule] + list(actors)
    for name, count in [*schedule, *((name, _TO_THE_END) for name in dict.fromkeys(rest))]:
        running[name].go_on(count)
    return {
        name: actor.answer if actor.error is None else actor.error  # type: ignore[misc]
        for name, actor in running.items()
    }


def requests_of(bucket: Bucket, work: Callable[[Bucket], object]) -> list[str]:
    """The requests of one actor that nobody disturbs."""
    actor = _Actor("alone", work, bucket)
    actor.go_on(_TO_THE_END)
    if actor.error is not None:
        raise actor.error
    return actor.requests


def schedules(
    first: tuple[str, int], second: tuple[str, int], switches: int, *, alike: bool = False
) -> Iterator[Schedule]:
    """Every schedule of two actors (name, requests) with exactly this many changes of turn before
    they run out.

    Of two that are ``alike`` it does not matter which begins.
    """
    for begins, follows in ((first, second), (second, first))[: 1 if alike else 2]:
        yield from _segments((begins, follows), (0, 0), switches)


def _segments(
    actors: tuple[tuple[str, int], tuple[str, int]], used: tuple[int, int], switches: int
) -> Iterator[Schedule]:
    if not switches:
        yield []
        return
    (name, total), other = actors
    for count in range(1, total - used[0] + 1):
        for rest in _segments((other, (name, total)), (used[1], used[0] + count), switches - 1):
            yield [(name, count), *rest]


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock

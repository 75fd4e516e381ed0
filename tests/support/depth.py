"""How many requests must follow one another: a store in simulated time that records when each
request began and when it ended.

What an operation waits for on an object store is its *depth*: the longest chain of requests of
which each began after the one before had ended. Here every request takes the same time, computing
takes none, and time moves only when every thread waits. So requests that are made side by side
overlap, requests in turn do not, and the same code gives the same depth on any machine.

    time = Time()
    world = time.world()
    bucket = DepthBucket(MemoryBucket(time), time)
    table = Table.open_bucket(bucket, world)
    with bucket.watch() as seen:
        table.append(ROWS)
    seen.expect(4, "chunk, meta.json, entry, boundary")

Threads that the test needs itself are run by ``time.together``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.wrapper import Wrapper
from blockstore.ids import Ids
from blockstore.world import World

__all__ = ["DepthBucket", "Request", "Seen", "Time"]

A = TypeVar("A")
B = TypeVar("B")

LATENCY_S = 0.025
_STUCK_S = 2.0
"""Real time after which a thread that neither waits nor ends is taken to wait for a lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the store, in simulated seconds."""

    what: str
    key: str
    began_s: float
    ended_s: float
    bytes: int = 0
    """The bytes of its body or of its response, where it has some."""

    def __str__(self) -> str:
        return f"{self.what} {self.key}"


@dataclass(slots=True)
class Seen:
    """The requests of one operation."""

    requests: list[Request] = field(default_factory=list)

    @property
    def chain(self) -> list[Request]:
        """The longest chain of requests of which each began after the one before had ended."""
        chain: list[Request] = []
        for one in sorted(self.requests, key=lambda one: (one.ended_s, one.began_s, str(one))):
            if not chain or one.began_s >= chain[-1].ended_s:
                chain.append(one)
        return chain

    @property
    def depth(self) -> int:
        """How many requests that chain has."""
        return len(self.chain)

    @property
    def bytes(self) -> int:
        """The bytes of all requests together."""
        return sum(one.bytes for one in self.requests)

    def waves(self) -> list[list[str]]:
        """What was requested, by the time at which it began."""
        by_time: dict[float, list[str]] = {}
        for one in self.requests:
            by_time.setdefault(one.began_s, []).append(str(one))
        return [sorted(by_time[began]) for began in sorted(by_time)]

    def expect(self, depth: int, chain: str, *, requests: int | None = None) -> None:
        """Fail, and print what was requested when, unless the depth is as given. ``chain`` says in
        words which requests follow one another."""
        told = "\n".join(
            f"  {number}. {', '.join(wave)}" for number, wave in enumerate(self.waves(), 1)
        )
        assert self.depth == depth, (
            f"{self.depth} requests in turn, expected {depth} ({chain}):\n{told}\n"
            f"the chain: {' -> '.join(map(str, self.chain))}"
        )
        if requests is not None:
            assert len(self.requests) == requests, (
                f"{len(self.requests)} requests, expected {requests}:\n{told}"
            )


@dataclass(slots=True)
class _Pause:
    """A thread that waits: until a time, or until an event is set."""

    until_s: float = 0.0
    event: threading.Event | None = None
    over: bool = False


class Time:
    """A clock that moves when every thread waits; also the pool of the threads that it counts."""

    def __init__(self, now_ms: int = 1_700_000_000_000, *, workers: int = 16) -> None:
        self._start_ms = now_ms
        self._now_s = 0.0
        self._changed = threading.Condition()
        self._running = 1
        """Threads that compute, the one that made this among them."""
        self._pauses: list[_Pause] = []
        self._local = threading.local()
        self._local.counted = True
        self._free = workers
        self._line: deque[partial[None]] = deque()

    def world(self, *, seed: int = 1) -> World:
        """A process in this time."""
        return World(clock=self, ids=Ids.seeded(self, seed), pool=self)

    def now_ms(self) -> int:
        return self._start_ms + round(self._now_s * 1000)

    def monotonic_s(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._pause(_Pause(until_s=round(self._now_s + seconds, 9)))

    def wait(self, event: threading.Event) -> None:
        """As a pool does: sleep until another thread has set the event."""
        if not event.is_set():
            self._pause(_Pause(event=event))

    def map(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """As ``Threads`` does, with so many workers for all callers together: the caller takes the
        first call, and those that no worker has begun. A call in the pool that maps again does so
        in turn."""
        work = list(items)
        if len(work) <= 1 or getattr(self._local, "inside", False):
            return [call(item) for item in work]
        return self._side_by_side([partial(call, item) for item in work], pooled=True)

    def runs_beside(self) -> bool:
        """As a pool does: False for a call in the pool."""
        return not getattr(self._local, "inside", False)

    def start(self, call: Callable[[], None]) -> None:
        """As a pool does."""
        self._start(call, pooled=True)

    def run(self, call: Callable[[], None]) -> bool:
        """As spare threads do: there is always one."""
        self._start(partial(call), pooled=False)
        return True

    def together(self, calls: Iterable[Callable[[], A]]) -> list[A]:
        """Run each call in a thread of its own, as threads of a caller; returns the results, or
        raises the first error, after all have ended."""
        return self._side_by_side(list(calls), pooled=False)

    def _side_by_side(self, calls: list[Callable[[], A]], *, pooled: bool) -> list[A]:
        results: list[Any] = [None] * len(calls)
        errors: list[BaseException | None] = [None] * len(calls)
        left = len(calls)
        ended = threading.Event()

        def run(place: int) -> None:
            nonlocal left
            try:
                results[place] = calls[place]()
            except BaseException as error:
                errors[place] = error
            with self._changed:
                left -= 1
                if not left:
                    ended.set()

        jobs = [partial(run, place) for place in range(len(calls))]
        for job in jobs[pooled:]:
            self._start(job, pooled=pooled)
        if pooled:
            jobs[0]()
            while (job := self._not_begun(jobs)) is not None:
                job()
        self.wait(ended)
        for error in errors:
            if error is not None:
                raise error
        return results

    def _start(self, job: partial[None], *, pooled: bool) -> None:
        with self._changed:
            if pooled and not self._free:
                self._line.append(job)
                return
            self._free -= pooled
            self._running += 1
        threading.Thread(target=self._work, args=(job, pooled), daemon=True).start()

    def _not_begun(self, jobs: list[partial[None]]) -> partial[None] | None:
        """Take back the last of these that waits for a worker."""
        with self._changed:
            for job in reversed(jobs):
                if job in self._line:
                    self._line.remove(job)
                    return job
        return None

    def _work(self, job: partial[None], pooled: bool) -> None:
        self._local.counted, self._local.inside = True, pooled
        following: partial[None] | None = job
        while following is not None:
            following()
            with self._changed:
                following = self._line.popleft() if pooled and self._line else None
                if following is None:
                    self._free += pooled
                    self._running -= 1
                    self._go_on()

    def _pause(self, pause: _Pause) -> None:
        with self._changed:
            self._running -= getattr(self._local, "counted", False)
            self._pauses.append(pause)
            self._go_on()
            while not pause.over:
                before = self._now_s
                if not self._changed.wait(_STUCK_S) and before == self._now_s:
                    self._go_on(stuck=True)
            # A thread that nothing here has started is counted only while it waits.
            self._running -= not getattr(self._local, "counted", False)

    def _go_on(self, *, stuck: bool = False) -> None:
        """With the lock held: wake those whose event is set; if all wait for the time, move it."""
        if self._running > 0 and not stuck:
            return
        ready = [one for one in self._pauses if one.event is not None and one.event.is_set()]
        if not ready:
            times = [one.until_s for one in self._pauses if one.event is None]
            if not times:
                return
            self._now_s = max(self._now_s, min(times))
            ready = [
                one for one in self._pauses if one.event is None and one.until_s <= self._now_s
            ]
        for one in ready:
            one.over = True
            self._pauses.remove(one)
            self._running += 1
        self._changed.notify_all()


class DepthBucket(Wrapper):
    """A bucket of which every request takes ``latency_s`` of simulated time; records each."""

    def __init__(self, inner: Bucket, time: Time, *, latency_s: float = LATENCY_S) -> None:
        super().__init__(inner)
        self._time = time
        self.latency_s = latency_s
        self._watching: list[Seen] = []
        self._lock = threading.Lock()

    @contextmanager
    def watch(self) -> Iterator[Seen]:
        """Record the requests that are made in this context."""
        seen = Seen()
        with self._lock:
            self._watching.append(seen)
        try:
            yield seen
        finally:
            with self._lock:
                self._watching = [one for one in self._watching if one is not seen]

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.send(
            "GET", key, lambda: self.inner.get(key, if_none_match=if_none_match), _bytes_of
        )

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.send("RANGE", key, lambda: self.inner.get_range(key, start, length), len)

    def head(self, key: str) -> ObjectInfo:
        return self.send("HEAD", key, lambda: self.inner.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        def page() -> list[ObjectInfo]:
            return list(
                self.inner.list(
                    prefix, start_after=start_after, recursive=recursive, at_most=at_most
                )
            )

        return iter(self.send("LIST", f"{prefix}*", page))

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return iter(self.send("LIST", f"{prefix}*/", lambda: list(self.inner.prefixes(prefix))))

    def put(self, key: str, data: bytes) -> str:
        return self.send("PUT", key, lambda: self.inner.put(key, data), lambda _: len(data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.send(
            "PUT", key, lambda: self.inner.put_if_absent(key, data), lambda _: len(data)
        )

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.send(
            "PUT", key, lambda: self.inner.put_if_match(key, data, etag), lambda _: len(data)
        )

    def writer(self, key: str) -> ObjectWriter:
        return _Writer(self, key)

    def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        if named:
            what = named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"
            self.send("DELETE", what, lambda: self.inner.delete(named))

    def delete_once(self, key: str) -> None:
        self.send("DELETE", key, lambda: self.inner.delete_once(key))

    def send(
        self,
        what: str,
        key: str,
        request: Callable[[], A],
        weigh: Callable[[A], int] = lambda _: 0,
    ) -> A:
        """The request takes effect in the middle of its time."""
        began = self._time.monotonic_s()
        weight = 0
        self._time.sleep(self.latency_s / 2)
        try:
            answer = request()
            weight = weigh(answer)
            return answer
        finally:
            self._time.sleep(self.latency_s / 2)
            one = Request(
                what=what,
                key=key,
                began_s=began,
                ended_s=self._time.monotonic_s(),
                bytes=weight,
            )
            with self._lock:
                for seen in self._watching:
                    seen.requests.append(one)


class _Writer:
    """A new object that is one PUT, when it is closed."""

    def __init__(self, bucket: DepthBucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._inner = bucket.inner.writer(key)
        self._bytes = 0

    def write(self, data: bytes | memoryview, /) -> int:
        written = self._inner.write(data)
        self._bytes += written
        return written

    def close(self) -> None:
        self._bucket.send("PUT", self._key, self._inner.close, lambda _: self._bytes)

    def abort(self) -> None:
        self._inner.abort()


def _bytes_of(found: Object) -> int:
    return len(found.data)

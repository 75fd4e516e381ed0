"""Threads that take turns at bucket calls, in an order that the test decides: every interleaving
can be asked for.

An actor is ordinary code with a bucket of its own over one store. It runs until it is about to make
a request, and waits there; whoever is chosen makes its request and runs on to the next. So between
two turns nobody is at work, and a test may look at the store, read it, or move the clock. The same
order gives the same run.

An actor must make its requests from one thread at a time: hand it a world whose pool runs calls in
turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import Empty, SimpleQueue

from blockstore.bucket.api import Bucket
from tests.support.faulty import Call, FaultyBucket

__all__ = ["Actor", "Turns"]

Actor = Callable[[FaultyBucket], object]

_PATIENCE_S = 60.0
"""An actor that computes this long without a request hangs."""


class Turns:
    """Actors over one store. ``calls`` are the requests made so far, as (actor, request)."""

    def __init__(self, store: Bucket, actors: Mapping[str, Actor]) -> None:
        self.calls: list[tuple[str, Call]] = []
        # Queues: semaphores and events of the library hand a turn over in several times as long.
        self._go: dict[str, SimpleQueue[None]] = {name: SimpleQueue() for name in actors}
        self._parked: dict[str, SimpleQueue[None]] = {name: SimpleQueue() for name in actors}
        self._pending: dict[str, Call | None] = {}
        self._errors: dict[str, BaseException] = {}
        self._given_up = False
        self._threads = {
            name: threading.Thread(
                target=self._run, args=(name, actor, FaultyBucket(store)), daemon=True
            )
            for name, actor in actors.items()
        }

    def play(
        self, order: Iterable[str], between: Callable[[str, Call], None] = lambda name, call: None
    ) -> dict[str, BaseException]:
        """Let actors make one request a turn, as ``order`` names them; who has ended is passed
        over, and those who are left at the end go on one after the other. ``between`` is called
        after each turn. Answers how actors failed."""
        for thread in self._threads.values():
            thread.start()
        try:
            for name in self._all(order):
                call = self._pending[name]
                if call is not None:
                    self.calls.append((name, call))
                    self._go[name].put(None)
                    self._await(name)
                    between(name, call)
        finally:
            self._give_up()
        return self._errors

    def pending(self, name: str) -> Call | None:
        """The request that an actor waits to make;

        None if it has ended. For an ``order`` that looks while it plays.
        """
        return self._pending[name]

    def _all(self, order: Iterable[str]) -> Iterator[str]:
        for name in self._threads:
            self._await(name)
        yield from order
        for name in self._threads:
            while self._pending[name] is not None:
                yield name

    def _await(self, name: str) -> None:
        try:
            self._parked[name].get(timeout=_PATIENCE_S)
        except Empty:
            raise AssertionError(f"{name} makes no request and does not end") from None

    def _give_up(self) -> None:
        """End the threads of a test that failed midway."""
        self._given_up = True
        for name, thread in self._threads.items():
            while thread.is_alive():
                self._go[name].put(None)
                thread.join(0.01)

    def _run(self, name: str, actor: Actor, bucket: FaultyBucket) -> None:
        def turn(call: Call) -> None:
            self._pending[name] = call
            self._parked[name].put(None)
            self._go[name].get()
            if self._given_up:
                raise SystemExit

        bucket.before.append(turn)
        try:
            actor(bucket)
        except SystemExit:
            pass
        except BaseException as error:
            self._errors[name] = error
        finally:
            self._pending[name] = None
            self._parked[name].put(None)

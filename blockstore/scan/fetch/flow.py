"""Many courses at once: chunks are opened ahead, their units run ahead, results come in order.

The problem: on an object store each request takes 10 to 50 ms. A scan that finishes one chunk
before it begins the next one waits for that again and again.

The mental model: each chunk has an *opening* (its footer), which says of which *units* it consists.
A unit fetches the bytes of some row groups and turns them into rows. Openings run ahead of units,
units run ahead of the consumer, and the consumer gets the units' results in order.

Rules:
- Memory is bounded: the weights of all units that have begun and whose results were not yet taken
  stay within ``budget``, except that one unit always runs.
- A result, or an error, is given in its turn: an error after the rows that come before it.
- No thread waits for another one, except the consumer: so the threads of the pool cannot all wait.
- Calls that need a core (``Computing``) are made by a few threads only: more would take turns on
  the cores, each with memory of its own.
- In a thread that must not hand out work (``Pool.runs_beside``), everything runs in turn.
- When the consumer stops early, what has begun ends, and nothing new begins.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from blockstore.scan.fetch.course import Computing, Course, in_turn
from blockstore.world import Pool

A = TypeVar("A")
B = TypeVar("B")

BUDGET_BYTES = 128 << 20
AHEAD = 8
"""How many chunks are opened before their units can begin: their requests fill the lanes once, so
that the first units need not wait behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit(Generic[B]):
    """A part of a chunk that is fetched and decoded as one."""

    weight: int
    """About how many bytes of memory it takes, until its result was used."""
    course: Callable[[], Course[B]]


Opening = Callable[[], Course[Sequence[Unit[B]]]]


def flow(
    pool: Pool,
    openings: Iterable[Opening[B]],
    *,
    budget: int = BUDGET_BYTES,
    ahead: int = AHEAD,
    cores: int = 2,
) -> Iterator[B]:
    """Yield the results of all units, in order.

    Args:
        pool: Its threads make the calls, and decode.
        openings: One for each chunk, in order.
        budget: The weight of the units that may be under way, in bytes.
        ahead: The number of chunks that may be opened before their units can begin.
        cores: How many calls that need a core run at the same time.

    Raises:
        What a call or a course raises, in its turn.
    """
    if not pool.runs_beside():
        for opening in openings:
            for unit in in_turn(pool, opening()):
                yield in_turn(pool, unit.course())
        return
    under_way = _Flow(pool, iter(openings), budget, ahead, cores)
    try:
        yield from under_way.results()
    finally:
        under_way.stop()


class _Round:
    """The calls of one round of a course."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self._calls = calls
        self._results: list[Any] = [None] * len(calls)
        self._errors: list[BaseException] = []
        self._left = len(calls)
        self._lock = threading.Lock()

    def make(self, place: int) -> bool:
        """Make one of the calls; return whether it was the last to end."""
        error: BaseException | None = None
        try:
            self._results[place] = self._calls[place]()
        except BaseException as raised:  # noqa: BLE001 - raised in the course
            error = raised
        with self._lock:
            if error is not None:
                self._errors.append(error)
            self._left -= 1
            return self._left == 0

    def next_step(self, course: Course[Any]) -> Callable[[], Any]:
        """Return the step by which the course goes on, once all calls have ended."""
        if self._errors:
            return partial(course.throw, self._errors[0])
        return partial(course.send, self._results)


class _Run(Generic[A]):
    """One course that is under way."""

    def __init__(self, flow: _Flow[Any], course: Course[A], weight: int = 0) -> None:
        self.weight = weight
        self.ended = False
        self._value: A | None = None
        self._error: BaseException | None = None
        self._flow = flow
        self._course = course

    def begin(self) -> None:
        """Begin in a thread of the pool."""
        self._flow.start(partial(self._go_on, partial(next, self._course)))

    def result(self) -> A:
        """Return the result, or raise the error, of a course that has ended."""
        if self._error is not None:
            raise self._error
        return cast(A, self._value)

    def _go_on(self, step: Callable[[], Any]) -> None:
        """Run the course as far as this thread can: it goes on in the thread whose call ends
        last."""
        while not self._flow.stopped:
            try:
                calls = step()
            except StopIteration as ended:
                self._value = ended.value
                break
            except BaseException as error:  # noqa: BLE001 - raised to the consumer, in its turn
                self._error = error
                break
            if isinstance(calls, Computing):
                self._flow.compute(partial(self._computed, calls))
                return
            made = _Round(calls)
            for place in range(1, len(calls)):
                self._flow.start(partial(self._beside, made, place))
            if calls and not made.make(0):
                return
            step = made.next_step(self._course)
        self._flow.ended(self)

    def _computed(self, calls: Computing) -> None:
        made = _Round([calls.call])
        made.make(0)
        self._flow.has_computed()
        self._go_on(made.next_step(self._course))

    def _beside(self, made: _Round, place: int) -> None:
        if not self._flow.stopped and made.make(place):
            self._go_on(made.next_step(self._course))


class _Flow(Generic[B]):
    """What is under way. Any thread that ends a course begins what may run next."""

    def __init__(
        self, pool: Pool, openings: Iterator[Opening[B]], budget: int, ahead: int, cores: int
    ) -> None:
        self.stopped = False
        self._pool = pool
        self._refused: RuntimeError | None = None
        self._openings = openings
        self._budget = budget
        self._ahead = ahead
        self._opened: deque[_Run[Sequence[Unit[B]]]] = deque()
        self._waiting: deque[_Run[B]] = deque()
        self._units: deque[_Run[B]] = deque()
        self._all_opened = False
        self._used = 0
        self._free_cores = cores
        self._computing: deque[Callable[[], None]] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Event()

    def results(self) -> Iterator[B]:
        """Yield the results in order."""
        with self._lock:
            self._advance()
        while (unit := self._next()) is not None:
            yield unit.result()
            with self._lock:
                self._used -= unit.weight
                self._advance()

    def stop(self) -> None:
        """Begin nothing more."""
        self.stopped = True

    def start(self, call: Callable[[], None]) -> None:
        """Make the call in a thread of the pool. If it takes none any more, since the interpreter
        ends, the consumer gets the error: it would wait for ever."""
        try:
            self._pool.start(call)
        except RuntimeError as error:
            self._refused = error
            self.stop()
            self._changed.set()

    def compute(self, call: Callable[[], None]) -> None:
        """Make the call in a thread of the pool, once a core is free."""
        with self._lock:
            self._computing.append(call)
            self._take_cores()

    def has_computed(self) -> None:
        """Note that such a call has ended."""
        with self._lock:
            self._free_cores += 1
            self._take_cores()

    def _take_cores(self) -> None:
        while self._computing and self._free_cores > 0:
            self._free_cores -= 1
            self.start(self._computing.popleft())

    def ended(self, run: _Run[Any]) -> None:
        """Note that a course has ended."""
        with self._lock:
            run.ended = True
            self._advance()
            self._changed.set()

    def _next(self) -> _Run[B] | None:
        """Wait for the next unit, and take it; None when there is none any more."""
        while True:
            with self._lock:
                self._changed.clear()
                if self._refused is not None:
                    raise self._refused
                if self._units and self._units[0].ended:
                    return self._units.popleft()
                if self._all_opened and not (self._units or self._waiting or self._opened):
                    return None
            self._pool.wait(self._changed)

    def _advance(self) -> None:
        """With the lock: begin all that may run now."""
        while not self.stopped:
            if self._opened and self._opened[0].ended:
                self._expand(self._opened.popleft())
            elif self._waiting and self._fits(self._waiting[0]):
                unit = self._waiting.popleft()
                self._used += unit.weight
                self._units.append(unit)
                unit.begin()
            elif not self._all_opened and len(self._opened) + len(self._waiting) < self._ahead:
                self._open_next()
            else:
                return

    def _fits(self, unit: _Run[B]) -> bool:
        return not self._units or self._used + unit.weight <= self._budget

    def _open_next(self) -> None:
        opening = next(self._openings, None)
        if opening is None:
            self._all_opened = True
            return
        run = _Run(self, opening())
        self._opened.append(run)
        run.begin()

    def _expand(self, opened: _Run[Sequence[Unit[B]]]) -> None:
        """Line up the units of an opened chunk."""
        try:
            units = opened.result()
        except BaseException as error:  # noqa: BLE001 - raised to the consumer, in its turn
            units = [Unit(weight=0, course=partial(_raising, error))]
        self._waiting.extend(_Run(self, unit.course(), unit.weight) for unit in units)


def _raising(error: BaseException) -> Course[Any]:
    yield ()
    raise error

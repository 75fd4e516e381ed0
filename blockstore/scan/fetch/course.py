"""Courses: work that needs several rounds of requests, written as one function.

A course is a generator. It yields a list of calls that may run side by side, and receives their
results in the same order; in the end it returns its own result. Each list is one round: a course
says how many requests follow one another, and not which threads carry them out. ``in_turn`` runs
one course, ``side_by_side`` some, ``flow.py`` many, in order and in bounded memory::

    def course():
        tail, digests = yield [get_tail, get_digests]      # one round
        pieces = yield [get(piece) for piece in pieces_of(tail)]
        (rows,) = yield Computing(lambda: decode(tail, pieces))
        return rows

If a call fails, the first error is raised at the ``yield``, once no call of the round runs any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from blockstore.world import Pool

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Computing:
    """A call that needs a core, yielded in place of calls: only a few run at the same time."""

    call: Callable[[], Any]


Calls = Sequence[Callable[[], Any]] | Computing
Course = Generator[Calls, Sequence[Any], A]


def in_turn(pool: Pool, course: Course[A]) -> A:
    """Run one course to its end in this thread, each of its rounds in the pool."""
    try:
        calls = next(course)
        while True:
            try:
                if isinstance(calls, Computing):
                    results = [calls.call()]
                else:
                    results = pool.map(_call, calls)
            except Exception as error:  # noqa: BLE001 - raised in the course
                calls = course.throw(error)
            else:
                calls = course.send(results)
    except StopIteration as ended:
        result: A = ended.value
        return result


def _call(call: Callable[[], Any]) -> Any:
    return call()


def side_by_side(pool: Pool, courses: Iterable[Course[A]]) -> list[A]:
    """Run some courses to their ends: each round consists of the calls of all of them.

    After an error no further round begins, and all calls have ended when it is raised.
    """
    running = list(courses)
    results: dict[int, A] = {}
    steps: dict[int, Callable[[], Calls]] = {
        place: partial(next, course) for place, course in enumerate(running)
    }
    try:
        while steps:
            rounds: dict[int, Sequence[Callable[[], Any]]] = {}
            for place, step in steps.items():
                try:
                    made_of = step()
                    rounds[place] = [made_of.call] if isinstance(made_of, Computing) else made_of
                except StopIteration as ended:
                    results[place] = ended.value
            calls = [(place, call) for place, some in rounds.items() for call in some]
            made = iter(pool.map(_tried, [call for _, call in calls]))
            steps = {
                place: _next_step(running[place], [next(made) for _ in some])
                for place, some in rounds.items()
            }
    finally:
        for course in running:
            course.close()
    return [results[place] for place in range(len(running))]


def _tried(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001 - raised in the course
        return None, error


def _next_step(
    course: Course[Any], made: Sequence[tuple[Any, Exception | None]]
) -> Callable[[], Calls]:
    """Return the step by which the course goes on after a round."""
    error = next((error for _, error in made if error is not None), None)
    if error is not None:
        return partial(course.throw, error)
    return partial(course.send, [result for result, _ in made])

"""Courses: work that needs several rounds of requests, written as one function.

A course is a generator. It yields a list of calls that may run side by side, and receives their
results in the same order; in the end it returns its own result. Each list is one round: a course
says how many requests follow one another, and not which threads carry them out. ``in_turn`` runs
one course, ``flow.py`` many, in order and side by side::

    def course():
        tail, digests = yield [get_tail, get_digests]      # one round
        pieces = yield [get(piece) for piece in pieces_of(tail)]
        (rows,) = yield Computing(lambda: decode(tail, pieces))
        return rows

If a call fails, the first error is raised at the ``yield``, once no call of the round runs any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
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

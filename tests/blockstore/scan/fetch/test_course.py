"""Courses side by side: common rounds, results in order, and an error that ends all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from blockstore.errors import Unavailable
from blockstore.scan.fetch.course import Computing, Course, side_by_side
from blockstore.world import Serial


class Rounds(Serial):
    """A pool that notes how many calls each round has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def map(self, call: Callable, items: Iterable) -> list:  # type: ignore[type-arg]
        work = list(items)
        self.sizes.append(len(work))
        return super().map(call, work)


def course(name: str, rounds: int, ended: list[str]) -> Course[str]:
    try:
        for number in range(rounds):
            made = yield [partial(str, number), partial(str, name)]
            assert made == [str(number), name]
        (computed,) = yield Computing(lambda: name.upper())
        return str(computed)
    finally:
        ended.append(name)


def test_courses_share_their_rounds_and_return_in_order() -> None:
    pool, ended = Rounds(), []  # type: ignore[var-annotated]
    found = side_by_side(
        pool, [course("a", 2, ended), course("b", 0, ended), course("c", 1, ended)]
    )
    assert found == ["A", "B", "C"]
    assert pool.sizes[:3] == [5, 3, 1]
    assert ended == ["b", "c", "a"]


def test_an_error_is_raised_after_its_round_and_ends_the_others() -> None:
    made: list[str] = []
    ended: list[str] = []

    def failing() -> Course[str]:
        def fail() -> None:
            raise Unavailable("the store is down")

        yield [fail, partial(made.append, "beside")]
        return "never"

    with pytest.raises(Unavailable):
        side_by_side(Rounds(), [course("a", 5, ended), failing(), course("c", 5, ended)])
    assert made == ["beside"]
    assert sorted(ended) == ["a", "c"]


def test_a_course_can_go_on_after_an_error() -> None:
    def trying() -> Course[str]:
        try:
            yield [partial(int, "x")]
        except ValueError:
            (found,) = yield [partial(str, 7)]
            return str(found)
        return "never"

    assert side_by_side(Rounds(), [trying()]) == ["7"]

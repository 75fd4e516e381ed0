"""Courses run side by side, in bounded memory, and end in order: also where one of them fails, and
where the consumer stops early."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from blockstore.scan.fetch.course import Computing, Course, in_turn
from blockstore.scan.fetch.flow import Opening, Unit, flow
from blockstore.world import Pool, Serial, Threads
from tests.support.depth import Time

LATENCY_S = 0.025


def slow(time: Time, value: Any) -> Any:
    time.sleep(LATENCY_S)
    return value


def opening(
    request: Callable[[Any], Any], name: int, units: int = 2, weight: int = 1
) -> Opening[tuple[int, int]]:
    """A chunk that is opened by two requests; each of its units fetches three pieces."""

    def unit(number: int) -> Course[tuple[int, int]]:
        pieces = yield [partial(request, piece) for piece in range(3)]
        assert list(pieces) == [0, 1, 2]
        return name, number

    def opened() -> Course[Sequence[Unit[tuple[int, int]]]]:
        found = yield [partial(request, "tail"), partial(request, "hashes")]
        assert list(found) == ["tail", "hashes"]
        return [Unit(weight=weight, course=partial(unit, number)) for number in range(units)]

    return opened


EXPECTED = [(name, number) for name in range(30) for number in range(2)]


@pytest.mark.parametrize("pool", [Serial(), Threads(1), Threads(7), Time(workers=3)])
def test_results_come_in_order(pool: Pool) -> None:
    found = flow(pool, [opening(lambda value: value, name) for name in range(30)])
    assert list(found) == EXPECTED


def test_the_depth_is_that_of_one_chunk_where_the_lanes_suffice() -> None:
    time = Time(workers=64)
    chunks = [opening(partial(slow, time), name) for name in range(8)]
    assert list(flow(time, chunks)) == EXPECTED[:16]
    assert time.monotonic_s() == pytest.approx(2 * LATENCY_S)


def test_with_sixteen_lanes_no_lane_waits() -> None:
    time = Time(workers=16)
    chunks = [opening(partial(slow, time), name) for name in range(30)]
    assert list(flow(time, chunks)) == EXPECTED
    requests = 30 * (2 + 2 * 3)
    assert time.monotonic_s() <= (requests / 16 + 4) * LATENCY_S


def test_in_a_thread_of_the_pool_everything_runs_in_turn() -> None:
    pool = Threads(2)

    def inside(_: int) -> list[tuple[int, int]]:
        return list(flow(pool, [opening(lambda value: value, name) for name in range(30)]))

    assert pool.map(inside, range(4)) == [EXPECTED] * 4


def test_the_units_under_way_stay_within_the_budget() -> None:
    lock = threading.Lock()
    under_way = most = 0

    def unit(weight: int) -> Course[int]:
        nonlocal under_way, most
        with lock:
            under_way += weight
            most = max(most, under_way)
        yield [lambda: None]
        return weight

    def opened(weight: int) -> Course[Sequence[Unit[int]]]:
        yield ()
        return [Unit(weight=weight, course=partial(unit, weight))]

    for weight in flow(
        Threads(8), [partial(opened, 1 + name % 5) for name in range(200)], budget=12
    ):
        with lock:
            under_way -= weight
    assert most <= 12
    # One that is heavier than the budget runs alone.
    most = 0
    for weight in flow(Threads(8), [partial(opened, 20) for _ in range(5)], budget=12):
        with lock:
            under_way -= weight
    assert most == 20


@pytest.mark.parametrize("pool", [Serial(), Threads(4)])
@pytest.mark.parametrize("where", ["tail", 1])
def test_an_error_comes_after_the_rows_before_it(pool: Pool, where: object) -> None:
    def broken(value: Any) -> Any:
        if value == where:
            raise ValueError(f"no {value}")
        return value

    chunks = [opening(broken if name == 3 else lambda value: value, name) for name in range(30)]
    found = flow(pool, chunks)
    assert [next(found) for _ in range(6)] == EXPECTED[:6]
    with pytest.raises(ValueError, match=f"no {where}"):
        next(found)


def test_a_course_may_go_on_after_an_error_and_no_call_of_its_round_still_runs() -> None:
    begun, ended = [], []

    def other() -> None:
        begun.append(1)
        ended.append(1)

    def fail() -> None:
        raise ValueError("first")

    def course() -> Course[str]:
        try:
            yield [fail, other, other]
        except ValueError:
            assert len(begun) == len(ended)
            (again,) = yield [lambda: "again"]
            return again
        return "never"

    assert in_turn(Serial(), course()) == "again"

    def opened() -> Course[Sequence[Unit[str]]]:
        yield ()
        return [Unit(weight=1, course=course)]

    assert list(flow(Threads(4), [opened])) == ["again"]


def test_a_consumer_that_stops_ends_the_rest() -> None:
    made = []

    def request(value: Any) -> Any:
        made.append(value)
        return value

    pool = Threads(4)
    found = flow(pool, [opening(request, name) for name in range(1_000)], budget=4)
    assert next(found) == (0, 0)
    found.close()  # type: ignore[attr-defined]
    # What had begun has ended once all four threads are here at the same time.
    here = threading.Barrier(5)
    for _ in range(4):
        pool.start(partial(_meet, here))
    here.wait(10)
    before = len(made)
    pool.map(abs, range(50))
    assert len(made) == before < 1_000


def _meet(here: threading.Barrier) -> None:
    here.wait(10)


def test_two_flows_share_a_pool_of_one_thread() -> None:
    pool = Threads(1)
    chunks = [opening(lambda value: value, name) for name in range(30)]
    pairs = zip(flow(pool, chunks), flow(pool, chunks), strict=True)
    assert list(pairs) == [(one, one) for one in EXPECTED]


@pytest.mark.parametrize("pool", [Serial(), Threads(8)])
def test_no_more_calls_compute_than_there_are_cores(pool: Pool) -> None:
    lock = threading.Lock()
    computing = most = 0

    def compute(value: int) -> int:
        nonlocal computing, most
        with lock:
            computing += 1
            most = max(most, computing)
        if value == 70:
            raise ValueError("no 70")
        with lock:
            computing -= 1
        return -value

    def unit(value: int) -> Course[int]:
        try:
            (found,) = yield Computing(partial(compute, value))
        except ValueError:
            nonlocal computing
            computing -= 1
            return 0
        return found

    def opened(value: int) -> Course[Sequence[Unit[int]]]:
        yield ()
        return [Unit(weight=1, course=partial(unit, value))]

    found = list(flow(pool, [partial(opened, value) for value in range(100)], cores=2))
    assert found == [0 if value == 70 else -value for value in range(100)]
    assert most <= 3


class Ending(Threads):
    """A pool that takes no more calls after some, as all pools when the interpreter ends."""

    def __init__(self, takes: int) -> None:
        super().__init__(4)
        self._left = takes

    def start(self, call: Callable[[], None]) -> None:
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        super().start(call)

    def wait(self, event: threading.Event) -> None:
        assert event.wait(10), "the consumer waits for ever"


@pytest.mark.parametrize("takes", range(0, 60, 3))
def test_a_pool_that_takes_no_more_calls_ends_the_flow(takes: int) -> None:
    chunks = [opening(lambda value: value, name) for name in range(30)]
    with pytest.raises(RuntimeError, match="shutdown"):
        list(flow(Ending(takes), chunks, budget=3))

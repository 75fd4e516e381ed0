"""Two compactors on a table without an index, interleaved at every request: each row exactly once,
always.

Each of them merges, then cleans: it marks what others account for, and removes what was marked long
enough ago. They run to the i-th request of one and the j-th of the other, for every i, and a j
after which the store has changed, while time passes; and in orders drawn at random, with the clock
at random, too. After every request that changed the store a reader reads all rows, and nothing that
it reads may be missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from blockstore.compactor.clean.cleaner import Cleaner
from tests.compactor.plain import DELETE_S, SYNC_S, Plain, merged_twice, overlapping, plain
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally
from tests.support.turns import Turns

Moments = tuple[float, ...]

MOMENTS: tuple[Moments, ...] = ((0, 0), (SYNC_S, SYNC_S), (DELETE_S / 2, DELETE_S), (DELETE_S, 0))
"""How far the clock moves when the first, and when the second compactor is stopped."""


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def fresh(work_dir: Path) -> Plain:
    """Three blocks to be merged, and a fourth that is not ready yet."""
    made = plain(work_dir, "a", "b", "c")
    made.append("d")
    return made


def in_part(work_dir: Path) -> Plain:
    """Two merges that overlap, of which one is read for a part alone, and a block more."""
    made = overlapping(work_dir)
    made.append("d")
    made.age()
    return made


def marked(work_dir: Path) -> Plain:
    """Two merges that overlap, their inputs marked, and a block more; the marks become due with the
    next hour."""
    made = merged_twice(work_dir)
    clean(made, made.bucket, seed=8)
    made.append("d")
    made.age(DELETE_S - 3600)
    return made


def removable(work_dir: Path) -> Plain:
    """The same, and the marks are due."""
    made = marked(work_dir)
    made.age(3600)
    return made


ORIGINS = (fresh, in_part, marked, removable)


def clean(made: Plain, bucket: object, *, seed: int) -> None:
    Cleaner(made.open(bucket, seed=seed), None, objects_per_s=1e9).run()  # type: ignore[arg-type]


def compact_and_clean(made: Plain, seed: int, bucket: FaultyBucket) -> None:
    made.compact(bucket, seed=seed)
    clean(made, bucket, seed=seed + 100)


class Watched:
    """One run: two compactors over a copy of a table, and a reader that looks after every
    change."""

    def __init__(self, origin: Plain) -> None:
        self.made = origin.copy()
        self.reader = self.made.open(seed=3)
        self.least = origin.found()
        self.reads = 0
        self.turns = Turns(
            self.made.bucket,
            {
                name: partial(compact_and_clean, self.made, seed)
                for name, seed in (("one", 1), ("two", 2))
            },
        )

    def play(self, order: Iterator[str]) -> None:
        errors = self.turns.play(order, self.look)
        assert errors == {}
        self.made.age(DELETE_S)
        for seed in (50, 51):
            compact_and_clean(self.made, seed, FaultyBucket(self.made.bucket))
            self.check()
            self.made.age(DELETE_S)
        self.check()

    def look(self, name: str, call: Call) -> None:
        if call.writes:
            self.check()

    def check(self) -> None:
        """Every row that was ever readable is there, once; a row more is one that has aged
        since."""
        self.reads += 1
        found = self.made.found(self.reader)
        assert found <= self.made.expected, [str(call) for call in self.turns.calls]
        assert found >= self.least, [str(call) for call in self.turns.calls]
        self.least = found


def stopped_at(watched: Watched, first: int, second: int, moments: Moments) -> Iterator[str]:
    """One makes so many requests, then two makes so many, then one goes on to its end, then two
    does."""
    yield from ["one"] * first
    watched.made.age(moments[0])
    yield from ["two"] * second
    watched.made.age(moments[1])


def requests_alone(origin: Plain) -> tuple[int, list[int]]:
    """How many requests a compactor makes alone, and after which of them the store has changed."""
    made = origin.copy()
    counting = FaultyBucket(made.bucket)
    compact_and_clean(made, 2, counting)
    return len(counting.calls), [call.number for call in counting.writes]


@pytest.mark.parametrize("origin", ORIGINS, ids=[origin.__name__ for origin in ORIGINS])
def test_each_row_exactly_once_wherever_one_stops_and_the_other_continues(
    origin: Callable[[Path], Plain], tmp_path: Path
) -> None:
    start = origin(tmp_path)
    requests, changes = requests_alone(start)
    assert changes
    rng = random.Random(1)
    for first in range(requests + 1):
        watched = Watched(start)
        watched.play(stopped_at(watched, first, rng.choice(changes), rng.choice(MOMENTS)))
        tally("schedules of two compactors")
        tally("reads between their requests", watched.reads)


@pytest.mark.parametrize("origin", ORIGINS, ids=[origin.__name__ for origin in ORIGINS])
def test_each_row_exactly_once_in_orders_drawn_at_random(
    origin: Callable[[Path], Plain], tmp_path: Path
) -> None:
    start = origin(tmp_path)
    for seed in range(12):
        watched = Watched(start)

        def order(rng: random.Random, watched: Watched = watched) -> Iterator[str]:
            for _ in range(200):
                if rng.random() < 0.05:
                    watched.made.age(rng.choice([SYNC_S, DELETE_S / 2 + 1, DELETE_S]))
                yield rng.choice(["one", "two"])

        watched.play(order(random.Random(seed)))
        tally("schedules of two compactors")
        tally("reads between their requests", watched.reads)


def test_the_same_order_again_gives_the_same_run(tmp_path: Path) -> None:
    start = merged_twice(tmp_path)
    runs = []
    for _ in range(2):
        watched = Watched(start)
        watched.play(iter(["one", "two", "two", "one", "one", "two"] * 10))
        runs.append([(name, str(call)) for name, call in watched.turns.calls])
    assert runs[0] == runs[1]

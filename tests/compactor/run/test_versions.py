"""Random sequences of changes, and of merges of any plannable kind in any order between them, equal
an oracle of every version of every row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.compactor.run.once import plan_table
from blockstore.compactor.run.report import Outcome
from blockstore.format.block import BlockKind
from tests.compactor.run.changing import DAY_S, Changing, job_of
from tests.compactor.scene import small_chunks
from tests.support.examples import few

IDS = st.integers(0, 9)
VALUES = st.dictionaries(IDS, st.integers(-3, 3), min_size=1, max_size=4)
FRESH = st.lists(st.integers(-3, 3), min_size=1, max_size=4)
KINDS = st.sampled_from(BlockKind)
SOME = st.integers(1, 15)
"""Which of the first blocks of a kind a job takes, bit by bit."""

CHANGES = (
    st.tuples(st.just("insert"), FRESH),
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.just("update"), st.integers(-3, 3)),
    st.tuples(st.just("delete"), st.sets(IDS, min_size=1, max_size=3)),
)
BY_KEY = st.one_of(*CHANGES, st.tuples(st.just("put"), VALUES), st.tuples(st.just("merge"), VALUES))
BY_ID = st.one_of(*CHANGES, st.tuples(st.just("put new"), st.tuples(VALUES, FRESH)))
MERGES = st.one_of(
    st.tuples(st.just("job"), st.tuples(KINDS, SOME)),
    st.tuples(st.just("look"), st.tuples(KINDS, SOME)),
    st.tuples(st.just("run what was looked at"), st.none()),
    st.tuples(st.just("compact"), st.booleans()),
)


def steps(changes: Any) -> Any:
    return st.lists(st.one_of(changes, changes, MERGES, MERGES), max_size=14)


def walk(made: Changing, todo: list[tuple[str, Any]]) -> None:
    """Do the steps, and check after each merge and at the end."""
    waiting: list[Any] = []
    for what, given_ in todo:
        match what:
            case "insert":
                made.insert(given_)
            case "set":
                made.set(given_)
            case "update":
                made.update(given_)
            case "delete":
                made.delete(given_)
            case "put":
                made.put(given_.items())
            case "put new":
                made.put_new(*given_)
            case "merge":
                made.merge(given_)
            case "compact":
                made.world.clock.sleep(DAY_S if given_ else 1.0)
                made.compact()
            case "run what was looked at":
                for job, seen in waiting:
                    result = made.run(job, seen)
                    assert result.outcome in (Outcome.COMMITTED, Outcome.CONFLICT), result.problem
                    made.check()
                waiting = []
            case _:
                kind, some = given_
                seen = made.look()
                job = job_of(seen, kind, lambda own, some=some: chosen(own, some))
                if job is None:
                    continue
                if what == "look":
                    waiting.append((job, seen))
                else:
                    assert made.run(job, seen).outcome is Outcome.COMMITTED
                    made.check()
    made.check()
    for _ in range(3):
        made.world.clock.sleep(DAY_S)
        made.compact()
        made.check()
        assert plan_table(made.open(), made.settings) == (), "a plan comes to rest"


@pytest.fixture(autouse=True)
def blocks_of_many_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def chosen(own: list[Any], some: int) -> list[Any]:
    return [block for place, block in enumerate(own) if place < 4 and some >> place & 1]


@pytest.mark.parametrize("row_history", ["forever", "none"])
@settings(max_examples=few(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(todo=steps(BY_KEY))
def test_a_table_with_a_key(row_history: str, todo: list[tuple[str, Any]]) -> None:
    walk(Changing(Path(mkdtemp()), False, row_history), todo)


@pytest.mark.parametrize("row_history", ["forever", "none"])
@settings(max_examples=few(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(todo=steps(BY_ID))
def test_a_table_with_row_ids(row_history: str, todo: list[tuple[str, Any]]) -> None:
    walk(Changing(Path(mkdtemp()), True, row_history), todo)

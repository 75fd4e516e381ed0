"""Queries over a big table whose rows arrived in order: a point range, a group-by, a count.

DuckDB reads the very files that ours wrote. Every query has other literals, and no result is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Sizes, Task
from bench.peers.api import Handle
from bench.timing import milliseconds

__all__ = ["COUNT", "GROUP_BY", "POINT"]

RANGE_ROWS = 1_000
SIZES = {
    Scale.FULL: {"blocks": 10, "rows": 1_000_000},
    Scale.QUICK: {"blocks": 4, "rows": 250_000},
    Scale.TINY: {"blocks": 2, "rows": 2_000},
}
PREPARE_NAME = "events"


def prepare(task: Task) -> None:
    """``blocks`` writes of ``rows`` rows."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.ordered(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()


def point(handle: Handle, draw: random.Random, sizes: Sizes) -> None:
    """1,000 neighboring rows, all columns, into Arrow."""
    low = draw.randrange(_total(sizes) - RANGE_ROWS)
    _expect("rows in the range", handle.point_range(low, low + RANGE_ROWS - 1), RANGE_ROWS)


def group_by(handle: Handle, draw: random.Random, sizes: Sizes) -> None:
    """Count and sum by origin over all rows."""
    groups = handle.group_by(draw.randrange(1_000_000))
    _expect("rows in the groups", sum(groups.values()), _total(sizes))
    _expect("groups", len(groups), len(inputs.ORIGINS))


def count(handle: Handle, draw: random.Random, sizes: Sizes) -> None:
    """The number of rows."""
    _expect("rows", handle.count(), _total(sizes))


def _total(sizes: Sizes) -> int:
    return sizes["blocks"] * sizes["rows"]


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} {what}, expected {expected}")


def _measure(
    query: Callable[[Handle, random.Random, Sizes], None], times: int
) -> Callable[[Task], Figures]:
    def measure(task: Task) -> Figures:
        draw = random.Random(task.seed)
        handle = task.peer.open(task.directory)
        median = milliseconds(lambda: query(handle, draw, task.sizes), times=times, warm=3)
        handle.close()
        return {"query_ms": median}

    return measure


def _case(
    name: str, sentence: str, measure: Callable[[Task], Figures], peers: tuple[str, ...]
) -> Case:
    return Case(
        name=name,
        sentence=sentence,
        peers=peers,
        metrics=(Metric(name="query_ms", unit="ms", title=name, higher_is_better=False),),
        sizes=SIZES,
        rounds=3,
        prepare=Prepare(name=PREPARE_NAME, run=prepare),
        measure=measure,
        borrows={"duckdb": "ours"},
        reference="duckdb",
    )


POINT = _case(
    "point",
    "fetch 1,000 neighboring rows of 10 M, all columns",
    _measure(point, times=15),
    ("duckdb", "ours", "lance", "lance-btree", "delta", "iceberg"),
)
GROUP_BY = _case(
    "groupby",
    "count and sum by a column of 10 values over 10 M rows",
    _measure(group_by, times=7),
    ("duckdb", "ours", "lance", "delta", "iceberg"),
)
COUNT = _case(
    "count",
    "count 10 M rows",
    _measure(count, times=15),
    ("duckdb", "ours", "lance", "delta", "iceberg"),
)

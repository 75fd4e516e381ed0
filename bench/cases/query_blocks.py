"""The same queries over the same 10 M rows, once in 20 files and once in 2,000 blocks; raw DuckDB
reads the same files.

``ours-gateway`` is the whole way of a gateway: polled tables, admission, and the query in a process
of its own. Every query has other literals, no result is kept, and the first query of a process,
once it is ready, is a figure of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from bench.case import Case, Figures, Metric, Scale, Sizes, Task
from bench.cases import query
from bench.peers.api import Handle
from bench.timing import milliseconds

__all__ = ["QUERY_CASES"]

SIZES = {
    20: {
        Scale.FULL: {"blocks": 20, "rows": 500_000},
        Scale.QUICK: {"blocks": 20, "rows": 50_000},
        Scale.TINY: {"blocks": 3, "rows": 2_000},
    },
    2_000: {
        Scale.FULL: {"blocks": 2_000, "rows": 5_000},
        Scale.QUICK: {"blocks": 400, "rows": 2_500},
        Scale.TINY: {"blocks": 6, "rows": 1_000},
    },
}
QUERIES: dict[str, tuple[Callable[[Handle, random.Random, Sizes], None], int, str]] = {
    "point": (query.point, 15, "fetch 1,000 neighboring rows of 10 M, all columns"),
    "groupby": (query.group_by, 5, "count and sum by a column of 10 values over 10 M rows"),
    "count": (query.count, 15, "count 10 M rows"),
}


def _measure(
    ask: Callable[[Handle, random.Random, Sizes], None], times: int
) -> Callable[[Task], Figures]:
    def measure(task: Task) -> Figures:
        draw = random.Random(task.seed)
        handle = task.peer.open(task.directory)
        # With its first array pyarrow imports pandas, where it is installed: that is no query's own
        # time.
        pa.array([0])
        handle.ready()
        first = milliseconds(lambda: ask(handle, draw, task.sizes), times=1, warm=0)
        median = milliseconds(lambda: ask(handle, draw, task.sizes), times=times, warm=2)
        handle.close()
        return {"query_ms": median, "first_ms": first}

    return measure


def _case(name: str, blocks: int) -> Case:
    ask, times, sentence = QUERIES[name]
    what = "20 files" if blocks == 20 else f"{blocks:,} blocks"
    return Case(
        name=f"{name}-{blocks}",
        sentence=f"{sentence}, in {what}",
        peers=("duckdb", "ours", "ours-gateway"),
        metrics=(
            Metric(name="query_ms", unit="ms", title=f"{name}, {what}", higher_is_better=False),
            Metric(
                name="first_ms",
                unit="ms",
                title=f"{name}, {what}, first query",
                higher_is_better=False,
            ),
        ),
        sizes=SIZES[blocks],
        rounds=3,
        prepare=query.POINT.prepare,
        measure=_measure(ask, times),
        borrows={"duckdb": "ours", "ours-gateway": "ours"},
        reference="duckdb",
    )


QUERY_CASES = tuple(_case(name, blocks) for blocks in SIZES for name in QUERIES)

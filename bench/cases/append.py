"""Small appends by one process, and whether they slow down as the table grows."""

from __future__ import annotations

import statistics
from functools import partial

from bench import inputs
from bench.case import Case, Figures, Metric, Scale, Task
from bench.timing import timed

__all__ = ["AGING", "APPEND", "warm_up"]

INPUTS = 20
WARM_APPENDS = 5


def warm_up(task: Task) -> None:
    """Appends to another table of the same peer, so that no import and no first call is timed."""
    place = task.directory.parent / f"{task.directory.name}-warm-{task.seed}"
    place.mkdir()
    handle = task.peer.create(place, inputs.SCHEMA, ["id"])
    for table in inputs.small(WARM_APPENDS, 10, task.seed):
        handle.append(table)
    handle.close()


def measure(task: Task) -> Figures:
    """``appends`` commits in turn; the edge is the first and the last 50 of them."""
    appends, rows = task.sizes["appends"], task.sizes["rows"]
    tables = inputs.small(min(INPUTS, appends), rows, task.seed)
    warm_up(task)
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])

    def append(number: int) -> None:
        handle.append(tables[number % len(tables)])

    seconds = [timed(partial(append, number)) for number in range(appends)]
    if (found := handle.count()) != appends * rows:
        raise ValueError(f"{task.peer.name} holds {found} rows after {appends} appends of {rows}")
    handle.close()
    edge = min(50, max(1, appends // 3))
    return {
        "commits_per_s": appends / sum(seconds),
        "aging": statistics.median(seconds[-edge:]) / statistics.median(seconds[:edge]),
    }


METRICS = (
    Metric(name="commits_per_s", unit="/s", title="commits", higher_is_better=True, digits=0),
    Metric(
        name="aging", unit="", title="last 50 against first 50", higher_is_better=False, digits=2
    ),
)
APPEND = Case(
    name="append",
    sentence="append 1,000 rows at a time, each a commit, by one process",
    peers=(
        "floor",
        "ours-aged",
        "ours",
        "ours-aged-durable",
        "ours-durable",
        "lance",
        "delta",
        "iceberg",
    ),
    metrics=METRICS,
    sizes={
        Scale.FULL: {"appends": 300, "rows": 1_000},
        Scale.QUICK: {"appends": 60, "rows": 1_000},
        Scale.TINY: {"appends": 6, "rows": 10},
    },
    rounds=3,
    measure=measure,
    reference="floor",
)
AGING = Case(
    name="aging",
    sentence="10,000 appends in turn: does the table slow down as it grows?",
    peers=("floor", "ours", "lance"),
    metrics=METRICS,
    sizes={
        Scale.FULL: {"appends": 10_000, "rows": 100},
        Scale.QUICK: {"appends": 500, "rows": 100},
        Scale.TINY: {"appends": 6, "rows": 10},
    },
    rounds=1,
    measure=measure,
    reference="floor",
)

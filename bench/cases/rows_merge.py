"""MERGE of many rows into a table with a key: half of them exist, scattered over all files, and the
other half are new."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.rows_update import prepare
from bench.peers.api import Unsupported

__all__ = ["ROWS_MERGE"]


def measure(task: Task) -> Figures:
    """One merge, by a handle that was just opened; the rows are counted after it."""
    total, many = task.sizes["blocks"] * task.sizes["rows"], task.sizes["source"]
    draw = np.random.default_rng(task.seed)
    there = draw.choice(total, many // 2, replace=False)
    ids = np.sort(np.concatenate([there, np.arange(total, total + many - many // 2)]))
    handle = task.peer.open_metered(task.directory) or task.peer.open(task.directory)
    handle.take_source(inputs.of_ids(ids, draw))
    before = _bytes(task.directory)
    started = time.perf_counter()
    handle.merge_source("id")
    seconds = time.perf_counter() - started
    figures = {
        "rows_per_s": many / seconds / 1e6,
        "seconds": seconds,
        "written_mb": (_bytes(task.directory) - before) / 1e6,
    }
    try:
        figures["requests"] = handle.requests()
    except Unsupported:
        pass
    expected = total + many - many // 2
    if (found := handle.count()) != expected:
        raise ValueError(f"{task.peer.name} has {found} rows after the merge, expected {expected}")
    handle.close()
    return figures


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


ROWS_MERGE = Case(
    name="rows_merge",
    sentence="MERGE of 1 M rows, half of them new and the others scattered, into 10 M rows by key",
    peers=("ours", "ours-sql", "lance", "delta"),
    metrics=(
        Metric(name="rows_per_s", unit="M rows/s", title="source", higher_is_better=True, digits=2),
        Metric(name="seconds", unit="s", title="merge", higher_is_better=False, digits=2),
        Metric(name="written_mb", unit="MB", title="written", higher_is_better=False),
        Metric(name="requests", unit="", title="requests", higher_is_better=False, digits=0),
        Metric(
            name="memory_mib", unit="MiB", title="peak memory", higher_is_better=False, digits=0
        ),
    ),
    sizes={
        Scale.FULL: {"blocks": 10, "rows": 1_000_000, "source": 1_000_000},
        Scale.QUICK: {"blocks": 4, "rows": 250_000, "source": 100_000},
        Scale.TINY: {"blocks": 2, "rows": 2_000, "source": 400},
    },
    rounds=2,
    prepare=Prepare(name="keyed", run=prepare, every_round=True),
    measure=measure,
    memory=True,
    reference="delta",
)

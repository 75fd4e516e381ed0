"""A command from nothing: a process is started, answers, and ends."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.timing import milliseconds

__all__ = ["START"]

SIZES = {"blocks": 1, "rows": 1_000}


def prepare(task: Task) -> None:
    """A table of one small block."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.ordered(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()


def measure(task: Task) -> Figures:
    """Each program in turn, its files in the page cache."""
    commands = task.peer.commands(task.directory)
    counted = _run(commands["query_ms"]).split()[-1]
    if int(counted) != SIZES["rows"]:
        raise ValueError(f"{task.peer.name} counts {counted} rows of {SIZES['rows']}")
    times = task.sizes["times"]
    return {
        metric: milliseconds(lambda command=command: _run(command), times=times, warm=1)
        for metric, command in commands.items()
    }


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


START = Case(
    name="start",
    sentence="start a command that counts the rows of a small table, and end it",
    peers=("duckdb", "ours"),
    metrics=(
        Metric(name="query_ms", unit="ms", title="query", higher_is_better=False, digits=0),
        Metric(name="help_ms", unit="ms", title="--help", higher_is_better=False, digits=0),
    ),
    sizes={
        Scale.FULL: {**SIZES, "times": 15},
        Scale.QUICK: {**SIZES, "times": 7},
        Scale.TINY: {**SIZES, "times": 1},
    },
    rounds=3,
    prepare=Prepare(name="small", run=prepare),
    measure=measure,
    borrows={"duckdb": "ours"},
    reference="duckdb",
)

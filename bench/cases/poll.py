"""A reader that holds a table open and asks whether there is anything new; there is not."""

from __future__ import annotations

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.peers.api import Handle
from bench.timing import milliseconds

__all__ = ["POLL", "polled"]

POLLS = 200
WARM_POLLS = 20


def prepare(task: Task) -> None:
    """A table of ``commits`` commits of one row each."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    for table in inputs.ordered(task.sizes["commits"], 1, task.seed):
        handle.append(table)
    handle.close()


def measure(task: Task) -> Figures:
    """The median of 200 polls by one handle."""
    handle = task.peer.open(task.directory)
    if (found := handle.count()) != task.sizes["commits"]:
        raise ValueError(f"{task.peer.name} holds {found} rows of {task.sizes['commits']}")
    return polled(task, handle)


def polled(task: Task, handle: Handle) -> Figures:
    """The median of 200 polls by this handle, which is closed, and what one poll asks of the
    store."""
    figures = {"poll_ms": milliseconds(handle.poll, times=POLLS, warm=WARM_POLLS)}
    handle.close()
    if (metered := task.peer.open_metered(task.directory)) is not None:
        metered.poll()
        before = metered.requests()
        metered.poll()
        figures["requests"] = float(metered.requests() - before)
        metered.close()
    return figures


POLL = Case(
    name="poll",
    sentence="poll a table of 1,000 commits, nothing new",
    peers=("ours", "lance", "delta"),
    metrics=(
        Metric(name="poll_ms", unit="ms", title="poll", higher_is_better=False, digits=3),
        Metric(name="requests", unit="", title="requests", higher_is_better=False, digits=0),
    ),
    sizes={
        Scale.FULL: {"commits": 1_000},
        Scale.QUICK: {"commits": 100},
        Scale.TINY: {"commits": 5},
    },
    rounds=3,
    prepare=Prepare(name="commits", run=prepare),
    measure=measure,
    reference="lance",
)

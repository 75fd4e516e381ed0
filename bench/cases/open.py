"""Opening a table of many blocks and listing them, from nothing."""

from __future__ import annotations

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.timing import milliseconds

__all__ = ["OPEN_CASES"]


def prepare(task: Task) -> None:
    """A table of ``blocks`` blocks of one row."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.ordered(task.sizes["blocks"], 1, task.seed))
    handle.close()


def measure(task: Task) -> Figures:
    """A fresh handle each time; the libraries are warm, the table is not."""

    def opened() -> None:
        handle = task.peer.open(task.directory)
        if (found := handle.blocks()) != task.sizes["blocks"]:
            raise ValueError(f"{task.peer.name} lists {found} blocks of {task.sizes['blocks']}")
        handle.close()

    figures = {"open_ms": milliseconds(opened, times=9, warm=2)}
    if (metered := task.peer.open_metered(task.directory)) is not None:
        # Of the open alone: the first snapshot looks once more (two requests), for a write that was
        # acknowledged meanwhile.
        figures["requests"] = float(metered.requests())
        figures["beyond_tail"] = figures["requests"] - metered.tail()
        metered.close()
    return figures


def _case(name: str, blocks: int, quick: int, peers: tuple[str, ...], rounds: int) -> Case:
    return Case(
        name=name,
        sentence=f"open a table of {blocks:,} blocks and list them",
        peers=peers,
        metrics=(
            Metric(name="open_ms", unit="ms", title="open and list", higher_is_better=False),
            Metric(name="requests", unit="", title="requests", higher_is_better=False, digits=0),
            Metric(
                name="beyond_tail",
                unit="",
                title="without the entries from the checkpoint on",
                higher_is_better=False,
                digits=0,
            ),
        ),
        sizes={
            Scale.FULL: {"blocks": blocks},
            Scale.QUICK: {"blocks": quick},
            Scale.TINY: {"blocks": 5},
        },
        rounds=rounds,
        prepare=Prepare(name="blocks", run=prepare),
        measure=measure,
        reference="floor",
    )


PEERS = ("floor", "ours", "lance", "delta", "iceberg")
OPEN_CASES = (
    _case("open-1k", 1_000, 100, PEERS, 3),
    _case("open-10k", 10_000, 300, PEERS, 3),
    _case("open-100k", 100_000, 1_000, ("floor", "ours"), 2),
)

"""Small appends by many processes at once: throughput, refusals, and the slowest waits."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from bench import inputs, peers
from bench.case import Case, Figures, Metric, Scale, Task
from bench.cases.append import warm_up
from bench.peers.api import Handle
from bench.timing import percentile

__all__ = ["APPEND16", "Turn", "figures_of", "race"]

READY_S = 300.0

Act = Callable[[Handle, Task, int], Callable[[int], None]]
"""Returns what a process commits at each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one process did."""

    start: float
    end: float
    seconds: tuple[float, ...]
    """One for each acknowledged append."""
    refused: tuple[str, ...]
    """The errors that reached the caller, by kind."""


def measure(task: Task) -> Figures:
    """``appends`` by each of ``processes`` on one table; an append that raises is refused, and not
    tried again."""
    task.peer.create(task.directory, inputs.SCHEMA, ["id"]).close()
    rows = task.sizes["rows"]
    done = race(task, _appends)
    acknowledged = sum(len(turn.seconds) for turn in done)
    handle = task.peer.open(task.directory)
    if (found := handle.count()) != acknowledged * rows:
        raise ValueError(
            f"{task.peer.name} holds {found} rows, {acknowledged * rows} were acknowledged"
        )
    handle.close()
    return figures_of(done)


def race(task: Task, act: Act) -> list[Turn]:
    """What ``processes`` did at once, ``appends`` commits each; none is tried again. ``act`` is
    sent to the processes."""
    processes = task.sizes["processes"]
    # Spawned, not forked: peers with threads of their own do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        barrier = manager.Barrier(processes)
        turns = manager.list()
        workers = [
            context.Process(target=_run, args=(task.peer.name, task, number, barrier, turns, act))
            for number in range(processes)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failed := [worker.exitcode for worker in workers if worker.exitcode]:
            raise RuntimeError(
                f"{len(failed)} of {processes} processes of {task.peer.name} died: {failed}"
            )
        done: list[Turn] = list(turns)
    refusals = Counter(kind for turn in done for kind in turn.refused)
    if refusals:
        print(f"{task.peer.name}: refused {dict(refusals)}")
    if not any(turn.seconds for turn in done):
        raise RuntimeError(f"{task.peer.name} acknowledged nothing; refusals: {dict(refusals)}")
    return done


def figures_of(done: list[Turn]) -> Figures:
    """The rate of what was acknowledged, the refusals, and the slowest waits."""
    seconds = [second for turn in done for second in turn.seconds]
    refused = sum(len(turn.refused) for turn in done)
    wall = max(turn.end for turn in done) - min(turn.start for turn in done)
    return {
        "commits_per_s": len(seconds) / wall,
        "refused_percent": 100 * refused / (len(seconds) + refused),
        "p99_ms": 1_000 * percentile(seconds, 0.99),
    }


def _appends(handle: Handle, task: Task, _: int) -> Callable[[int], None]:
    tables = inputs.small(5, task.sizes["rows"], task.seed)
    return lambda turn: handle.append(tables[turn % len(tables)])


def _run(name: str, task: Task, number: int, barrier: Barrier, turns: list[Turn], act: Act) -> None:
    peer = peers.load(name)
    own = Task(
        peer=peer, directory=task.directory, sizes=task.sizes, seed=task.seed * 1_000 + number
    )
    warm_up(own)
    handle = peer.open(task.directory)
    commit = act(handle, own, number)
    seconds: list[float] = []
    refused: list[str] = []
    barrier.wait(READY_S)
    start = time.perf_counter()  # one clock for all processes of a machine
    for turn in range(task.sizes["appends"]):
        before = time.perf_counter()
        if before - start > task.sizes["limit_s"]:
            break
        try:
            commit(turn)
        except Exception as error:  # noqa: BLE001 - whatever a peer tells its caller is what is counted
            refused.append(type(error).__name__)
        else:
            seconds.append(time.perf_counter() - before)
    end = time.perf_counter()
    barrier.wait(READY_S)  # a process that ends takes a core from those that are still at work
    turns.append(Turn(start=start, end=end, seconds=tuple(seconds), refused=tuple(refused)))
    handle.close()


APPEND16 = Case(
    name="append16",
    sentence="appends of 1,000 rows by 16 processes to one table, 40 each, for at most 30 s",
    peers=("floor", "ours-aged", "ours", "ours-durable", "lance", "delta", "iceberg"),
    metrics=(
        Metric(name="commits_per_s", unit="/s", title="commits", higher_is_better=True, digits=0),
        Metric(name="refused_percent", unit="%", title="refused", higher_is_better=False),
        Metric(name="p99_ms", unit="ms", title="99th percentile", higher_is_better=False),
    ),
    sizes={
        Scale.FULL: {"processes": 16, "appends": 40, "rows": 1_000, "limit_s": 30},
        Scale.QUICK: {"processes": 4, "appends": 20, "rows": 1_000, "limit_s": 10},
        Scale.TINY: {"processes": 2, "appends": 3, "rows": 10, "limit_s": 10},
    },
    rounds=4,
    measure=measure,
    reference="floor",
)

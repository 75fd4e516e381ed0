"""Many runs: one seed after the other, on several processors, their counts together.

A series ends at the first broken promise, which it names with the command that replays it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from blockstore.simulation.actors.cast import cast
from blockstore.simulation.report import Report
from blockstore.simulation.run import Outcome, run


@dataclass
class Series:
    """What a series has come to."""

    runs: int = 0
    steps: int = 0
    simulated_ms: int = 0
    report: Report = field(default_factory=Report)
    digest: str = ""
    """The trace's hash of the last run."""
    broken: Outcome | None = None
    """The run that broke a promise."""

    def add(self, outcome: Outcome) -> None:
        """Take over a run."""
        self.runs += 1
        self.steps += outcome.steps
        self.simulated_ms += outcome.simulated_ms
        self.report.add(outcome.report)
        self.digest = outcome.digest
        if outcome.problem is not None and self.broken is None:
            self.broken = outcome


def run_series(
    seeds: Iterable[int],
    steps: int,
    *,
    processes: int = 1,
    watch: Callable[[Outcome], bool | None] = lambda outcome: None,
) -> Series:
    """Run the seeds until one breaks a promise;

    ``watch`` is called with each as it ends; if it returns True, the series ends.
    """
    series = Series()
    for outcome in _outcomes(seeds, steps, processes):
        series.add(outcome)
        if watch(outcome) or series.broken is not None:
            break
    return series


def _outcomes(seeds: Iterable[int], steps: int, processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from (_one(seed, steps) for seed in seeds)
        return
    waiting = iter(seeds)
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_alone
    ) as pool:
        running: set[Future[Outcome]] = {
            pool.submit(_one, seed, steps) for seed in islice(waiting, processes)
        }
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(_one, seed, steps) for seed in islice(waiting, len(done))}
                yield from (future.result() for future in done)
        finally:
            for future in running:
                future.cancel()


def _one(seed: int, steps: int) -> Outcome:
    return run(seed, steps, cast())


def _alone() -> None:
    """Threads that take turns are quickest on one processor."""
    if hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {own[os.getpid() % len(own)]})

"""Report the share of a round's Spark job that has ended, while it runs: the results of its tasks
come back together at the end.

In a classic session Spark's status tracker provides the numbers. Spark Connect has none, and
nothing is reported there before the round has ended. An error while reading them is ignored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

EVERY_S = 1.0
_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a part of a pass: ``call`` receives the share of the complete pass, of which
    this part covers the range from ``low`` to ``high``."""

    call: Callable[[float], None]
    low: float = 0.0
    high: float = 1.0

    def ended(self, share: float) -> None:
        """Report that this share of the part has ended."""
        self.call(self.low + (self.high - self.low) * share)

    def part(self, first: int, past: int, of: int) -> Progress:
        """The progress of the items from ``first`` to before ``past``, of ``of`` in this part."""
        step = (self.high - self.low) / of
        return Progress(call=self.call, low=self.low + step * first, high=self.low + step * past)


@contextmanager
def reporting(
    session: Any, progress: Progress | None, group: str, *, every_s: float = EVERY_S
) -> Iterator[None]:
    """Report progress whenever a task ends, while the body runs one Spark job in this thread.

    ``group`` is the job group of the body's jobs and of no others. Without ``progress`` it does
    nothing.
    """
    context = getattr(session, "_sc", None)
    if progress is None or context is None:
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()

    def watch() -> None:
        before = 0
        while not over.wait(every_s):
            with suppress(
                Exception
            ):  # the tracker may fail once, and the session may end meanwhile
                ended, total = _ended(context.statusTracker(), group)
                if ended > before:
                    before = ended
                    progress.ended(ended / total)

    with ExitStack() as undo:
        with suppress(Exception):  # then nothing is reported, and the merges still run
            others = context.getLocalProperty(_GROUP)
            undo.callback(_put_back, context, others)
            context.setLocalProperty(_GROUP, group)
            thread = InheritableThread(watch, name="blockstore-merges", daemon=True)
            thread.start()
            undo.callback(thread.join)
            undo.callback(over.set)
        yield


def _put_back(context: Any, group: str | None) -> None:
    with suppress(Exception):
        context.setLocalProperty(_GROUP, group)


def _ended(tracker: Any, group: str) -> tuple[int, int]:
    """The ended tasks and all tasks of the job's only stage."""
    jobs = [tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(group)]
    stages = [max(job.stageIds) for job in jobs if job is not None and len(job.stageIds)]
    info = tracker.getStageInfo(max(stages)) if stages else None
    return (0, 0) if info is None else (info.numCompletedTasks, info.numTasks)

"""How far the Spark job of a round of merges is, told while it runs: the answers of its tasks come
back all at once.

Spark's status tracker knows it in a classic session. Spark Connect has none: there nothing is told
before the round has ended. What is asked is never worth an error.
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
class Told:
    """Who hears how far a pass is, and between which shares of it the part lies that reports
    here."""

    call: Callable[[float], None]
    low: float = 0.0
    high: float = 1.0

    def ended(self, share: float) -> None:
        """So much of this part has ended."""
        self.call(self.low + (self.high - self.low) * share)

    def part(self, first: int, past: int, of: int) -> Told:
        """For those from ``first`` to before ``past`` of this part's ``of``."""
        step = (self.high - self.low) / of
        return Told(call=self.call, low=self.low + step * first, high=self.low + step * past)


@contextmanager
def telling(
    session: Any, told: Told | None, group: str, *, every_s: float = EVERY_S
) -> Iterator[None]:
    """While the body runs one Spark job in this thread: tell whenever one more of its tasks has
    ended.

    ``group`` names the body's jobs, for as long as it runs, and no others. Nothing is done where
    nobody listens.
    """
    context = getattr(session, "_sc", None)
    if told is None or context is None:
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()

    def watch() -> None:
        before = 0
        while not over.wait(every_s):
            with suppress(Exception):  # the tracker may fail once, and the session may end under it
                ended, total = _ended(context.statusTracker(), group)
                if ended > before:
                    before = ended
                    told.ended(ended / total)

    with ExitStack() as undo:
        with suppress(Exception):  # then nothing is told, and the merges are done all the same
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
    """The tasks that have ended, and all, of the stage that merges: the last one.

    Those before it only deal the tasks out.
    """
    jobs = [tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(group)]
    stages = [max(job.stageIds) for job in jobs if job is not None and len(job.stageIds) > 1]
    info = tracker.getStageInfo(max(stages)) if stages else None
    return (0, 0) if info is None else (info.numCompletedTasks, info.numTasks)

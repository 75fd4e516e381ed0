"""A line in the log, now and then, while a long job runs: how many of its tasks are done.

Spark tells that of a classic session; across Spark Connect there is only the time. What is asked is
never worth an error.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from blockstore.world import World

_log = logging.getLogger("blockstore.spark")

EVERY_S = 15.0


@contextmanager
def progress(session: Any, what: str, world: World, *, every_s: float = EVERY_S) -> Iterator[None]:
    """Say every so often how far Spark's jobs are, while the body runs."""
    ended = threading.Event()
    begun = world.clock.monotonic_s()

    def say() -> None:
        while not ended.wait(every_s):
            spent = world.clock.monotonic_s() - begun
            _log.info("%s: %s%.0f s", what, _tasks(session), spent)

    thread = threading.Thread(target=say, name="blockstore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tasks(session: Any) -> str:
    """The tasks of the stages that run now: those of this job, and of others in the same
    application."""
    done = total = 0
    with suppress(Exception):
        tracker = session.sparkContext.statusTracker()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return f"{done} of {total} tasks, " if total else ""

"""Log how many tasks of a long job are done, every 15 seconds.

In a classic session Spark provides the numbers; across Spark Connect only the time is logged. An
error while reading them is ignored.
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
    """Log the progress of Spark's jobs at an interval while the body runs."""
    ended = threading.Event()
    begun = world.clock.monotonic_s()

    def report() -> None:
        while not ended.wait(every_s):
            spent = world.clock.monotonic_s() - begun
            _log.info("%s: %s%.0f s", what, _tasks(session), spent)

    thread = threading.Thread(target=report, name="blockstore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tasks(session: Any) -> str:
    """The tasks of the stages that run now, of this job and of others in the same application."""
    done = total = 0
    with suppress(Exception):
        tracker = session.sparkContext.statusTracker()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return f"{done} of {total} tasks, " if total else ""

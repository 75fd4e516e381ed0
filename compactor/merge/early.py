"""A run that may be opened before the merge needs it, while other runs are merged.

Rules:
- Whatever is opened early holds what an open run holds that is not read: a footer, and a chunk on
  the work disk or a small one in memory. Its rows are not read.
- A run is opened once: by a thread of the pool, or, if none has begun by then, by the thread that
  reads it. A thread that waits for an opening waits for one that is in progress, so threads cannot
  wait for each other.
- What an early opening raises is raised by the first ``read``.
- ``close`` waits for an opening in progress: nothing of it is left behind.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from blockstore.compactor.merge.run import Run
from blockstore.world import Pool


class EarlyRun:
    """``run``, which ``begin`` opens in a thread of ``pool``."""

    def __init__(self, run: Run, pool: Pool) -> None:
        self.floor = run.floor
        self.ceiling = run.ceiling
        self._run = run
        self._pool = pool
        self._claim = threading.Lock()
        self._claimed = False
        self._ended = threading.Event()
        self._sent = False
        self._error: BaseException | None = None

    @property
    def bytes(self) -> int:
        return self._run.bytes

    @property
    def exhausted(self) -> bool:
        return self._run.exhausted

    def begin(self) -> None:
        """Open the run early, where the pool has threads for it; without effect the second time."""
        if not self._sent and self._pool.runs_beside():
            self._sent = True
            self._pool.start(self._open)

    def open(self) -> None:
        """Open the run, or wait until it is open; raises what opening it raised."""
        self._open()
        self._pool.wait(self._ended)
        if self._error is not None:
            raise self._error

    def read(self, goal_bytes: int) -> pa.Table | None:
        """As ``Run.read``; raises what opening it raised."""
        if self._sent:
            self.open()
        return self._run.read(goal_bytes)

    def close(self) -> None:
        if self._sent and not self._take():
            self._pool.wait(self._ended)
        self._run.close()

    def _open(self) -> None:
        """Open the run, unless that has begun; raises nothing."""
        if not self._take():
            return
        try:
            self._run.open()
        except BaseException as error:  # noqa: BLE001 - raised by ``read``
            self._error = error
        finally:
            self._ended.set()

    def _take(self) -> bool:
        """Whether the caller is the first that wants to open the run, or not to."""
        with self._claim:
            first, self._claimed = not self._claimed, True
            return first

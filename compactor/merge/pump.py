"""Drives a merge: three successive windows are read, sorted and written at the same time.

One step runs, on the pool, the write of the window before last, the sort of the last window and the
reads that the next cut needs; between steps the buffers are cut. At most three windows are in
memory, and an error in any part ends the merge with it.

Runs that later steps need are opened beside these steps (``early.py``), so that runs which do not
overlap are not opened one after the other.

The tasks of a step are taken in turn by as many workers as there are lanes, the write first: it is
the longest and cannot be divided, so with more workers than cores it would get part of a core, and
end last and alone. Where reading is mostly waiting, more lanes than cores are right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from blockstore.compactor.merge.chain import Chain
from blockstore.compactor.merge.early import EarlyRun
from blockstore.compactor.merge.kway import KWay, Piece
from blockstore.compactor.merge.order import RowOrder
from blockstore.compactor.merge.run import Run
from blockstore.compactor.merge.window import Sorter
from blockstore.world import Pool

Sink = Callable[[pa.Table], None]
_Step = Callable[[], None]


def pump(
    runs: Sequence[Run],
    order: RowOrder,
    sink: Sink,
    *,
    run_bytes: int,
    pool: Pool,
    lanes: int = 2,
    ahead: int = 0,
) -> None:
    """Pass every row of ``runs`` to ``sink`` in order, a window at a time; close the runs.

    Args:
        runs: The sorted runs; without a sort key they are passed on one after the other.
        order: The sort key.
        sink: Called with each window.
        run_bytes: What each open run may buffer.
        pool: Runs the tasks.
        lanes: How many threads of the pool may be busy with a step.
        ahead: How many runs are opened before the step that needs them, by further threads.

    Raises:
        Unsorted: A run is not in order.
    """
    early = [EarlyRun(run, pool) for run in runs] if ahead else []
    merged = early if ahead else runs
    merge = KWay(merged, order, run_bytes) if order.sort_by else Chain(merged, run_bytes)
    stages = _Stages(sorter=Sorter(order), sink=sink)
    try:
        ended = False
        while not ended or stages.busy:
            reads = [] if ended else merge.fills()
            for place in islice(merge.following(), ahead):
                early[place].begin()
            _do([*stages.tasks(), *reads], pool, lanes)
            if not ended:
                stages.pieces = merge.cut()
                ended = stages.pieces is None
    finally:
        merge.close()


@dataclass(slots=True, kw_only=True)
class _Stages:
    """The windows in progress: one to sort, one to write."""

    sorter: Sorter
    sink: Sink
    pieces: list[Piece] | None = None
    table: pa.Table | None = None

    @property
    def busy(self) -> bool:
        return bool(self.pieces) or self.table is not None

    def tasks(self) -> list[_Step]:
        """The work of one step. Each task takes its window along, so that memory is freed when it
        ends."""
        tasks: list[_Step] = []
        if self.table is not None:
            tasks.append(self._write(self.table))
        self.table = None
        if self.pieces:
            tasks.append(self._sort(self.pieces))
        self.pieces = None
        return tasks

    def _write(self, table: pa.Table) -> _Step:
        return lambda: self.sink(table)

    def _sort(self, pieces: list[Piece]) -> _Step:
        def task() -> None:
            self.table = self.sorter.sort(pieces)

        return task


def _do(tasks: Sequence[_Step], pool: Pool, lanes: int) -> None:
    """Do all tasks, at most ``lanes`` at once. After an error none is started, and the error of the
    first failed task in their order is raised."""
    waiting = deque(enumerate(tasks))
    failed: dict[int, BaseException] = {}

    def work(_: int) -> None:
        while not failed:
            try:
                place, task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - raised below
                failed[place] = error

    try:
        pool.map(work, range(min(lanes, len(tasks))))
    finally:
        waiting.clear()
    if failed:
        raise failed[min(failed)]

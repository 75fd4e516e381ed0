"""A run: sorted rows, read piece by piece. The input of the k-way merge.

Rules:
- The pieces of a run are in order, one after the other; the merge checks it and raises ``Unsorted``
  if not.
- ``floor`` bounds the leading sort column of every row from below, and ``ceiling`` from above; None
  = unknown. A run is opened only when the merge reaches its floor, so runs that do not overlap do
  not need memory at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from blockstore.compactor.merge.order import KeyPart


class Unsorted(Exception):
    """A run's rows are not in the order that its block declares: sort it, then merge again."""

    def __init__(self, run: int) -> None:
        super().__init__(f"run {run} is not sorted")
        self.run = run


class Run(Protocol):
    """Sorted rows from one place."""

    @property
    def bytes(self) -> int:
        """About how much memory all its rows take."""
        ...

    @property
    def floor(self) -> KeyPart | None: ...

    @property
    def ceiling(self) -> KeyPart | None: ...

    @property
    def exhausted(self) -> bool:
        """Whether it is known that no row is left."""
        ...

    def open(self) -> None:
        """Do ahead of ``read`` what that does first; it reads no row."""
        ...

    def read(self, goal_bytes: int) -> pa.Table | None:
        """The next rows, about ``goal_bytes`` and at least one row; None at the end. Opens the
        run."""
        ...

    def close(self) -> None:
        """Release files and memory; allowed at any time."""
        ...


class TableRun:
    """A run in memory."""

    def __init__(
        self,
        table: pa.Table,
        *,
        floor: KeyPart | None = None,
        ceiling: KeyPart | None = None,
        rows: int = 0,
    ) -> None:
        self._rest = table
        self._rows = rows
        self.bytes = int(table.nbytes)
        self.floor = floor
        self.ceiling = ceiling

    @property
    def exhausted(self) -> bool:
        return bool(self._rest.num_rows == 0)

    def open(self) -> None:
        """Nothing is left to do."""

    def read(self, goal_bytes: int) -> pa.Table | None:
        """The next ``goal_bytes`` of the table, or ``rows`` rows if that is set."""
        if self._rest.num_rows == 0:
            return None
        rows = self._rows or max(1, goal_bytes * self._rest.num_rows // max(1, self._rest.nbytes))
        piece, self._rest = self._rest.slice(0, rows), self._rest.slice(rows)
        return piece

    def close(self) -> None:
        self._rest = self._rest.slice(self._rest.num_rows)


def depth(runs: Iterable[Run]) -> int:
    """The most runs whose ranges of the leading column share a value: how many are open at once."""
    return depth_of([(run.floor, run.ceiling) for run in runs])


def depth_of(ranges: Sequence[tuple[KeyPart | None, KeyPart | None]]) -> int:
    """``depth`` of bare ranges, both ends inclusive."""
    lowest, highest = (-1, 0), (3, 0)
    opens = sorted(lowest if floor is None else floor for floor, _ in ranges)
    closes = sorted(highest if ceiling is None else ceiling for _, ceiling in ranges)
    most, closed = 0, 0
    for opened, floor in enumerate(opens, 1):
        while closes[closed] < floor:
            closed += 1
        most = max(most, opened - closed)
    return most

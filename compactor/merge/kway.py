"""The bounded k-way merge: sorted runs in, sorted windows out, in memory that does not grow with
the rows.

Each open run has a buffer. The *horizon* is the least of the last keys buffered: everything at or
below it, in any buffer, can be emitted, because every row not yet read is at or above the last key
of its run. The buffers are cut at the horizon. The cut pieces together are one window, and sorting
it (``window.py``) gives the next rows of the result. Then the buffers are filled again.

Rules:
- The result has the stable order: by key, then by the run's place, then by the row's place in its
  run. It does not depend on memory, batch sizes or timing. Rows equal to the horizon need care: the
  run that set it may have more of them unread. So runs before it give theirs, it gives all that it
  has buffered, and later runs keep theirs.
- Every window takes the complete buffer of the run that set its horizon, so the merge always
  advances, even if one key fills a file.
- A run not yet opened counts with its floor: rows below it may go, and it is opened once the
  horizon reaches it.
- A run that is opened ahead because it is small may buffer little more than its guessed size:
  whatever it turns out to hold, the window keeps its planned size. Once it is the first of all open
  runs, it buffers as much as any other.
- Rows that are out of order are detected here or in ``window.py``, and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.compactor.merge.order import Key, KeyPart, RowOrder
from blockstore.compactor.merge.run import Run

_AHEAD = 2
"""What a run opened ahead may buffer, as a multiple of its guessed size."""

_BELOW_ALL: KeyPart = (-1, 0)
_ABOVE_ALL: KeyPart = (3, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Consecutive rows of one run."""

    run: int
    rows: pa.Table


@dataclass(slots=True, kw_only=True)
class _Buffer:
    """Rows that were read from a run and not yet emitted."""

    run: Run
    place: int
    ahead_bytes: int | None = None
    """What it may buffer while runs opened before it have rows; None = as much as any."""
    parts: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    ended: bool = False

    def fill(self, goal_bytes: int) -> None:
        while not self.ended and self.bytes < goal_bytes:
            part = self.run.read(goal_bytes - self.bytes)
            if part is None or self.run.exhausted:
                self.ended = True
                self.run.close()
            if part is not None:
                self.parts.append(part)
                # An ended run is not filled again, so its size is not needed. Weighing many small
                # chunks is slow.
                self.bytes += 0 if self.ended else part.nbytes

    def last(self, order: RowOrder) -> Key:
        return order.key(self.parts[-1], self.parts[-1].num_rows - 1)

    def take(self, order: RowOrder, key: Key, *, after: bool) -> list[pa.Table]:
        """Cut off the leading rows below ``key`` (or at it, with ``after``)."""
        taken: list[pa.Table] = []
        before = sum(part.num_rows for part in self.parts)
        while self.parts:
            part = self.parts[0]
            rows = order.position(part, key, after=after)
            if rows:
                taken.append(part.slice(0, rows))
            if rows < part.num_rows:
                self.parts[0] = part.slice(rows)
                break
            self.parts.pop(0)
        # Weighing slices costs more than cutting them. Rows of one run have about the same width.
        self.bytes = self.bytes * sum(part.num_rows for part in self.parts) // max(1, before)
        return taken

    def take_all(self) -> list[pa.Table]:
        taken, self.parts, self.bytes = self.parts, [], 0
        return taken


class KWay:
    """One merge: ``fills`` and ``cut`` in turn, until ``cut`` returns None."""

    def __init__(self, runs: Sequence[Run], order: RowOrder, buffer_bytes: int) -> None:
        """``buffer_bytes`` is what each open run may buffer, plus or minus one piece."""
        self._order = order
        self._goal = buffer_bytes
        closed = [_Buffer(run=run, place=place) for place, run in enumerate(runs)]
        self._closed = sorted(
            closed, key=lambda buffer: (_floor(buffer), buffer.place), reverse=True
        )
        self._open: list[_Buffer] = []

    def following(self) -> Iterator[int]:
        """The places of the runs that are not open yet, in the order in which they are needed."""
        return (buffer.place for buffer in reversed(self._closed))

    def fills(self) -> list[Callable[[], None]]:
        """The reads to do before the next cut; they are independent, so a pool may run them."""
        self._open = [buffer for buffer in self._open if buffer.parts or not buffer.ended]
        self._open_ahead()
        if self._open:
            self._open[0].ahead_bytes = None
        return [
            self._fill(buffer)
            for buffer in self._open
            if not buffer.ended and buffer.bytes < self._goal_of(buffer)
        ]

    def cut(self) -> list[Piece] | None:
        """The pieces of the next window, in the order of the runs' places; None once all rows are
        emitted.

        Reads what is needed to open further runs; ``fills`` has done most of that.
        """
        while True:
            live = [buffer for buffer in self._open if buffer.parts]
            limits = [
                (buffer.last(self._order), buffer.place) for buffer in live if not buffer.ended
            ]
            horizon = min(limits, default=None)
            if not self._closed:
                break
            reached = max((buffer.last(self._order) for buffer in live), default=None)
            if horizon is not None:
                reached = horizon[0]
            if reached is not None and reached[0] < _floor(self._closed[-1]):
                break  # everything buffered so far is below all rows of the closed runs
            self._open_next()
            self._fill(self._open[-1])()
        return self._cut(live, horizon) if live else None

    def close(self) -> None:
        """Close every run; allowed at any time."""
        for buffer in (*self._open, *self._closed):
            buffer.run.close()

    def _cut(self, live: list[_Buffer], horizon: tuple[Key, int] | None) -> list[Piece]:
        pieces: list[Piece] = []
        for buffer in sorted(live, key=lambda buffer: buffer.place):
            if horizon is None or buffer.place == horizon[1]:
                taken = buffer.take_all()
            else:
                taken = buffer.take(self._order, horizon[0], after=buffer.place < horizon[1])
            pieces.extend(Piece(run=buffer.place, rows=rows) for rows in taken)
        return pieces

    def _open_ahead(self) -> None:
        """Open the runs that share keys with all open ones, or are small enough to join their
        window.

        Opened in the order of their floors while below every ceiling, all open runs share a value:
        they are never more than ``run.depth``.
        """
        waiting = sum(min(buffer.run.bytes, self._goal) for buffer in self._open)
        lowest = min((_ceiling(buffer) for buffer in self._open), default=_ABOVE_ALL)
        while self._closed:
            following = self._closed[-1]
            ahead = _floor(following) > lowest
            waiting += following.run.bytes
            if waiting > self._goal and ahead:
                return
            lowest = min(lowest, _ceiling(following))
            following.ahead_bytes = max(1, _AHEAD * following.run.bytes) if ahead else None
            self._open_next()

    def _open_next(self) -> None:
        self._open.append(self._closed.pop())

    def _fill(self, buffer: _Buffer) -> Callable[[], None]:
        return lambda: buffer.fill(self._goal_of(buffer))

    def _goal_of(self, buffer: _Buffer) -> int:
        return self._goal if buffer.ahead_bytes is None else min(self._goal, buffer.ahead_bytes)


def _floor(buffer: _Buffer) -> KeyPart:
    return _BELOW_ALL if buffer.run.floor is None else buffer.run.floor


def _ceiling(buffer: _Buffer) -> KeyPart:
    return _ABOVE_ALL if buffer.run.ceiling is None else buffer.run.ceiling

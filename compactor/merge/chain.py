"""The merge of a table without a sort key: one run after the other, in the order of their places.

It has the same shape as ``KWay``, so that ``pump`` drives both. Small runs are read in parallel, as
many as one buffer holds; a large one alone, piece by piece. A run behind the first buffers little
more than its guessed size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from blockstore.compactor.merge.kway import Piece
from blockstore.compactor.merge.run import Run

_AHEAD = 2
"""What a run behind the first may buffer, as a multiple of its guessed size."""


class Chain:
    """``fills`` and ``cut`` in turn, until ``cut`` returns None."""

    def __init__(self, runs: Sequence[Run], buffer_bytes: int) -> None:
        self._goal = buffer_bytes
        self._waiting = deque(enumerate(runs))
        self._links: list[_Link] = []

    def following(self) -> Iterator[int]:
        """The places of the runs that are not open yet, in their order."""
        return (place for place, _ in self._waiting)

    def fills(self) -> list[Callable[[], None]]:
        """The reads to do before the next cut."""
        bytes_ahead = sum(link.run.bytes for link in self._links)
        while self._waiting and (
            not self._links or bytes_ahead + self._waiting[0][1].bytes <= self._goal
        ):
            place, run = self._waiting.popleft()
            bytes_ahead += run.bytes
            self._links.append(_Link(place, run, min(self._goal, max(1, _AHEAD * run.bytes))))
        return [
            partial(link.read, self._goal if link is self._links[0] else link.ahead_bytes)
            for link in self._links
        ]

    def cut(self) -> list[Piece] | None:
        """What may be emitted: everything up to the buffered end of the first unfinished run."""
        if not self._links and not self._waiting:
            return None
        pieces: list[Piece] = []
        while self._links:
            link = self._links[0]
            pieces.extend(Piece(run=link.place, rows=rows) for rows in link.taken())
            if not link.ended:
                break
            self._links.pop(0)
        return pieces

    def close(self) -> None:
        """Close every run; allowed at any time."""
        for run in (*(link.run for link in self._links), *(run for _, run in self._waiting)):
            run.close()


class _Link:
    """One run of the chain, being read."""

    def __init__(self, place: int, run: Run, ahead_bytes: int) -> None:
        self.place = place
        self.run = run
        self.ended = False
        self.ahead_bytes = ahead_bytes
        self._parts: list[pa.Table] = []

    def read(self, goal_bytes: int) -> None:
        """Read on until ``goal_bytes`` are buffered; at the end close the run."""
        missing = goal_bytes - sum(part.nbytes for part in self._parts)
        while missing > 0 and not self.ended:
            part = self.run.read(missing)
            if part is not None:
                self._parts.append(part)
                missing -= part.nbytes
            if part is None or self.run.exhausted:
                self.ended = True
                self.run.close()

    def taken(self) -> list[pa.Table]:
        parts, self._parts = self._parts, []
        return parts

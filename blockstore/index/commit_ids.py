"""The commit ids that a state keeps: of the newest 4,096 entries, and of the last hour by entry
time.

This window is what makes a retry safe (protocol 3.3, step 1): an operation that finds its own
commit id here is done, whatever response it got before. Entry times never fall, so the window is an
unbroken run of entries.

Invariants:
- What ``find`` returns depends on the version and its time alone, never on how the value came
  about.
- A value never changes; adding is O(log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import immutables
import numpy as np
import numpy.typing as npt

WINDOW_ENTRIES = 4_096
WINDOW_MS = 3_600_000

_WIDTH = 26
_TAIL = 4_096


@dataclass(frozen=True, eq=False)
class Run:
    """Commit ids of consecutive entries: ``first``, their ids end to end, their times."""

    first: int
    text: str
    times: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Entry by commit id."""
        text = self.text
        return {text[at * _WIDTH : (at + 1) * _WIDTH]: self.first + at for at in range(len(self))}


_NONE = Run(1, "", np.empty(0, dtype=np.int64))


class Commits:
    """An immutable window of commit ids, at a version and its time."""

    def __init__(
        self,
        run: Run = _NONE,
        tail: immutables.Map[str, tuple[int, int]] | None = None,
        version: int | None = None,
        time_ms: int | None = None,
    ) -> None:
        self._run = run
        self._tail: immutables.Map[str, tuple[int, int]] = (
            immutables.Map() if tail is None else tail
        )
        self._version = run.first + len(run) - 1 if version is None else version
        self._time_ms = (int(run.times[-1]) if len(run) else 0) if time_ms is None else time_ms

    def __len__(self) -> int:
        return len(self.window())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Commits):
            return NotImplemented
        mine, its = self.window(), other.window()
        return (
            mine.first == its.first
            and mine.text == its.text
            and np.array_equal(mine.times, its.times)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Commits(up to {self._version})"

    def find(self, commit: str) -> int | None:
        """The entry that this commit id wrote, or None if it is not in the window."""
        if commit in self._tail:
            entry, time_ms = self._tail[commit]
        else:
            found = self._run.ids.get(commit)
            if found is None:
                return None
            entry, time_ms = found, int(self._run.times[found - self._run.first])
        return entry if self._holds(entry, time_ms) else None

    def at(self, entry: int) -> str | None:
        """The commit id that an entry of the window wrote; None for another entry."""
        run = self.window()
        place = entry - run.first
        return run.text[place * _WIDTH : (place + 1) * _WIDTH] if 0 <= place < len(run) else None

    def covers(self, entry: int) -> bool:
        """Whether the entry is certainly in the window: not finding a commit id there means that it
        is not its."""
        return max(self._version - WINDOW_ENTRIES, self._run.first - 1) < entry <= self._version

    def added(self, commit: str, entry: int, time_ms: int) -> Commits:
        """The window one entry further on."""
        grown = Commits(self._run, self._tail.set(commit, (entry, time_ms)), entry, time_ms)
        return Commits(grown.window()) if len(grown._tail) > _TAIL else grown

    def window(self) -> Run:
        """Exactly what the window holds."""
        tail = sorted((entry, time_ms, commit) for commit, (entry, time_ms) in self._tail.items())
        first = self._run.first if len(self._run) or not tail else tail[0][0]
        times = np.concatenate(
            [self._run.times, np.array([time_ms for _, time_ms, _ in tail], dtype=np.int64)]
        )
        text = self._run.text + "".join(commit for _, _, commit in tail)
        young = int(times.searchsorted(self._time_ms - WINDOW_MS))
        start = max(0, min(young, len(times) - WINDOW_ENTRIES))
        return Run(first + start, text[start * _WIDTH :], times[start:])

    def _holds(self, entry: int, time_ms: int) -> bool:
        return entry > self._version - WINDOW_ENTRIES or time_ms >= self._time_ms - WINDOW_MS

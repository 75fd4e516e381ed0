"""Which blocks a plan can depend on, by the small columns of all of them. Pure.

``plan.py`` decides over objects, and what it needs besides these columns (the sort key, for one) is
in the JSON of each block. Of a large table that is merged almost nothing is to be done, so first
all blocks that stand alone are left out here.

Rules:
- Never fewer than the plan needs: the plan of what is returned is the plan of all blocks, at this
  time and with these settings. It may be more.
- A job's inputs are in one closed window, or in one open one, or in none. So blocks are grouped by
  stream and window, whatever their sort keys, and a group stays where two of its blocks fit into
  one. It stays completely: a block with a mark splits it, and a large one is weighed against the
  rest.
- Windows of one length lie within those of the next. A group of a closed window that does not stay
  has no smaller group that does.
- Whether a window is closed by later data depends on the newest blocks of the stream. It matters
  only for windows that time has not closed. So of a stream of which something stays, all blocks
  stay that end after the last moment at which time closes windows.
- The index has only blocks with the time column of the table (protocol 3.3), so either all blocks
  have times or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blockstore.compactor.plan.jobs import PlanSettings
from blockstore.index.derived import Mask, Places

_SPARSE = 4
"""So many numbers a row are too many to count by; else sorting the rows takes longer."""

Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The blocks that may be merged, a row each."""

    stream: Small
    """The number of its stream, from 0."""
    min_time: Numbers
    max_time: Numbers
    bytes: Numbers
    marked: Mask
    """Whether it has a no-compact mark."""
    timed: bool
    """Whether times are those of a time column."""

    def __len__(self) -> int:
        return len(self.stream)


def relevant(columns: Columns, settings: PlanSettings, now_ms: int, wanted: Mask) -> Places:
    """The rows on which the plan depends, sorted; those of ``wanted`` are among them."""
    stays = wanted.copy()
    for rows, group in _groups(columns, settings, now_ms):
        stays[rows[_can_merge(columns, rows, group, settings)]] = True
    if columns.timed and len(columns):
        busy = np.zeros(int(columns.stream.max()) + 1, dtype=bool)
        busy[columns.stream[stays]] = True
        stays |= busy[columns.stream] & (columns.max_time > _closed_ms(settings, now_ms))
    return np.flatnonzero(stays)


def _groups(
    columns: Columns, settings: PlanSettings, now_ms: int
) -> Iterator[tuple[Places, Numbers | Small]]:
    """All groups of which jobs can be made: rows, with the number of each one's group."""
    every = np.arange(len(columns))
    if not columns.timed:
        yield every, columns.stream
        return
    closed_ms, newest = _closed_ms(settings, now_ms), _newest(columns)
    rest = every
    """Rows that no window holds which time has closed."""
    for range_ms in reversed(settings.ranges_ms):
        fits, number = _window(columns, rest, range_ms)
        by_time = fits & (_end(number, range_ms) <= closed_ms)
        by_data = fits & (newest[columns.stream[rest]] > _end(number, range_ms))
        closed = by_time | by_data
        yield rest[closed], _numbered(columns, rest[closed], number[closed])
        rest = rest[~by_time]
    yield from _unsettled(columns, settings, rest)


def _unsettled(
    columns: Columns, settings: PlanSettings, rest: Places
) -> Iterator[tuple[Places, Numbers | Small]]:
    """Blocks that are in no window, or in windows that may be open: by the smallest around each."""
    for range_ms in settings.ranges_ms:
        fits, number = _window(columns, rest, range_ms)
        yield rest[fits], _numbered(columns, rest[fits], number[fits])
        rest = rest[~fits]
    yield rest, columns.stream[rest]


def _can_merge(
    columns: Columns, rows: Places, number: Numbers | Small, settings: PlanSettings
) -> Mask:
    """The rows of groups of which two blocks without a mark fit into one."""
    if len(rows) < 2:
        return np.zeros(len(rows), dtype=bool)
    free = ~columns.marked[rows]
    count = np.bincount(number[free], minlength=int(number.max()) + 1)
    some = np.flatnonzero(free & (count >= 2)[number])
    ordered = some[np.lexsort((columns.bytes[rows[some]], number[some]))]
    of, size = number[ordered], columns.bytes[rows[ordered]]
    first = np.flatnonzero(np.diff(of, prepend=-1))
    fit = size[first] <= settings.max_block_bytes - size[first + 1]
    stays = np.zeros(len(count), dtype=bool)
    stays[of[first[fit]]] = True
    return stays[number]


def _numbered(columns: Columns, rows: Places, window: Numbers) -> Numbers:
    """A number for each stream and window: from 0, and not much above how many rows there are."""
    if not len(rows):
        return window
    stream = columns.stream[rows]
    least, streams = int(window.min()), int(stream.max()) + 1
    if (int(window.max()) - least + 1) * streams >= 1 << 63:
        _, window = np.unique(window, return_inverse=True)
        least = 0
    number = (window - least) * streams + stream
    if int(number.max()) >= _SPARSE * len(number):
        _, number = np.unique(number, return_inverse=True)
    return np.asarray(number, dtype=np.int64)


def _window(columns: Columns, rows: Places, range_ms: int) -> tuple[Mask, Numbers]:
    """Whether one aligned window of this length holds each block, and its number."""
    number = columns.min_time[rows] // range_ms
    return number == (columns.max_time[rows] - 1) // range_ms, number


def _end(number: Numbers, range_ms: int) -> Numbers:
    return (number + 1) * range_ms


def _closed_ms(settings: PlanSettings, now_ms: int) -> int:
    """Windows that end until then are closed, whatever data arrives."""
    return now_ms - settings.ranges_ms[0]


def _newest(columns: Columns) -> Numbers:
    """By stream: the end of its newest block."""
    newest = np.full(int(columns.stream.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, columns.stream, columns.max_time)
    return newest

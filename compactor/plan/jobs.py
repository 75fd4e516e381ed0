"""The values of planning: candidates, settings, and planned jobs.

Rules:
- A job carries everything that a person or an executor needs to judge it: its reason, its inputs
  with their sizes, what it is expected to write, and how much disk and memory it needs at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blockstore.compactor.merge.result import merged_level
from blockstore.format.block import BlockKind, StreamKey
from blockstore.ids import ulid_time_ms

HOUR_MS = 3_600_000

_LEAST_MEMORY = 64 << 20
_IN_MEMORY = 4
"""Bytes of memory per byte of input, at most: decoded rows, and a window of them."""

_ON_WORK_DISK = 2
"""Bytes of work disk per byte of input, at most: a copy of each chunk of a remote store, or the
rows of one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A live block, as planning sees it."""

    ulid: str
    stream: StreamKey
    min_time: int
    max_time: int
    rows: int
    bytes: int
    level: int
    timed: bool = True
    """Whether its times are those of a time column."""
    sort_by: tuple[str, ...] = ()
    no_compact: bool = False
    kind: BlockKind = BlockKind.PLAIN
    newest_source: str = ""
    """Of a block of former versions: of its sources the one that was written last."""

    @property
    def created_ms(self) -> int:
        """When the block was created; it has waited since."""
        return ulid_time_ms(self.ulid)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The operator's settings for plans."""

    ranges_ms: tuple[int, ...] = (2 * HOUR_MS, 8 * HOUR_MS, 48 * HOUR_MS, 336 * HOUR_MS)
    """Lengths of the time windows, ascending, each a multiple of the one before; windows are
    aligned to 0."""
    tier_blocks: int = 8
    max_block_bytes: int = 64 << 30
    memory_bytes: int = 1 << 30
    """The memory of one merge."""
    retention_ms: int | None = None
    """The table's: blocks whose newest row is older expire."""
    history_ms: int | None = None
    """For how long former versions of rows are kept; None: forever."""

    @property
    def wait_ms(self) -> int:
        """How long a block of the first level waits for a full tier before fewer blocks are
        enough."""
        return self.ranges_ms[0]


class Reason(StrEnum):
    """Why blocks are merged."""

    OVERLAP = "overlap"
    """They are in one closed time window, and their times overlap: readers must open all of
    them."""
    WINDOW = "window"
    """They are in one closed time window."""
    SIZE = "size"
    """There are many of about the same size."""
    WAIT = "wait"
    """There are few of about the same size, but one has waited long enough."""
    RESUME = "resume"
    """Their merge was uploaded by a process that died before it could commit it."""
    PURGE = "purge"
    """Rows of one plain block are hidden by newer versions: it is rewritten without them."""
    CHANGES = "changes"
    """They are changes of rows: of each row only the newest version is kept."""
    PROMOTION = "promotion"
    """Changes that hide nothing any more become plain rows."""
    HISTORY = "history"
    """They hold former versions of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One merge to do, and why."""

    reason: Reason
    details: str
    stream: StreamKey
    inputs: tuple[Candidate, ...]
    """In the order of their ULIDs: the order in which equal keys and unsorted tables are merged."""
    window: tuple[int, int] | None = None
    memory_limit: int = 1 << 30
    kind: BlockKind = BlockKind.PLAIN
    """What the result is."""

    @property
    def rows(self) -> int:
        """Expected rows: at most these, since rows of excepted sources are dropped."""
        return sum(block.rows for block in self.inputs)

    @property
    def bytes(self) -> int:
        """Bytes to be read, and expected to be written."""
        return sum(block.bytes for block in self.inputs)

    @property
    def memory_bytes(self) -> int:
        """The most memory that the merge takes."""
        return min(self.memory_limit, max(_LEAST_MEMORY, _IN_MEMORY * self.bytes))

    @property
    def disk_bytes(self) -> int:
        """The most work disk that the merge takes; a merge of few local chunks takes none."""
        return _ON_WORK_DISK * self.bytes

    @property
    def level(self) -> int:
        """The level of the result."""
        return merged_level([block.level for block in self.inputs])

    @property
    def min_time(self) -> int:
        return min(block.min_time for block in self.inputs)

    @property
    def max_time(self) -> int:
        return max(block.max_time for block in self.inputs)

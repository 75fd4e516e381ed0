"""The state of the process at one moment: a frozen value for its page, its metrics and its probes.

Rules:
- A status is made at once from the ledger, under its lock, so what it says of one table is
  consistent.
- Times in milliseconds come from this machine's clock and are for people; None means never. Ages
  use times in seconds of a monotonic clock: setting the machine's clock back must not make anything
  look younger than it is.
- Nothing here is a promise, only an observation.
- Every problem comes with what to do: a sentence, or the command line that fixes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.index.boundary import BoundaryCounts


class TableHealth(StrEnum):
    """How a table is doing."""

    STARTING = "starting"
    """It was found, and not every loop has ended once."""
    OK = "ok"
    FAILING = "failing"
    """A loop fails and is retried: the store does not respond, the disk is full."""
    DEGRADED = "degraded"
    """A loop fails in a way that does not resolve itself: a person must look."""
    LEFT = "left"
    """The configuration leaves it alone."""


class JobState(StrEnum):
    """Where a job is, or how it ended."""

    PLANNED = "planned"
    RUNNING = "running"
    COMMITTED = "committed"
    UPLOADED = "uploaded"
    """Without an index: it replaces its inputs once it has aged."""
    CONFLICT = "conflict"
    """Another operation changed an input: planned again."""
    DAMAGED = "damaged"
    """An input is not what its meta.json says: quarantined, and the others are planned again."""
    FAILED = "failed"
    """The store or the disk failed: retried later."""
    ABANDONED = "abandoned"
    """The process was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One merge: planned, running or finished."""

    number: int
    """Counts from 1 in this process; 0 for one that is only planned."""
    table: str
    state: JobState
    reason: str
    details: str
    labels: Mapping[str, str]
    resolution: int
    level: int
    """The level of the result."""
    inputs: tuple[str, ...]
    """Of a finished job only the first few; ``blocks`` says how many there were."""
    blocks: int
    rows: int
    bytes: int
    """Of all inputs; at most this many are expected to be written."""
    min_time_ms: int
    max_time_ms: int
    memory_bytes: int
    """The bound that the merge keeps."""
    disk_bytes: int
    """What it may put into the work directory."""
    started_ms: int | None = None
    ended_ms: int | None = None
    progress: float = 0.0
    """From 0 to 1: bytes written of those expected; for remote merges, what their engine reports
    for all of them."""
    seconds: float = 0.0
    rows_per_s: float = 0.0
    block: str | None = None
    """The merged block."""
    version: int | None = None
    rows_out: int = 0
    bytes_out: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A block that is kept from merges or from the table, until a person has decided."""

    ulid: str
    reason: str
    since_ms: int
    """When this process first saw it."""
    command: str
    """The command line that repairs it, or says what else is needed; it loses no row."""

    @property
    def look(self) -> str | None:
        """The command line that only shows what ``command`` would do; None if there is none."""
        return (
            f"{self.command} --dry-run" if self.command.startswith("blockstore repair ") else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatus:
    """One loop over one table; ``tables`` over the lake."""

    name: str
    interval_s: float
    running: bool = False
    last_start_ms: int | None = None
    last_start_s: float | None = None
    last_success_ms: int | None = None
    last_success_s: float | None = None
    last_failure_ms: int | None = None
    next_ms: int | None = None
    failures: int = 0
    """In a row, until now; 0 after a success."""
    runs: int = 0
    failed_runs: int = 0
    """In this process's life."""
    problem: str = ""
    """Of the last failure; empty after a success."""
    seconds: float = 0.0
    """How long the last run took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be merged into blocks of one level."""

    level: int
    jobs: int
    blocks: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What this process has done to a table since it started."""

    jobs: Mapping[str, int] = field(default_factory=dict)
    """By how they ended (``JobState``)."""
    merged_rows: int = 0
    merged_bytes: int = 0
    merge_seconds: float = 0.0
    discovered: int = 0
    marked: int = 0
    withdrawn: int = 0
    removed: int = 0
    removed_objects: int = 0
    removed_bytes: int = 0
    retired: int = 0
    """Blocks that retention expired."""
    collected_entries: int = 0
    collected_checkpoints: int = 0
    written_checkpoints: int = 0
    exports: int = 0
    """Exports for other engines that wrote something."""
    resumed: int = 0
    """Uploaded merges of an earlier process that were committed instead of done again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table."""

    name: str
    url: str
    health: TableHealth
    problem: str = ""
    """Why it is failing or degraded."""
    fix: str = ""
    """What to do about it."""
    since_ms: int | None = None
    """Since when it has this health."""
    own_series: bool = True
    """Whether the metrics have series of this table; else it is counted with others."""
    resting: bool = False
    """Whether nothing changes and nothing is to be done, so that it is only looked at."""
    indexed: bool = True
    version: int | None = None
    boundary: int | None = None
    horizon: str | None = None
    floor: str | None = None
    blocks: int = 0
    rows: int = 0
    bytes: int = 0
    read_amplification: float = 1.0
    """Rows that queries read for each row that they see; 1 where rows have no versions."""
    seen_ms: int | None = None
    """When these numbers were counted."""
    exported_s: float | None = None
    """When the export for other engines was last found or made current; None where there is
    none."""
    backlog: tuple[Backlog, ...] = ()
    planned: tuple[JobStatus, ...] = ()
    running: tuple[JobStatus, ...] = ()
    idle_s: float = 0.0
    """For how long the running merge has moved no byte; 0 for remote merges, whose bytes do not
    pass through this process."""
    finished: tuple[JobStatus, ...] = ()
    """The newest first."""
    quarantined: tuple[Quarantined, ...] = ()
    loops: tuple[LoopStatus, ...] = ()
    waiting: int = 0
    """Marked blocks that are due and held back by a rule."""
    kept: int = 0
    kept_bytes: int = 0
    """Blocks that are not live, and that a version or a tag names."""
    totals: Totals = field(default_factory=Totals)
    boundary_requests: BoundaryCounts = field(default_factory=BoundaryCounts, compare=False)
    """Requests of the table's handle to its boundary."""

    @property
    def backlog_jobs(self) -> int:
        return sum(one.jobs for one in self.backlog)

    @property
    def backlog_bytes(self) -> int:
        return sum(one.bytes for one in self.backlog)

    @property
    def last_success_ms(self) -> int | None:
        """The oldest of the loops' last successes; None if a loop has had none."""
        ended = [one.last_success_ms for one in self.loops]
        return None if not ended or None in ended else min(one for one in ended if one is not None)

    @property
    def last_success_s(self) -> float | None:
        """The same, for its age."""
        ended = [one.last_success_s for one in self.loops]
        return None if not ended or None in ended else min(one for one in ended if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The process, with all its tables."""

    url: str
    program: str
    started_ms: int
    started_s: float
    now_ms: int
    now_s: float
    role: str
    """``compactor``, or ``compactor/3`` for a shard."""
    shard: tuple[int, int] | None = None
    merges: bool = True
    stopping: bool = False
    not_ready: tuple[str, ...] = ()
    """Why it is not ready; empty if it is."""
    unhealthy: tuple[str, ...] = ()
    """Why it must be restarted; empty if it need not."""
    loops: tuple[LoopStatus, ...] = ()
    """Those over the lake."""
    tables: tuple[TableStatus, ...] = ()
    gone: int = 0
    """Tables that the process had and that no longer exist."""
    month_cost: Mapping[str, float] = field(default_factory=dict)
    """What a month of requests would cost, by price class."""

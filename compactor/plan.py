"""What to merge: a pure function of the live blocks, the settings and the time.

Rules:
- A job has at least two blocks, all of one stream (labels, resolution, sort key), and no block is in two jobs.
- Blocks that lie in one aligned time window (2h, 8h, 2d, 14d) are merged once the window is closed: later data has
  arrived, or it is old. The largest closed window comes first, so that a backlog is written once and not once a
  range; while data arrives, small windows close before large ones and are merged in that order.
- Blocks of a window still open, of a span that no window holds, or without time are merged by size: as soon as
  ``tier_blocks`` of about equal size are there. So the wait of the first level is bounded by a number of blocks.
- A merge must be worth its writing: a block is not rewritten for less than a ``tier_blocks``-th of its size.
- The inputs of a job are at most ``max_block_bytes`` together.
- A block with a no-compact mark is no input, and splits the blocks before it from those after it.
- A block about to expire by retention is left alone.
- Every plan is applied in finitely many passes: a job makes one block of two or more. An empty plan stays empty
  until blocks or time change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import attrgetter

from blockstore.format.block import StreamKey
from blockstore.format.durations import format_duration

__all__ = ["Candidate", "PlanSettings", "PlannedJob", "Reason", "plan"]

_SMALL_BYTES = 4 << 20
"""Blocks below this count as equal: reading one costs its requests, not its bytes."""

_MAX_INPUTS = 4096
"""More blocks than this are merged in two steps: the index entry of a merge names each of its inputs."""

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A live block, as far as planning looks at it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What the operator decides about plans."""

    ranges_ms: tuple[int, ...] = (2 * _HOUR_MS, 8 * _HOUR_MS, 48 * _HOUR_MS, 336 * _HOUR_MS)
    """Lengths of the time windows, ascending, each a multiple of the one before; windows are aligned to 0."""
    tier_blocks: int = 8
    max_block_bytes: int = 64 << 30
    retention_ms: int | None = None
    """The table's: blocks whose newest row is older expire."""


class Reason(StrEnum):
    """Why blocks are merged."""

    OVERLAP = "overlap"
    """They lie in one closed time window, and their times overlap: readers must open all of them."""
    WINDOW = "window"
    """They lie in one closed time window."""
    SIZE = "size"
    """There are many of about the same size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One merge to be done, and why."""

    reason: Reason
    details: str
    stream: StreamKey
    inputs: tuple[Candidate, ...]
    """In the order of their ULIDs: the order in which equal keys and unsorted tables are merged."""
    window: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        """Expected rows: at most these, since rows of excepted sources are dropped."""
        return sum(block.rows for block in self.inputs)

    @property
    def bytes(self) -> int:
        """Bytes to be read, and expected to be written."""
        return sum(block.bytes for block in self.inputs)

    @property
    def level(self) -> int:
        """The level of the result."""
        return max(block.level for block in self.inputs) + 1

    @property
    def min_time(self) -> int:
        return min(block.min_time for block in self.inputs)

    @property
    def max_time(self) -> int:
        return max(block.max_time for block in self.inputs)


def plan(blocks: Iterable[Candidate], settings: PlanSettings, now_ms: int) -> tuple[PlannedJob, ...]:
    """The jobs of one pass: none conflicts with another; overlapping blocks first, then the oldest."""
    key = attrgetter("stream", "sort_by")
    jobs: list[PlannedJob] = []
    for _, members in groupby(sorted(blocks, key=lambda block: (*key(block), block.ulid)), key=key):
        jobs += _Stream(list(members), settings, now_ms).jobs()
    return tuple(sorted(jobs, key=_urgency))


def _urgency(job: PlannedJob) -> tuple[bool, int, str]:
    return (job.reason is not Reason.OVERLAP, job.min_time, job.inputs[0].ulid)


@dataclass(slots=True)
class _Stream:
    """The planning of one stream."""

    blocks: list[Candidate]
    settings: PlanSettings
    now_ms: int
    taken: set[str] = field(default_factory=set)

    def jobs(self) -> list[PlannedJob]:
        self._leave_expiring()
        found: list[PlannedJob] = []
        for range_ms in reversed(self.settings.ranges_ms):
            for start, members in self._windows(range_ms):
                found += self._window_jobs(start, range_ms, members)
        for members in self._unsettled():
            for run in _runs(members, by_time=False):
                found += self._size_jobs(run)
        return found

    def _free(self) -> list[Candidate]:
        return [block for block in self.blocks if block.ulid not in self.taken]

    def _leave_expiring(self) -> None:
        if self.settings.retention_ms is None:
            return
        expired = self.now_ms - self.settings.retention_ms + sum(self.settings.ranges_ms[:1])
        self.blocks = [block for block in self.blocks if not block.timed or block.max_time > expired]

    def _windows(self, range_ms: int) -> Iterator[tuple[int, list[Candidate]]]:
        """The closed windows of one length, oldest first, with the free blocks that lie in each."""
        inside = [block for block in self._free() if block.timed and _fits(block, range_ms)]
        inside.sort(key=attrgetter("min_time"))
        for number, members in groupby(inside, key=lambda block: block.min_time // range_ms):
            if self._is_closed((number + 1) * range_ms):
                yield number * range_ms, list(members)

    def _unsettled(self) -> Iterator[list[Candidate]]:
        """The free blocks that no closed window holds: by the least window around each, which is still open, and
        those around which there is none."""
        homes: dict[tuple[int, int] | None, list[Candidate]] = {}
        for block in self._free():
            home = self._home(block)
            if home is None or not self._is_closed(home[1]):
                homes.setdefault(home, []).append(block)
        yield from homes.values()

    def _home(self, block: Candidate) -> tuple[int, int] | None:
        for range_ms in self.settings.ranges_ms:
            if block.timed and _fits(block, range_ms):
                start = block.min_time // range_ms * range_ms
                return start, start + range_ms
        return None

    def _is_closed(self, end_ms: int) -> bool:
        """Later data has arrived, or the window ended so long ago that late data must be rare."""
        newest = max((block.max_time for block in self.blocks if block.timed), default=0)
        return newest > end_ms or self.now_ms >= end_ms + self.settings.ranges_ms[0]

    def _window_jobs(self, start: int, range_ms: int, members: list[Candidate]) -> Iterator[PlannedJob]:
        for run in _runs(members, by_time=True):
            for group in _split(run, self.settings.max_block_bytes):
                worth = self._worthwhile(group)
                if len(worth) < 2:
                    continue
                overlaps = _overlap(worth)
                yield self._job(
                    Reason.OVERLAP if overlaps else Reason.WINDOW,
                    f"{len(worth)} {'overlapping ' if overlaps else ''}blocks in a closed window of "
                    f"{_length(range_ms)}",
                    worth,
                    (start, start + range_ms),
                )

    def _size_jobs(self, run: list[Candidate]) -> Iterator[PlannedJob]:
        for tier in _tiers(run):
            for group in _split(sorted(tier, key=attrgetter("ulid")), self.settings.max_block_bytes):
                if len(group) >= self.settings.tier_blocks or self._fills_a_block(group, tier):
                    yield self._job(Reason.SIZE, f"{len(group)} blocks of about the same size", group, None)

    def _fills_a_block(self, group: list[Candidate], tier: list[Candidate]) -> bool:
        """Fewer than a tier's number, but no more of them would fit into a block."""
        return (
            len(group) >= 2 and len(group) < len(tier) and 2 * _bytes(group) > self.settings.max_block_bytes
        )

    def _worthwhile(self, group: list[Candidate]) -> list[Candidate]:
        """The group without the blocks that are too large to be rewritten for the rest."""
        by_size = sorted(group, key=lambda block: (block.bytes, block.ulid))
        while len(by_size) >= 2:
            largest = max(by_size[-1].bytes, 1)
            rest = _bytes(by_size[:-1])
            if largest <= _SMALL_BYTES or rest * self.settings.tier_blocks >= largest:
                break
            by_size.pop()
        return by_size

    def _job(
        self, reason: Reason, details: str, group: Sequence[Candidate], window: tuple[int, int] | None
    ) -> PlannedJob:
        self.taken.update(block.ulid for block in group)
        inputs = tuple(sorted(group, key=attrgetter("ulid")))
        return PlannedJob(
            reason=reason, details=details, stream=inputs[0].stream, inputs=inputs, window=window
        )


def _length(range_ms: int) -> str:
    days, rest = divmod(range_ms, 24 * _HOUR_MS)
    return format_duration(range_ms / 1000) if rest or days < 2 else f"{days}d"


def _fits(block: Candidate, range_ms: int) -> bool:
    return block.min_time // range_ms == (block.max_time - 1) // range_ms


def _runs(blocks: list[Candidate], *, by_time: bool) -> list[list[Candidate]]:
    """Blocks in order of time or of age, split where a block must not be merged."""
    ordered = sorted(blocks, key=lambda block: (block.min_time if by_time else 0, block.ulid))
    return [list(members) for marked, members in groupby(ordered, key=attrgetter("no_compact")) if not marked]


def _split(run: list[Candidate], max_bytes: int) -> Iterator[list[Candidate]]:
    """Consecutive groups of at most ``max_bytes`` and ``_MAX_INPUTS`` each; a larger block alone."""
    group: list[Candidate] = []
    total = 0
    for block in run:
        if group and (total + block.bytes > max_bytes or len(group) == _MAX_INPUTS):
            yield group
            group, total = [], 0
        group.append(block)
        total += block.bytes
    if group:
        yield group


def _tiers(run: list[Candidate]) -> Iterator[list[Candidate]]:
    """Groups of about the same size: none larger than twice the mean of the smaller ones, small ones all equal."""
    tier: list[Candidate] = []
    total = 0
    for block in sorted(run, key=lambda block: (block.bytes, block.ulid)):
        size = max(block.bytes, _SMALL_BYTES)
        if tier and size * len(tier) > 2 * total:
            yield tier
            tier, total = [], 0
        tier.append(block)
        total += size
    if tier:
        yield tier


def _overlap(blocks: Sequence[Candidate]) -> bool:
    ordered = sorted(blocks, key=attrgetter("min_time"))
    reach = ordered[0].max_time
    for block in ordered[1:]:
        if block.min_time < reach:
            return True
        reach = max(reach, block.max_time)
    return False


def _bytes(blocks: Iterable[Candidate]) -> int:
    return sum(block.bytes for block in blocks)

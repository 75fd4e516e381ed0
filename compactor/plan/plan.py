"""What to merge: a pure function of the live blocks, the settings and the time.

Rules:
- A job has at least two blocks, all of one stream (labels, resolution, sort key), and no block is
  in two jobs.
- Blocks within one aligned time window (2h, 8h, 2d, 14d) are merged once the window is closed:
  later data has arrived, or it is old. The largest closed window comes first, so that a backlog is
  written once and not once per range. While data arrives, small windows close before large ones and
  are merged in that order.
- Blocks of an open window, of a span that no window holds, or without time are merged by size: as
  soon as ``tier_blocks`` of about equal size exist.
- The wait of the first level is bounded in time too: once a block of level 1 has waited for the
  length of the first range, any others of its size that are of level 1 or small are enough. So a
  trickle of tiny blocks becomes one block at least every two hours, and costs at most one rewriting
  of a small block in that time.
- A merge must be worth its writing: a block is not rewritten for less than a ``tier_blocks``-th of
  its size, unless a block next to it in a closed window has waited for that window's length. So no
  late block stays forever, and late rows rewrite a window at most once in its length.
- The inputs of a job are at most ``max_block_bytes`` together.
- A block with a no-compact mark is not an input, and splits the blocks before it from those after
  it.
- A block about to expire by retention is left alone.
- Within a stream overlapping blocks come first, then the oldest. Streams take turns, so none waits
  for another's backlog.
- Every plan is applied in finitely many passes: a job makes one block of two or more. An empty plan
  stays empty until blocks or time change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from blockstore.compactor.plan.grouping import (
    SMALL_BYTES,
    fits,
    overlap,
    runs,
    split,
    tiers,
    total_bytes,
    worthwhile,
)
from blockstore.compactor.plan.jobs import HOUR_MS, Candidate, PlannedJob, PlanSettings, Reason
from blockstore.format.durations import format_duration


def plan(
    blocks: Iterable[Candidate], settings: PlanSettings, now_ms: int
) -> tuple[PlannedJob, ...]:
    """The jobs of one pass, in the order in which they should be done; no two conflict."""
    key = attrgetter("stream", "sort_by")
    turns: list[tuple[int, PlannedJob]] = []
    for _, members in groupby(sorted(blocks, key=lambda block: (*key(block), block.ulid)), key=key):
        jobs = Stream(list(members), settings, now_ms).jobs()
        turns += enumerate(sorted(jobs, key=_urgency))
    return tuple(job for _, job in sorted(turns, key=lambda turn: (turn[0], *_urgency(turn[1]))))


def _urgency(job: PlannedJob) -> tuple[bool, int, str]:
    return (job.reason is not Reason.OVERLAP, job.min_time, job.inputs[0].ulid)


@dataclass(slots=True)
class Stream:
    """The planning of one stream."""

    blocks: list[Candidate]
    settings: PlanSettings
    now_ms: int
    taken: set[str] = field(default_factory=set)

    def jobs(self) -> list[PlannedJob]:
        """The merges of this stream."""
        self._leave_expiring()
        found: list[PlannedJob] = []
        for range_ms in reversed(self.settings.ranges_ms):
            for start, members in self._windows(range_ms):
                found += self._window_jobs(start, range_ms, members)
        for members in self._unsettled():
            for run in runs(members, by_time=False):
                found += self._size_jobs(run)
        return found

    def closed_window_ms(self, block: Candidate) -> int | None:
        """The length of the smallest window around a block, if that is closed."""
        home = self._home(block)
        return None if home is None or not self._is_closed(home[1]) else home[1] - home[0]

    def _free(self) -> list[Candidate]:
        return [block for block in self.blocks if block.ulid not in self.taken]

    def _leave_expiring(self) -> None:
        if self.settings.retention_ms is None:
            return
        expired = self.now_ms - self.settings.retention_ms + sum(self.settings.ranges_ms[:1])
        self.blocks = [
            block for block in self.blocks if not block.timed or block.max_time > expired
        ]

    def _windows(self, range_ms: int) -> Iterator[tuple[int, list[Candidate]]]:
        """The closed windows of one length, oldest first, with the free blocks in each."""
        inside = [block for block in self._free() if block.timed and fits(block, range_ms)]
        inside.sort(key=attrgetter("min_time"))
        for number, members in groupby(inside, key=lambda block: block.min_time // range_ms):
            if self._is_closed((number + 1) * range_ms):
                yield number * range_ms, list(members)

    def _unsettled(self) -> Iterator[list[Candidate]]:
        """The free blocks outside closed windows: grouped by the smallest window around each, which
        is still open, and those that no window holds."""
        homes: dict[tuple[int, int] | None, list[Candidate]] = {}
        for block in self._free():
            home = self._home(block)
            if home is None or not self._is_closed(home[1]):
                homes.setdefault(home, []).append(block)
        yield from homes.values()

    def _home(self, block: Candidate) -> tuple[int, int] | None:
        for range_ms in self.settings.ranges_ms:
            if block.timed and fits(block, range_ms):
                start = block.min_time // range_ms * range_ms
                return start, start + range_ms
        return None

    def _is_closed(self, end_ms: int) -> bool:
        """Whether later data has arrived, or the window ended so long ago that late data is
        rare."""
        newest = max((block.max_time for block in self.blocks if block.timed), default=0)
        return newest > end_ms or self.now_ms >= end_ms + self.settings.ranges_ms[0]

    def _window_jobs(
        self, start: int, range_ms: int, members: list[Candidate]
    ) -> Iterator[PlannedJob]:
        for run in runs(members, by_time=True):
            for group in split(run, self.settings.max_block_bytes):
                inputs = worthwhile(group, self.settings.tier_blocks)
                if len(inputs) < len(group) and self._has_waited(inputs, range_ms):
                    inputs = group
                if len(inputs) < 2:
                    continue
                overlaps = overlap(inputs)
                yield self._job(
                    Reason.OVERLAP if overlaps else Reason.WINDOW,
                    f"{len(inputs)} {'overlapping ' if overlaps else ''}blocks in a closed window "
                    f"of {_length(range_ms)}",
                    inputs,
                    (start, start + range_ms),
                )

    def _size_jobs(self, run: list[Candidate]) -> Iterator[PlannedJob]:
        for tier in tiers(run):
            for group in split(sorted(tier, key=attrgetter("ulid")), self.settings.max_block_bytes):
                if len(group) >= self.settings.tier_blocks or self._fills_a_block(group, tier):
                    yield self._job(
                        Reason.SIZE, f"{len(group)} blocks of about the same size", group, None
                    )
                    continue
                early = [block for block in group if block.level == 1 or block.bytes <= SMALL_BYTES]
                first = [block for block in early if block.level == 1]
                if len(early) >= 2 and self._has_waited(first, self.settings.wait_ms):
                    details = (
                        f"{len(early)} blocks, one of which has waited for "
                        f"{_length(self.settings.wait_ms)}"
                    )
                    yield self._job(Reason.WAIT, details, early, None)

    def _fills_a_block(self, group: list[Candidate], tier: list[Candidate]) -> bool:
        """Whether the group, though smaller than a tier, leaves no room for another block."""
        return (
            len(group) >= 2
            and len(group) < len(tier)
            and 2 * total_bytes(group) > self.settings.max_block_bytes
        )

    def _has_waited(self, blocks: Iterable[Candidate], wait_ms: int) -> bool:
        return any(self.now_ms - block.created_ms >= wait_ms for block in blocks)

    def _job(
        self,
        reason: Reason,
        details: str,
        group: Sequence[Candidate],
        window: tuple[int, int] | None,
    ) -> PlannedJob:
        self.taken.update(block.ulid for block in group)
        inputs = tuple(sorted(group, key=attrgetter("ulid")))
        return PlannedJob(
            reason=reason,
            details=details,
            stream=inputs[0].stream,
            inputs=inputs,
            window=window,
            memory_limit=self.settings.memory_bytes,
        )


def _length(range_ms: int) -> str:
    days, rest = divmod(range_ms, 24 * HOUR_MS)
    return format_duration(range_ms / 1000) if rest or days < 2 else f"{days}d"

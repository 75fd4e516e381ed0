"""What to rewrite of a table whose rows have an identity: a pure function too.

Rules (design 8.5):
- Plain blocks merge as they do on any table, without the rows that newer versions hide.
- Purge: a plain block is rewritten alone, without its hidden rows, when more than a tenth of it is
  hidden; when more than 8 blocks of changes shadow its stream; and when its window is closed, once
  in the length of the window. So n plain blocks cost n rewritings.
- Changes merge among themselves, by size and by waiting. A tombstone goes only if no older version
  of its row is left in another block; the result is plain if that is true of all of it.
- Promotion: a block of changes that would become plain alone does, once it has waited as long as
  a block of the first level.
- Former versions merge among themselves. Where they are kept for a time, only those of about one
  age do, so that none is kept much longer.
- No job mixes kinds, and none touches a block with a no-compact mark.
- Every plan comes to rest: each job leaves fewer blocks, fewer hidden rows or fewer blocks of
  changes, and makes none of these more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from blockstore.compactor.plan.jobs import Candidate, PlannedJob, PlanSettings, Reason
from blockstore.compactor.plan.plan import Stream, plan
from blockstore.format.block import BlockKind
from blockstore.format.durations import format_duration
from blockstore.ids import ulid_time_ms
from blockstore.scan.shadows import Shadows

_SHARE = 10
"""A plain block is purged when more than a tenth of its rows is hidden."""

_SHADOWING = 8
"""More blocks of changes than this over one stream are too many."""

_AGES = 4
"""Former versions that are merged differ in age by at most a quarter of what they are kept for."""


def plan_versions(
    blocks: Iterable[Candidate], shadows: Shadows, settings: PlanSettings, now_ms: int
) -> tuple[PlannedJob, ...]:
    """The jobs of one pass over blocks of rows that have an identity; no two share a block."""
    by_kind: dict[BlockKind, list[Candidate]] = {kind: [] for kind in BlockKind}
    for block in blocks:
        if block.stream not in shadows.unread:
            by_kind[block.kind].append(block)
    plain, changes = by_kind[BlockKind.PLAIN], by_kind[BlockKind.CHANGES]
    merged_plain = plan(plain, settings, now_ms)
    merged_changes = tuple(_merged_changes(changes, shadows, settings, now_ms))
    purged = _purges(plain, changes, _inputs(merged_plain), shadows, settings, now_ms)
    promoted = _promotions(changes, _inputs(merged_changes), shadows, settings, now_ms)
    history = _history(by_kind[BlockKind.HISTORY], settings, now_ms)
    return (*merged_changes, *purged, *merged_plain, *promoted, *history)


def _inputs(jobs: Iterable[PlannedJob]) -> set[str]:
    return {block.ulid for job in jobs for block in job.inputs}


def _merged_changes(
    changes: list[Candidate], shadows: Shadows, settings: PlanSettings, now_ms: int
) -> Iterator[PlannedJob]:
    for job in plan(_by_size_alone(changes), settings, now_ms):
        ulids = [block.ulid for block in job.inputs]
        rest = shadows.rest_of(job.stream, BlockKind.CHANGES, ulids)
        details = f"{job.details}: changes"
        if rest.kind is BlockKind.PLAIN:
            details += " that hide nothing elsewhere, which become plain rows"
        yield replace(job, reason=Reason.CHANGES, details=details, kind=rest.kind)


def _purges(
    plain: list[Candidate],
    changes: list[Candidate],
    taken: Collection[str],
    shadows: Shadows,
    settings: PlanSettings,
    now_ms: int,
) -> list[PlannedJob]:
    found: list[tuple[int, PlannedJob]] = []
    for stream, members in groupby(sorted(plain, key=attrgetter("stream")), attrgetter("stream")):
        own = list(members)
        planned = Stream(own, settings, now_ms)
        over = sum(block.stream == stream for block in changes)
        for block in own:
            hidden = shadows.hidden_rows(stream, block.ulid)
            if not hidden or block.no_compact or block.ulid in taken:
                continue
            why = _why_purge(block, hidden, over, planned, now_ms)
            if why is not None:
                found.append((hidden, _alone(block, Reason.PURGE, why, settings, block.kind)))
    return [job for _, job in sorted(found, key=lambda one: (-one[0], one[1].inputs[0].ulid))]


def _why_purge(
    block: Candidate, hidden: int, over: int, planned: Stream, now_ms: int
) -> str | None:
    of = f"{hidden:,} of {block.rows:,} rows are hidden by newer versions"
    if hidden * _SHARE > block.rows:
        return f"{of}: more than a tenth"
    if over > _SHADOWING:
        return f"{of}, and {over} blocks of changes shadow the stream: more than {_SHADOWING}"
    window_ms = planned.closed_window_ms(block)
    if window_ms is not None and now_ms - block.created_ms >= window_ms:
        length = format_duration(window_ms / 1000)
        return f"{of}, and the block's window of {length} is closed"
    return None


def _promotions(
    changes: list[Candidate],
    taken: Collection[str],
    shadows: Shadows,
    settings: PlanSettings,
    now_ms: int,
) -> list[PlannedJob]:
    found = []
    for block in sorted(changes, key=attrgetter("stream", "ulid")):
        waits = now_ms - block.created_ms < settings.wait_ms
        if block.no_compact or waits or block.ulid in taken:
            continue
        rest = shadows.rest_of(block.stream, BlockKind.CHANGES, (block.ulid,))
        if rest.kind is BlockKind.PLAIN:
            details = "changes that hide nothing any more become plain rows"
            found.append(_alone(block, Reason.PROMOTION, details, settings, rest.kind))
    return found


def _history(blocks: list[Candidate], settings: PlanSettings, now_ms: int) -> Iterator[PlannedJob]:
    by_age: dict[int, list[Candidate]] = {}
    for block in blocks:
        age = 0
        if settings.history_ms is not None:
            written_ms = ulid_time_ms(block.newest_source)
            if written_ms + settings.history_ms <= now_ms + settings.wait_ms:
                continue  # about to expire
            age = written_ms * _AGES // max(1, settings.history_ms)
        by_age.setdefault(age, []).append(block)
    for _, members in sorted(by_age.items()):
        for job in plan(_by_size_alone(members), settings, now_ms):
            details = f"{job.details}: former versions of rows"
            yield replace(job, reason=Reason.HISTORY, details=details, kind=BlockKind.HISTORY)


def _by_size_alone(blocks: Iterable[Candidate]) -> list[Candidate]:
    """The blocks as if they had no time: newer versions of rows of any time may be in one."""
    return [replace(block, timed=False) for block in blocks]


def _alone(
    block: Candidate, reason: Reason, details: str, settings: PlanSettings, kind: BlockKind
) -> PlannedJob:
    return PlannedJob(
        reason=reason,
        details=details,
        stream=block.stream,
        inputs=(block,),
        memory_limit=settings.memory_bytes,
        kind=kind,
    )

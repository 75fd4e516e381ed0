"""The compactor, once: observe, plan, execute, and again until a plan is empty.

Rules:
- ``plan_table`` changes nothing.
- ``compact_once`` claims no role, and needs none: the index checks every merge, so running it next
  to a compactor wastes work at most. Claiming the role would stop that compactor.
- Several passes: the next pass may merge what this one made. A pass that committed nothing and
  found nothing new is the last. Whether there is a next one is decided from the index and the last
  listing: usually there is none, and the table need not be listed again to find out.
- Without an index a merge replaces its inputs only once it has aged. Until then they count as done,
  so a second pass finds nothing to do; a later run merges the merges.
- Merges that a dead process had uploaded but not committed are committed first (``resume.py``).
- A damaged block is quarantined, left out and named in the report; the rest continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from blockstore.compactor.merge import MergeEngine, MergeOptions
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.jobs import PlannedJob, PlanSettings
from blockstore.compactor.plan.observe import Observation, observe, observe_again
from blockstore.compactor.plan.plan import plan
from blockstore.compactor.plan.versions import plan_versions
from blockstore.compactor.run.execute import Executor, Watch
from blockstore.compactor.run.quarantine import quarantine
from blockstore.compactor.run.report import JobResult, Outcome, Report
from blockstore.compactor.run.resume import resume
from blockstore.compactor.settings import Settings
from blockstore.format.properties import FOREVER_S
from blockstore.scan.shadows import ShadowCache
from blockstore.table import Table

_CONFLICTS = 3
"""After this many passes in a row with nothing but conflicts, others change the table too fast."""


def plan_table(
    table: Table, settings: Settings, note: Callable[[Observation], None] | None = None
) -> tuple[PlannedJob, ...]:
    """The jobs that the first pass of ``compact_once`` would do now; ``note`` is called with what
    was seen of the table."""
    seen = observe(table, skip=settings.skip)
    if note is not None:
        note(seen)
    return plan_seen(seen, settings)


def compact_once(
    table: Table,
    settings: Settings,
    *,
    engine: MergeEngine | None = None,
    watch: Watch | None = None,
) -> Report:
    """Merge until there is nothing left to merge.

    Args:
        table: The table.
        settings: How to plan and merge.
        engine: What merges; by default ``LocalEngine``.
        watch: Called with the result of each job.

    Raises:
        Unavailable: The store does not respond, or a disk is full (NoSpace). What was committed by
            then stays, the rest is as before, and a later run continues. Other store errors, such
            as Indeterminate, likewise.
    """
    executor = Executor(
        table=table,
        skip=settings.skip,
        engine=engine or LocalEngine(),
        options=merge_options(settings),
    )
    left_out: dict[str, str] = {}
    merged: set[str] = set()
    cache = ShadowCache()
    seen: Observation | None = observe(table, skip=settings.skip, cache=cache)
    results = list(resume(table, seen=seen, skip=settings.skip))
    if results:
        _show(results, watch)
        seen = None
    passes = conflicts = 0
    while conflicts < _CONFLICTS:
        seen = seen or observe(
            table, skip=settings.skip, left_out=left_out.keys() | merged, cache=cache
        )
        left_out.update(
            {ulid: why for ulid, why in seen.damaged.items() if quarantine(table, ulid, why)}
        )
        jobs = plan_seen(seen, settings)
        if not jobs:
            break
        passes += 1
        done = executor.run_all(jobs, seen, watch)
        results += done
        known = set(left_out)
        left_out.update(
            {result.damaged: result.problem for result in done if result.damaged is not None}
        )
        merged.update(_inputs_by_age(done))
        fruitful = any(result.outcome not in (Outcome.CONFLICT, Outcome.DAMAGED) for result in done)
        conflicts = 0 if fruitful or left_out.keys() - known else conflicts + 1
        if table.indexed:
            again = observe_again(
                table, seen, skip=settings.skip, left_out=left_out.keys() | merged, cache=cache
            )
            if not plan_seen(again, settings):
                break
        seen = None
    return Report(
        url=table.url,
        version=table.log.state.version if table.indexed else None,
        passes=passes,
        results=tuple(results),
        left_out=left_out,
    )


def _inputs_by_age(done: Iterable[JobResult]) -> Iterator[str]:
    """What was merged on a table without an index: it is done, though a listing may not show it
    yet."""
    for result in done:
        if result.outcome is Outcome.UPLOADED:
            yield from (block.ulid for block in result.job.inputs)


def _show(results: Iterable[JobResult], watch: Watch | None) -> None:
    if watch is not None:
        for result in results:
            watch(result)


def merge_options(settings: Settings) -> MergeOptions:
    """The bounds of a merge, from the settings."""
    return MergeOptions(
        memory_bytes=settings.memory_bytes,
        chunk_bytes=settings.chunk_bytes,
        lanes=settings.concurrency,
        work_dir=settings.work_dir,
    )


def plan_seen(seen: Observation, settings: Settings) -> tuple[PlannedJob, ...]:
    """The jobs of a pass over an observed table."""
    properties, identity = seen.definition.properties, seen.definition.identity
    history_s = properties.kept_history_s(identity)
    bounds = PlanSettings(
        ranges_ms=settings.ranges_ms,
        tier_blocks=settings.tier_blocks,
        max_block_bytes=settings.max_block_bytes,
        memory_bytes=settings.memory_bytes,
        retention_ms=_ms(properties.retention_s),
        history_ms=None if history_s == FOREVER_S else _ms(history_s),
    )
    if identity is None:
        return plan(seen.candidates.for_plan(bounds, seen.now_ms), bounds, seen.now_ms)
    blocks = seen.candidates.for_plan(bounds, seen.now_ms, seen.shadows.hiding)
    return plan_versions(blocks, seen.shadows, bounds, seen.now_ms)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)

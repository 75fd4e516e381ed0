"""The compactor, once: observe, plan, execute, and again until a plan is empty.

Rules:
- ``plan_table`` changes nothing.
- ``compact_once`` claims no role. It needs none: the index checks every merge, so a compactor that
  runs beside it can waste work and never harm; claiming the role would stop that compactor.
- Several passes: what one pass makes, the next may merge further. A pass in which nothing was
  committed and nothing new was learned is the last. Whether there is a next one is asked of the
  index, by the listing of the last: mostly there is none, and the table is not listed again to
  learn that.
- Without an index a merge replaces its inputs only once it has aged. Until then they are work done,
  so a second pass finds nothing to do: merging what was merged waits for a later run.
- Merges that a process had uploaded and died before it could commit are committed first
  (``resume.py``).
- A damaged block is quarantined, left out and named in the report; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blockstore.compactor.merge import MergeEngine, MergeOptions
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.jobs import PlannedJob, PlanSettings
from blockstore.compactor.plan.observe import Observation, observe, observe_again
from blockstore.compactor.plan.plan import plan
from blockstore.compactor.run.execute import Executor, Watch
from blockstore.compactor.run.quarantine import quarantine
from blockstore.compactor.run.report import JobResult, Outcome, Report
from blockstore.compactor.run.resume import resume
from blockstore.compactor.settings import Settings
from blockstore.table import Table

_CONFLICTS = 3
"""After so many passes in a row that ended in nothing but conflicts, others change the table too
fast for us."""


def plan_table(table: Table, settings: Settings) -> tuple[PlannedJob, ...]:
    """The jobs of the first pass, as ``compact_once`` would do them now."""
    return plan_seen(observe(table, skip=settings.skip), settings)


def compact_once(
    table: Table,
    settings: Settings,
    *,
    engine: MergeEngine | None = None,
    watch: Watch | None = None,
) -> Report:
    """Merge until there is nothing left to merge; ``watch`` hears of every job as it ends.

    Raises Unavailable (NoSpace too), Indeterminate and the like: what was committed by then stays,
    everything else is as before, and a later run goes on.
    """
    executor = Executor(
        table=table,
        skip=settings.skip,
        engine=engine or LocalEngine(),
        options=merge_options(settings),
    )
    left_out: dict[str, str] = {}
    merged: set[str] = set()
    seen: Observation | None = observe(table, skip=settings.skip)
    results = list(resume(table, seen=seen, skip=settings.skip))
    if results:
        _tell(results, watch)
        seen = None
    passes = conflicts = 0
    while conflicts < _CONFLICTS:
        seen = seen or observe(table, skip=settings.skip, left_out=left_out.keys() | merged)
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
            anew = observe_again(table, seen, skip=settings.skip, left_out=left_out.keys() | merged)
            if not plan_seen(anew, settings):
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
    """What was merged on a table without an index: work done, though a listing that lags may not
    show it yet."""
    for result in done:
        if result.outcome is Outcome.UPLOADED:
            yield from (block.ulid for block in result.job.inputs)


def _tell(results: Iterable[JobResult], watch: Watch | None) -> None:
    if watch is not None:
        for result in results:
            watch(result)


def merge_options(settings: Settings) -> MergeOptions:
    """The bounds that the settings set to a merge."""
    return MergeOptions(
        memory_bytes=settings.memory_bytes,
        chunk_bytes=settings.chunk_bytes,
        lanes=settings.concurrency,
        work_dir=settings.work_dir,
    )


def plan_seen(seen: Observation, settings: Settings) -> tuple[PlannedJob, ...]:
    """The jobs of a pass over what was seen of a table."""
    retention_s = seen.definition.properties.retention_s
    return plan(
        seen.candidates,
        PlanSettings(
            ranges_ms=settings.ranges_ms,
            tier_blocks=settings.tier_blocks,
            max_block_bytes=settings.max_block_bytes,
            memory_bytes=settings.memory_bytes,
            retention_ms=None if retention_s is None else round(retention_s * 1000),
        ),
        seen.now_ms,
    )

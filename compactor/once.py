"""The compactor, once: observe, plan, execute, and again until a plan is empty.

Rules:
- ``plan_table`` changes nothing.
- ``compact_once`` claims no role. It needs none: the index checks every merge, so a compactor that runs beside it can
  waste work and never harm; claiming the role would stop that compactor.
- Several passes: what one pass makes, the next may merge further. A pass in which nothing was committed and nothing
  new was learned is the last.
- A damaged block is left out and named in the report; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.table import Table
from compactor.execute import Executor
from compactor.merge import MergeEngine, MergeOptions
from compactor.merge.local import LocalEngine
from compactor.observe import Observation, observe
from compactor.plan import PlannedJob, PlanSettings, plan
from compactor.report import JobResult, Outcome, Report
from compactor.settings import Settings

__all__ = ["Watch", "compact_once", "plan_table"]

Watch = Callable[[JobResult], None]

_CONFLICTS = 3
"""After so many passes in a row that ended in nothing but conflicts, others change the table too fast for us."""


def plan_table(table: Table, settings: Settings) -> tuple[PlannedJob, ...]:
    """The jobs of the first pass, as ``compact_once`` would do them now."""
    return _plan(observe(table.bucket, table.log, skip=settings.skip), settings)


def compact_once(
    table: Table, settings: Settings, *, engine: MergeEngine | None = None, watch: Watch | None = None
) -> Report:
    """Merge until there is nothing left to merge; ``watch`` hears of every job as it ends.

    Raises Unavailable (NoSpace too), Indeterminate and the like: what was committed by then stays, everything else is
    as before, and a later run goes on.
    """
    executor = Executor(
        bucket=table.bucket,
        world=table.world,
        log=table.log,
        engine=engine or LocalEngine(),
        options=MergeOptions(
            memory_bytes=settings.memory_bytes,
            chunk_bytes=settings.chunk_bytes,
            lanes=settings.concurrency,
            work_dir=settings.work_dir,
        ),
    )
    left_out: dict[str, str] = {}
    results: list[JobResult] = []
    passes = conflicts = 0
    while conflicts < _CONFLICTS:
        seen = observe(table.bucket, table.log, skip=settings.skip, left_out=left_out.keys())
        jobs = _plan(seen, settings)
        if not jobs:
            break
        passes += 1
        done = [_ran(executor, job, seen, watch) for job in jobs]
        results += done
        left_out.update({result.damaged: result.problem for result in done if result.damaged is not None})
        conflicts = conflicts + 1 if all(result.outcome is Outcome.CONFLICT for result in done) else 0
    return Report(
        url=table.url,
        version=table.log.state.version,
        passes=passes,
        results=tuple(results),
        left_out=left_out,
    )


def _ran(executor: Executor, job: PlannedJob, seen: Observation, watch: Watch | None) -> JobResult:
    result = executor.run(job, seen)
    if watch is not None:
        watch(result)
    return result


def _plan(seen: Observation, settings: Settings) -> tuple[PlannedJob, ...]:
    retention_s = seen.state.definition.properties.retention_s
    return plan(
        seen.candidates,
        PlanSettings(
            ranges_ms=settings.ranges_ms,
            tier_blocks=settings.tier_blocks,
            max_block_bytes=settings.max_block_bytes,
            retention_ms=None if retention_s is None else round(retention_s * 1000),
        ),
        seen.now_ms,
    )

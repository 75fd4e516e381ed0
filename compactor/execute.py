"""Carrying out one planned job: merge, upload, commit.

Rules:
- The order is R3's and the index's: chunks, then meta.json and its checks, then the entry. A process that dies
  anywhere in between leaves debris, and a table that reads as before.
- The merged block is visible by its entry alone (``visible_by: index``), never by its age.
- Which rows went in is fixed by the state that was planned on; the commit refuses if that has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.bucket.api import Bucket
from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.sources import write_sources
from blockstore.index.log import Log
from blockstore.lifecycle.upload import finish_upload
from blockstore.world import World
from compactor.change import Compact
from compactor.merge import DamagedInput, Merged, MergeEngine, MergeInput, MergeOptions, MergeTask
from compactor.merge.result import merged_block
from compactor.observe import Observation
from compactor.plan import PlannedJob
from compactor.report import JobResult, Outcome

__all__ = ["Executor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Carries out the jobs of one table."""

    bucket: Bucket
    world: World
    log: Log
    engine: MergeEngine
    options: MergeOptions

    def run(self, job: PlannedJob, seen: Observation) -> JobResult:
        """The job's result; a conflict or a damaged input is one.

        Raises what is no fault of the job: Unavailable (NoSpace too), Indeterminate, AccessDenied. The same plan
        can then be tried again.
        """
        started = self.world.clock.monotonic_s()
        try:
            result = self._run(job, seen)
        except Conflict as error:
            result = JobResult(job=job, outcome=Outcome.CONFLICT, problem=str(error))
        except DamagedInput as error:
            result = JobResult(job=job, outcome=Outcome.DAMAGED, problem=str(error), damaged=error.ulid)
        return replace(result, seconds=self.world.clock.monotonic_s() - started)

    def _run(self, job: PlannedJob, seen: Observation) -> JobResult:
        live = [seen.live[block.ulid] for block in job.inputs]
        task = MergeTask(
            ulid=self.world.ids.ulid(),
            inputs=tuple(MergeInput(meta=block.meta, excepted=block.excepted) for block in live),
            definition=seen.state.definition,
        )
        merged = self.engine.merge(self.bucket, self.world, task, self.options)
        block = self._upload(task, merged) if merged.written.rows else None
        committed = self.log.commit(
            Compact(
                commit=self.world.ids.ulid(),
                block=block,
                read={one.ulid: one.excepted for one in live},
                read_version=seen.state.version,
                parameters={"reason": str(job.reason), "details": job.details},
            )
        )
        return JobResult(
            job=job,
            outcome=Outcome.COMMITTED,
            block=None if block is None else block.ulid,
            version=committed.version,
            rows=merged.written.rows,
            dropped_rows=merged.dropped_rows,
            bytes=merged.written.bytes,
            chunks=len(merged.written.files),
            notes=merged.notes,
        )

    def _upload(self, task: MergeTask, merged: Merged) -> BlockMeta:
        sources_file = write_sources(self.bucket, task.ulid, task.sources)
        block = merged_block(task, merged, visible_by=VisibleBy.INDEX, sources_file=sources_file)
        stamped = replace(block, uploaded_time=self.world.clock.now_ms())
        return finish_upload(self.bucket, self.world, stamped)

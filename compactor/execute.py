"""Carrying out one planned job: merge, upload, commit.

Rules:
- The order is R3's and the index's: chunks, then meta.json and its checks, then the entry. A process that dies
  anywhere in between leaves debris, and a table that reads as before.
- With an index the merged block is visible by its entry alone (``visible_by: index``), never by its age. Which rows
  went in is fixed by the state that was planned on; the commit refuses if that has changed since.
- Without one it is visible by its age, accounts for exactly the sources that were read, and replaces its inputs in the
  cover. Just before its meta.json the table is looked at again: an input that was marked, removed, or merged by another
  meanwhile drops the merge. So whoever places a no-compact mark and waits ``sync_delay`` meets every merge that took
  the block: it was dropped, or it is listed (3.1, 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.sources import write_sources
from blockstore.lifecycle.upload import finish_upload
from blockstore.table import Table
from compactor.change import Compact
from compactor.merge import DamagedInput, Merged, MergeEngine, MergeOptions, MergeTask
from compactor.merge.result import merged_block
from compactor.observe import Labels, Observation, observe
from compactor.plan import PlannedJob
from compactor.report import JobResult, Outcome

__all__ = ["Executor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Carries out the jobs of one table."""

    table: Table
    engine: MergeEngine
    options: MergeOptions
    skip: Labels = ()

    def run(self, job: PlannedJob, seen: Observation) -> JobResult:
        """The job's result; a conflict or a damaged input is one.

        Raises what is no fault of the job: Unavailable (NoSpace too), Indeterminate, AccessDenied. The same plan
        can then be tried again.
        """
        started = self.table.world.clock.monotonic_s()
        try:
            result = self._run(job, seen)
        except Conflict as error:
            result = JobResult(job=job, outcome=Outcome.CONFLICT, problem=str(error))
        except DamagedInput as error:
            result = JobResult(job=job, outcome=Outcome.DAMAGED, problem=str(error), damaged=error.ulid)
        return replace(result, seconds=self.table.world.clock.monotonic_s() - started)

    def _run(self, job: PlannedJob, seen: Observation) -> JobResult:
        task = MergeTask(
            ulid=self.table.world.ids.ulid(),
            inputs=tuple(seen.inputs[block.ulid] for block in job.inputs),
            definition=seen.definition,
        )
        merged = self.engine.merge(self.table.bucket, self.table.world, task, self.options)
        publish = self._commit if self.table.indexed else self._leave_to_its_age
        return replace(
            publish(job, seen, task, merged),
            rows=merged.written.rows,
            dropped_rows=merged.dropped_rows,
            bytes=merged.written.bytes,
            chunks=len(merged.written.files),
            notes=merged.notes,
        )

    def _commit(self, job: PlannedJob, seen: Observation, task: MergeTask, merged: Merged) -> JobResult:
        """Replace the inputs by one entry; without rows, take them away."""
        assert seen.version is not None
        block = self._upload(task, merged, VisibleBy.INDEX) if merged.written.rows else None
        committed = self.table.log.commit(
            Compact(
                commit=self.table.world.ids.ulid(),
                block=block,
                read={item.meta.ulid: item.excepted for item in task.inputs},
                read_version=seen.version,
                parameters={"reason": str(job.reason), "details": job.details},
            )
        )
        return JobResult(
            job=job,
            outcome=Outcome.COMMITTED,
            block=None if block is None else block.ulid,
            version=committed.version,
        )

    def _leave_to_its_age(
        self, job: PlannedJob, seen: Observation, task: MergeTask, merged: Merged
    ) -> JobResult:
        """Upload the merge, which replaces its inputs once it is ``sync_delay`` old."""
        again = observe(self.table, skip=self.skip)
        changed = next((one for one in task.inputs if not again.offers(one.meta.ulid, one)), None)
        if changed is not None:
            raise Conflict(
                f"block {changed.meta.ulid} was marked, removed, or merged by another while it was merged here: the merge is "
                "dropped, and the next pass plans again"
            )
        if not merged.written.rows:
            raise Conflict("the blocks hold no row of the sources for which they are read: nothing to merge")
        block = self._upload(task, merged, VisibleBy.AGE)
        return JobResult(job=job, outcome=Outcome.UPLOADED, block=block.ulid)

    def _upload(self, task: MergeTask, merged: Merged, visible_by: VisibleBy) -> BlockMeta:
        sources_file = write_sources(self.table.bucket, task.ulid, task.sources)
        block = merged_block(task, merged, visible_by=visible_by, sources_file=sources_file)
        stamped = replace(block, uploaded_time=self.table.world.clock.now_ms())
        return finish_upload(self.table.bucket, self.table.world, stamped)

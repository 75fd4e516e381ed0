"""Carrying out planned jobs: merge, upload, commit.

Rules:
- The order is R3's and the index's: chunks, then meta.json and its checks, then the entry. A
  process that dies anywhere in between leaves debris, and a table that reads as before. What it had
  uploaded completely is committed by the next one (``resume.py``).
- With an index the merged block is visible by its entry alone (``visible_by: index``), never by its
  age. The state that was planned on determines which rows went in; the commit refuses if that has
  changed since.
- Without an index it is visible by its age, accounts for exactly the sources that were read, and
  replaces its inputs in the cover. Just before its meta.json the table is looked at again: an input
  that was marked, removed, or merged by another process drops the merge. So a person who places a
  no-compact mark and waits ``sync_delay`` affects every merge that took the block: it was dropped,
  or it is listed (3.1, 3.2). After meta.json is uploaded the table is looked at once more: if rows
  were hidden or removed meanwhile, the merge is taken away before any reader counts it.
- A damaged input is quarantined, and ends its own job only. An input that is gone is a conflict:
  another process merged it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from blockstore.compactor.merge import DamagedInput, Merged, MergeEngine, MergeOptions, MergeTask
from blockstore.compactor.merge.engine import BatchEngine
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.result import merged_block
from blockstore.compactor.merge.workdir import NoWorkDirectory
from blockstore.compactor.plan.damage import contradicted, unreadable
from blockstore.compactor.plan.jobs import PlannedJob
from blockstore.compactor.plan.observe import Observation, observe
from blockstore.compactor.plan.skip import Labels
from blockstore.compactor.run.change import Compact
from blockstore.compactor.run.monitor import Abandoned
from blockstore.compactor.run.quarantine import quarantine
from blockstore.compactor.run.report import JobResult, Outcome
from blockstore.compactor.run.versions import former_versions, judged, with_versions
from blockstore.errors import BlockstoreError, BoundaryLost, Conflict, Fenced, NoSpace, TableDropped
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.new_block import write_segments
from blockstore.format.sources import write_sources
from blockstore.freshness import Freshness
from blockstore.index.epochs import Held
from blockstore.lifecycle import second_look
from blockstore.lifecycle.undo_merge import away, take_away
from blockstore.lifecycle.upload import finish_for_entry, finish_upload
from blockstore.table import Table

IN_A_ROW = 3
"""After this many jobs that failed in a row the rest of a pass is left."""

Watch = Callable[[JobResult], None]
Failed = Callable[[PlannedJob, Exception], None]

_STOPS = (Abandoned, BoundaryLost, Fenced)
"""What ends a pass at once: the process stops, or nothing may be written any more."""

_KEPT = (BlockstoreError, OSError, MemoryError)
"""What may fail one job and not the next: its own failure, or one of this machine, for which it was
too large. A bug of ours is not among them."""

_Ended = JobResult | tuple[PlannedJob, Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Carries out the jobs of one table."""

    table: Table
    engine: MergeEngine
    options: MergeOptions
    skip: Labels = ()
    held: Held | None = None
    """The role in which merges are committed; a process that loses it is fenced."""

    def run(self, job: PlannedJob, seen: Observation) -> JobResult:
        """Do one job; a conflict or a damaged input is a result too.

        Raises what is not the job's fault: Unavailable (also NoSpace), Indeterminate, AccessDenied,
        Fenced. The same plan can then be retried.
        """
        started = self.table.world.clock.monotonic_s()
        try:
            task = self.task_of(job, seen)
            engine: MergeEngine = self._engine_for(seen)
            merged = engine.merge(self.table.bucket, self.table.world, task, self.options)
            result = self.publish(job, seen, task, merged)
        except (Conflict, TableDropped, DamagedInput) as error:
            result = self._ended(job, error)
        return replace(result, seconds=self.table.world.clock.monotonic_s() - started)

    def run_all(
        self,
        jobs: Sequence[PlannedJob],
        seen: Observation,
        watch: Watch | None = None,
        failed: Failed | None = None,
    ) -> list[JobResult]:
        """Do the jobs of a pass, a ``BatchEngine`` all of them at once.

        A failed job does not stop the others, also if it lacked disk space or memory: the first
        such error is raised at the end. Fenced, BoundaryLost and Abandoned are raised at once.

        Args:
            jobs: The plan.
            seen: The observation that was planned on.
            watch: Called with each result.
            failed: Called with each job that failed, and its error.

        Returns:
            The results of the jobs that did not fail.
        """
        results: list[JobResult] = []
        first: Exception | None = None
        for ended in (
            self._together(self.engine, jobs, seen)
            if isinstance(self.engine, BatchEngine) and seen.definition.identity is None
            else self._in_turn(jobs, seen)
        ):
            if not isinstance(ended, JobResult):
                job, error = ended
                if failed is not None:
                    failed(job, error)
                first = first or error
                continue
            results.append(ended)
            if watch is not None:
                watch(ended)
        if first is not None:
            raise first
        return results

    def task_of(self, job: PlannedJob, seen: Observation) -> MergeTask:
        """The engine's task for a job. Raises DamagedInput if the meta.json of an input has
        changed."""
        task = MergeTask(
            ulid=self.table.world.ids.ulid(),
            inputs=seen.read(block.ulid for block in job.inputs),
            definition=seen.definition,
        )
        if seen.definition.identity is not None:
            task = with_versions(task, job, seen)
        if self.table.indexed:
            metas = [item.meta for item in task.inputs]
            # Planning compares only what the index has columns of.
            problems = contradicted(self.table.bucket, seen.listing, metas)
            problems |= unreadable(self.table.bucket, self.table.world, metas)
            for ulid, why in problems.items():
                raise DamagedInput(ulid, why)
        return task

    def publish(
        self, job: PlannedJob, seen: Observation, task: MergeTask, merged: Merged
    ) -> JobResult:
        """Replace the inputs by the merged rows. Raises Conflict if they may not be replaced."""
        publish = self._commit if self.table.indexed else self._leave_to_its_age
        return replace(
            publish(job, seen, task, merged),
            rows=merged.written.rows,
            dropped_rows=merged.dropped_rows,
            bytes=merged.written.bytes,
            chunks=len(merged.written.files),
            notes=merged.notes,
        )

    def _engine_for(self, seen: Observation) -> MergeEngine:
        """What merges. An engine that distributes merges does not know the versions of rows: where
        rows have an identity, this process merges."""
        if isinstance(self.engine, BatchEngine) and seen.definition.identity is not None:
            return LocalEngine()
        return self.engine

    def _in_turn(self, jobs: Sequence[PlannedJob], seen: Observation) -> Iterator[_Ended]:
        in_a_row = 0
        for job in jobs:
            try:
                result = self.run(job, seen)
            except _STOPS:
                raise
            except _KEPT as error:
                # The next job may need less of the disk, or none.
                in_a_row = 0 if isinstance(error, (NoSpace, NoWorkDirectory)) else in_a_row + 1
                release_frames(error)
                yield job, error
            else:
                in_a_row = 0
                yield result
            if in_a_row == IN_A_ROW:
                break  # not these jobs, then, but the store or this machine

    def _together(
        self, engine: BatchEngine, jobs: Sequence[PlannedJob], seen: Observation
    ) -> Iterator[_Ended]:
        """The jobs as one call of the engine. Each of its errors belongs to one job."""
        clock = self.table.world.clock
        started = clock.monotonic_s()
        tasks: list[MergeTask] = []
        given: list[PlannedJob] = []
        for job in jobs:
            try:
                tasks.append(self.task_of(job, seen))
                given.append(job)
            except DamagedInput as error:
                yield self._ended(job, error)
            except _STOPS:
                raise
            except _KEPT as error:
                yield job, error
        for place, merged in engine.merge_all(
            self.table.bucket, self.table.world, tasks, self.options
        ):
            job = given[place]
            try:
                if isinstance(merged, BlockstoreError):
                    raise merged
                result = self.publish(job, seen, tasks[place], merged)
            except _STOPS:
                raise
            except (Conflict, TableDropped, DamagedInput) as error:
                result = self._ended(job, error)
            except _KEPT as error:
                yield job, error
                continue
            yield replace(result, seconds=clock.monotonic_s() - started)

    def _ended(self, job: PlannedJob, error: Conflict | TableDropped | DamagedInput) -> JobResult:
        """The result of a job that changed nothing. Raises Fenced."""
        if isinstance(error, Fenced):
            raise error
        if not isinstance(error, DamagedInput) or not quarantine(
            self.table, error.ulid, str(error)
        ):
            return JobResult(job=job, outcome=Outcome.CONFLICT, problem=str(error))
        return JobResult(job=job, outcome=Outcome.DAMAGED, problem=str(error), damaged=error.ulid)

    def _commit(
        self, job: PlannedJob, seen: Observation, task: MergeTask, merged: Merged
    ) -> JobResult:
        """Replace the inputs by one entry; without rows, only remove them."""
        assert seen.version is not None
        former = former_versions(task, self.table.world.ids)
        with self.table.log.own_looks():
            history = None if former is None else self._history(former, self._engine_for(seen))
            block = self._upload(task, merged, VisibleBy.INDEX) if merged.written.rows else None
            committed = self.table.log.commit(
                Compact(
                    commit=self.table.world.ids.ulid(),
                    block=block,
                    read={item.meta.ulid: item.excepted for item in task.inputs},
                    read_version=seen.version,
                    identity=seen.definition.identity,
                    history=history,
                    judged=judged(job, seen),
                    parameters={"reason": str(job.reason), "details": job.details},
                    role=None if self.held is None else self.held.role,
                    epoch=None if self.held is None else self.held.epoch,
                )
            )
        return JobResult(
            job=job,
            outcome=Outcome.COMMITTED,
            block=None if block is None else block.ulid,
            version=committed.version,
        )

    def _history(self, task: MergeTask, engine: MergeEngine) -> BlockMeta:
        """Merge and upload the former versions."""
        merged = engine.merge(self.table.bucket, self.table.world, task, self.options)
        return self._upload(task, merged, VisibleBy.INDEX)

    def _leave_to_its_age(
        self, job: PlannedJob, seen: Observation, task: MergeTask, merged: Merged
    ) -> JobResult:
        """Upload the merge, which replaces its inputs once it is ``sync_delay`` old."""
        fresh = Freshness(self.table.world.clock, second_look.LASTS_S)
        again = observe(self.table, skip=self.skip)
        changed = next((one for one in task.inputs if not again.offers(one.meta.ulid, one)), None)
        if changed is not None:
            raise Conflict(
                f"block {changed.meta.ulid} was marked, removed, or merged by another process "
                "during this merge: the merge is dropped, and the next pass plans again"
            )
        if not merged.written.rows:
            raise Conflict(
                "the blocks have no rows of the sources for which they are read: nothing to merge"
            )
        block = self._upload(task, merged, VisibleBy.AGE, fresh)
        self._look_once_more(task, block)
        return JobResult(job=job, outcome=Outcome.UPLOADED, block=block.ulid)

    def _look_once_more(self, task: MergeTask, block: BlockMeta) -> None:
        """Take the merge away and raise Conflict if rows were hidden or removed while meta.json was
        uploaded."""
        table = self.table
        properties = table.definition.properties
        inputs = [one.meta for one in task.inputs]
        found = away(table.catalog, table.bucket, table.world, properties, block, inputs)
        sources = found.hidden | found.gone
        if not sources:
            return
        # If a mark refused the first upload, there are two complete blocks.
        uploads = [replace(block, ulid=ulid) for ulid in sorted({task.ulid, block.ulid})]
        kept = [
            take_away(table.catalog, table.bucket, table.world, properties, one, sources)
            for one in uploads
        ]
        stays = next((why for why in kept if why is not None), None)
        what = (
            f"rows of source {min(sources)} were hidden or removed while their merge {block.ulid} "
            "was uploaded"
        )
        if stays is not None:
            if not found.hidden:
                return  # after so long a pause the inputs are gone because of this merge
            raise Conflict(
                f"{what}; the merge shows them and stays: {stays}; hide it, with everything in it: "
                f"'blockstore mark {table.bucket.url} {block.ulid} --deletion'"
            )
        raise Conflict(f"{what}: the merge is taken away, and the next pass plans again")

    def _upload(
        self, task: MergeTask, merged: Merged, visible_by: VisibleBy, fresh: Freshness | None = None
    ) -> BlockMeta:
        """Upload meta.json, if the look that it relies on is still ``fresh``."""
        bucket = self.table.bucket
        block = merged_block(
            task,
            merged,
            visible_by=visible_by,
            sources_file=write_sources(bucket, task.ulid, task.sources),
            segments=write_segments(bucket, task.ulid, merged.written),
        )
        if fresh is not None and fresh.is_over:
            raise Conflict(
                f"the second look at the table was more than {fresh.lasts_s:g} s old when the "
                "merge was to be uploaded: the merge is dropped, since a block may have been "
                "hidden meanwhile, and the next pass plans again"
            )
        stamped = replace(block, uploaded_time=self.table.world.clock.now_ms())
        world = self.table.world
        if visible_by is VisibleBy.AGE:
            return finish_upload(bucket, world, stamped)
        log = self.table.log
        return finish_for_entry(
            bucket, world, stamped, slow=log.is_slow, meanwhile=log.look_ahead()
        )


def release_frames(error: BaseException) -> None:
    """Free what the frames of a failure hold, so that a merge which ran out of memory does not keep
    its own from the next ones.

    Called by the code that caught the error, before anything else runs: a generator suspended in
    those frames would be closed.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__

"""The merge loop of one table: turn by turn, from a plan that is renewed when it is used up.

Rules:
- A turn does one job, so that tables which share the process's one merge at a time take turns.
  After a failed job the same turn does the next. A ``BatchEngine`` gets the complete plan in one
  turn.
- The first turn commits what an earlier process had uploaded but not committed.
- A plan older than ``interval`` is replaced: new blocks, and marks that a person placed, count.
  The index checks every merge against what has happened since, and against the claim of the role.
- A damaged input is quarantined (``quarantine.py``), so that no restart merges it again; the rest
  is planned again.
- A failed job does not stop the others. Its error is raised when the plan is used up, and the next
  plan does that job last. After several failures in a row the jobs are not to blame: the loop
  waits.
- A turn succeeds only if its last job did, so a loop that merges nothing never looks healthy.
- On a table without an index a fresh merge counts as done work: its inputs are left alone until
  listings certainly show it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from blockstore.compactor.clean.due import UNSURE_S
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.merge.engine import BatchEngine
from blockstore.compactor.plan.due import due_s
from blockstore.compactor.plan.jobs import PlannedJob
from blockstore.compactor.plan.observe import Observation, observe
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.job_status import backlog_of, finished_job, planned_job
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.status import JobState, JobStatus
from blockstore.compactor.run.execute import IN_A_ROW, Executor, release_frames
from blockstore.compactor.run.monitor import Abandoned, MonitoredBucket, RemoteEngine
from blockstore.compactor.run.once import merge_options, plan_seen
from blockstore.compactor.run.quarantine import quarantine
from blockstore.compactor.run.report import JobResult, Outcome
from blockstore.compactor.run.resume import resume
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, BoundaryLost, Fenced, Unavailable
from blockstore.index.epochs import Held, check_held
from blockstore.scan.shadows import ShadowCache
from blockstore.service.logs import about
from blockstore.table import Table

_logger = logging.getLogger(__name__)

_REMEMBERED_S = 3600.0
"""How long a finding about a block counts: that a merge has failed on it, that it is damaged, or,
on a table without an index, that it was merged, whatever a listing shows."""


_MANY = 10_000
"""Planning more candidates for many later times costs too much."""


@dataclass(slots=True, kw_only=True)
class MergeLoop:
    """The merge loop of one table; ``turn`` is called by one thread at a time."""

    name: str
    table: Table
    monitor: MonitoredBucket
    held: Held | None
    settings: Settings
    engine: MergeEngine
    ledger: Ledger
    interval_s: float
    shard: Shard | None = None
    stopping: Callable[[], bool] = lambda: False
    _cache: ShadowCache = field(default_factory=ShadowCache)
    _seen: Observation | None = None
    _planned_s: float = 0.0
    _pending: deque[PlannedJob] = field(default_factory=deque)
    _moved: bool = False
    """Whether a job of this plan changed anything, so that another plan may find more."""
    _resumed: bool = False
    _merged: dict[str, float] = field(default_factory=dict)
    _damaged: dict[str, tuple[float, str]] = field(default_factory=dict)
    _failed: dict[str, float] = field(default_factory=dict)
    """Jobs that failed recently, by their first input."""
    _trouble: list[Exception] = field(default_factory=list)
    _in_a_row: int = 0
    _at_work: frozenset[str] = frozenset()
    """The inputs of the running job."""

    def turn(self) -> float:
        """Do the next job, or plan some; return the seconds until the next turn."""
        now_s = self.table.world.clock.monotonic_s()
        if self.held is not None:
            check_held(self.table.log.poll(), self.held)
        if now_s - self._planned_s > self.interval_s:
            self._pending.clear()
        if not self._pending:
            # The plan is too old. The next one is made after the loop has waited.
            self._raise_first()
            self._plan(now_s)
        if not self._pending or self.stopping():
            return self.interval_s
        assert self._seen is not None
        many = isinstance(self.engine, BatchEngine) and self._seen.definition.identity is None
        batch = self.engine if many and isinstance(self.engine, BatchEngine) else None
        while self._pending:
            failures = len(self._trouble)
            jobs = tuple(self._pending) if batch else (self._pending[0],)
            self._at_work = frozenset(block.ulid for job in jobs for block in job.inputs)
            try:
                self._moved |= (
                    self._do_all(batch, self._seen)
                    if batch
                    else self._do(self._pending.popleft(), self._seen)
                )
            finally:
                self._at_work = frozenset()
            if len(self._trouble) == failures or self.stopping():
                break
        if self._pending:
            return 0.0
        self._raise_first()
        return 0.0 if self._moved else self.interval_s

    def look(self) -> tuple[Observation, tuple[PlannedJob, ...]]:
        """The table as it is now, and the jobs for it."""
        seen = observe(
            self.table,
            skip=self.settings.skip,
            left_out=frozenset(self._merged),
            cache=self._cache,
        )
        if self.shard is not None:
            seen = replace(seen, candidates=seen.candidates.of_streams(self.shard.owns))
        free = seen.candidates.without(self._damaged)
        jobs = plan_seen(replace(seen, candidates=free), self.settings)
        return seen, tuple(sorted(jobs, key=lambda job: job.inputs[0].ulid in self._failed))

    def due_s(self, seen: Observation) -> float | None:
        """In how many seconds there is a job for what was seen, though there is none now."""
        if len(seen.candidates) > _MANY:
            return UNSURE_S

        def has_jobs(in_s: float) -> bool:
            later = replace(seen, now_ms=seen.now_ms + round(in_s * 1000))
            return bool(plan_seen(later, self.settings))

        return due_s(has_jobs)

    @property
    def pending(self) -> bool:
        """Whether this process has something in mind for the table that its folder does not show:
        jobs, failures, merges that a listing may lack."""
        return bool(self._pending or self._trouble or self._merged or self._damaged or self._failed)

    @property
    def damaged(self) -> dict[str, str]:
        """What this process recently found damaged: ULID to what is wrong."""
        return {ulid: problem for ulid, (_, problem) in self._damaged.items()}

    def show(self, jobs: tuple[PlannedJob, ...]) -> None:
        """Note the backlog: a plan without what is being merged."""
        waiting = [
            job for job in jobs if not any(block.ulid in self._at_work for block in job.inputs)
        ]
        self.ledger.planned(self.name, (planned_job(self.name, job) for job in waiting))
        backlog = backlog_of(waiting)
        self.ledger.note(self.name, lambda status: replace(status, backlog=backlog))

    def _plan(self, now_s: float) -> None:
        self._forget(now_s)
        self._in_a_row = 0
        self._seen, jobs = self.look()
        found = {ulid: why for ulid, why in self._seen.damaged.items() if ulid not in self._damaged}
        for ulid, why in found.items():
            self._quarantine(ulid, why, now_s)
        if not self._resumed or found:
            self._resume(self._seen)
            self._seen, jobs = self.look()
        self._pending.extend(jobs)
        self._planned_s, self._moved = now_s, False
        self.show(jobs)

    def _raise_first(self) -> None:
        """Raise the first failure of the finished plan, once."""
        trouble, self._trouble = self._trouble, []
        if trouble:
            raise trouble[0]

    def _resume(self, seen: Observation) -> None:
        """Commit what an earlier process had uploaded; in a shard only its own streams, since
        ``seen`` has no others."""
        if not self._resumed:
            done = resume(self.table, seen=seen, skip=self.settings.skip, held=self.held)
            for result in done:
                _logger.info(
                    "committed a merge that an earlier process uploaded",
                    extra={"block": result.block},
                )
            self.ledger.count(self.name, resumed=len(done))
        self._resumed = True

    def _do(self, job: PlannedJob, seen: Observation) -> bool:
        """Do one job; return whether anything changed."""
        self.monitor.restart()
        running = self._begun(job)
        with about(job=running.number):
            try:
                result = self._executor(self.engine).run(job, seen)
            except (Abandoned, Fenced, BoundaryLost) as error:
                self._stopped(running, error)
                raise
            except Exception as error:  # noqa: BLE001 - the other jobs continue
                return self._failure(job, running, error)
            self._in_a_row = 0
            self.ledger.ended(self.name, finished_job(running, result))
            return self._apply(result)

    def _do_all(self, engine: BatchEngine, seen: Observation) -> bool:
        """Do all jobs of the plan at once; return whether anything changed."""
        jobs = tuple(self._pending)
        self._pending.clear()
        self.monitor.restart_remote()
        running = {job: self._begun(job) for job in jobs}
        moved = []

        def watch(result: JobResult) -> None:
            ended = running.pop(result.job)
            self.ledger.ended(self.name, finished_job(ended, result))
            with about(job=ended.number):
                moved.append(self._apply(result))

        def failed(job: PlannedJob, error: Exception) -> None:
            ended = running.pop(job)
            with about(job=ended.number):
                self._not_merged(job, ended, error)

        try:
            self._executor(RemoteEngine(engine, self.monitor)).run_all(jobs, seen, watch, failed)
        except BaseException as error:
            for one in running.values():
                self._stopped(one, error)
            raise
        return any(moved)

    def _begun(self, job: PlannedJob) -> JobStatus:
        running = replace(planned_job(self.name, job), state=JobState.RUNNING)
        running = self.ledger.begins(self.name, running)
        with about(job=running.number):
            _logger.info("merging %s", job.details, extra={"bytes": job.bytes, "rows": job.rows})
        return running

    def _stopped(self, running: JobStatus, error: BaseException) -> None:
        """Note a job that did not finish because its pass ends."""
        self._pending.clear()
        state = JobState.FAILED if isinstance(error, Exception) else JobState.ABANDONED
        state = JobState.ABANDONED if isinstance(error, Abandoned) else state
        problem = " ".join(str(error).split())
        self.ledger.ended(self.name, replace(running, state=state, problem=problem))
        with about(job=running.number):
            _logger.warning("not merged, %s: %s", state, problem)

    def _failure(self, job: PlannedJob, running: JobStatus, error: Exception) -> bool:
        """Note a failed job; the others continue, unless several failed in a row."""
        self._not_merged(job, running, error)
        release_frames(error)
        self._trouble.append(error)
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            self._pending.clear()
        return False

    def _not_merged(self, job: PlannedJob, running: JobStatus, error: Exception) -> None:
        """Note and log a failed job; the next plan does it last."""
        problem = " ".join(str(error).split())
        self.ledger.ended(self.name, replace(running, state=JobState.FAILED, problem=problem))
        self._failed[job.inputs[0].ulid] = self.table.world.clock.monotonic_s()
        _logger.warning(
            "not merged: %s",
            problem,
            exc_info=None if isinstance(error, BlockstoreError) else error,
        )

    def _executor(self, engine: MergeEngine) -> Executor:
        return Executor(
            table=self.table,
            skip=self.settings.skip,
            engine=engine,
            options=merge_options(self.settings),
            held=self.held,
        )

    def _apply(self, result: JobResult) -> bool:
        """Note and log a result; return whether anything changed."""
        now_s = self.table.world.clock.monotonic_s()
        match result.outcome:
            case Outcome.CONFLICT:
                _logger.info("not merged, planned again: %s", result.problem)
                return False
            case Outcome.DAMAGED:
                assert result.damaged is not None
                self._pending.clear()
                # The executor has marked it. Where it could not, it is still left out for a while.
                self._damaged[result.damaged] = (now_s, result.problem)
                return True
            case Outcome.UPLOADED:
                self._merged |= {block.ulid: now_s for block in result.job.inputs}
        self.ledger.count(
            self.name,
            merged_rows=result.rows,
            merged_bytes=result.bytes,
            merge_seconds=result.seconds,
        )
        _logger.info(
            "merged %s: %s rows, %s bytes in %.1f s",
            result.job.details,
            result.rows,
            result.bytes,
            result.seconds,
            extra={"block": result.block, "version": result.version},
        )
        for note in result.notes:
            _logger.warning("%s", note, extra={"block": result.block})
        return True

    def _quarantine(self, ulid: str, problem: str, now_s: float) -> None:
        """Keep merges away from a damaged block, also after a restart."""
        try:
            quarantine(self.table, ulid, problem)
        except Unavailable as error:
            _logger.warning("block %s could not be marked: %s", ulid, error, extra={"block": ulid})
        self._damaged[ulid] = (now_s, problem)

    def _forget(self, now_s: float) -> None:
        """Forget old findings about blocks: by then the bucket shows them, or they need a retry."""
        self._merged = {
            ulid: since for ulid, since in self._merged.items() if now_s - since < _REMEMBERED_S
        }
        self._failed = {
            ulid: since for ulid, since in self._failed.items() if now_s - since < _REMEMBERED_S
        }
        self._damaged = {
            ulid: found for ulid, found in self._damaged.items() if now_s - found[0] < _REMEMBERED_S
        }

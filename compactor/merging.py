"""The merging of one table in the process: turn by turn, one job a turn, from a plan that is made when the last is used up.

Rules:
- One job a turn, so that tables which share the process's one merge at a time take turns.
- A plan older than ``interval`` is made anew: new blocks, and marks that a person placed, count. The index checks every
  merge against what has happened since, and its claim of the role.
- A damaged input is marked no-compact with the reason, so that no restart meets it again; the rest is planned again.
- On a table without an index a fresh merge is work done: its inputs are left alone until listings show it for sure.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from blockstore.errors import BlockstoreError
from blockstore.index.epochs import Held, check_held
from blockstore.service.logs import about
from blockstore.table import Table
from compactor.execute import Executor
from compactor.job_status import backlog_of, finished_job, planned_job
from compactor.ledger import Ledger
from compactor.merge import MergeEngine
from compactor.observe import Observation, observe
from compactor.once import merge_options, plan_seen
from compactor.plan import PlannedJob
from compactor.quarantine import quarantine
from compactor.report import JobResult, Outcome
from compactor.settings import Settings
from compactor.shards import Shard
from compactor.status import JobState, JobStatus, Phase
from compactor.watched import Abandoned, Watched

__all__ = ["Merging"]

_logger = logging.getLogger(__name__)

_REMEMBERED_S = 3600.0
"""For so long the inputs of a merge on a table without an index are left alone, whatever a listing shows."""


@dataclass(slots=True, kw_only=True)
class Merging:
    """The merging loop of one table; ``turn`` is called by one thread at a time."""

    name: str
    table: Table
    watched: Watched
    held: Held | None
    settings: Settings
    engine: MergeEngine
    ledger: Ledger
    interval_s: float
    shard: Shard | None = None
    stopping: Callable[[], bool] = lambda: False
    _seen: Observation | None = None
    _planned_s: float = 0.0
    _pending: deque[PlannedJob] = field(default_factory=deque)
    _moved: bool = False
    """Whether a job of this plan changed anything, so that another plan may find more."""
    _merged: dict[str, float] = field(default_factory=dict)
    _damaged: dict[str, tuple[float, str]] = field(default_factory=dict)

    def turn(self) -> float:
        """Do the next job, or look for some; answers in how many seconds the next turn is due."""
        now_s = self.table.world.clock.monotonic_s()
        if self.held is not None:
            check_held(self.table.log.poll(), self.held)
        if not self._pending or now_s - self._planned_s > self.interval_s:
            self._plan(now_s)
        if not self._pending or self.stopping():
            return self.interval_s
        assert self._seen is not None
        self._moved |= self._do(self._pending.popleft(), self._seen)
        if self._pending:
            return 0.0
        return 0.0 if self._moved else self.interval_s

    def look(self) -> tuple[Observation, tuple[PlannedJob, ...]]:
        """What there is, and what is to be done about it, as of now."""
        seen = observe(self.table, skip=self.settings.skip, left_out=frozenset(self._merged))
        if self.shard is not None:
            owned = tuple(one for one in seen.candidates if self.shard.owns(one.stream))
            seen = replace(seen, candidates=owned)
        free = tuple(one for one in seen.candidates if one.no_compact or one.ulid not in self._damaged)
        return seen, plan_seen(replace(seen, candidates=free), self.settings)

    @property
    def damaged(self) -> dict[str, str]:
        """What merges of this process found to be damaged lately: ULID to what is wrong."""
        return {ulid: problem for ulid, (_, problem) in self._damaged.items()}

    def show(self, jobs: tuple[PlannedJob, ...]) -> None:
        """Note a plan down."""
        self.ledger.planned(self.name, (planned_job(self.name, job, self.settings) for job in jobs))
        backlog = backlog_of(jobs)
        self.ledger.note(self.name, lambda status: replace(status, backlog=backlog))

    def _plan(self, now_s: float) -> None:
        self._forget(now_s)
        self._pending.clear()
        self._seen, jobs = self.look()
        self._pending.extend(jobs)
        self._planned_s, self._moved = now_s, False
        self.show(jobs)

    def _do(self, job: PlannedJob, seen: Observation) -> bool:
        """Carry out one job; answers whether anything changed."""
        running = self.ledger.begins(self.name, planned_job(self.name, job, self.settings))
        running = replace(running, state=JobState.RUNNING, phase=Phase.MERGING)
        self.watched.restart()
        with about(job=running.number):
            _logger.info(
                "merging %s: %s", job.details, job.reason, extra={"bytes": job.bytes, "rows": job.rows}
            )
            try:
                result = self._executor().run(job, seen)
            except Abandoned:
                self._ended(
                    replace(running, state=JobState.ABANDONED, problem="the process was told to stop")
                )
                raise
            except BaseException as error:
                self._pending.clear()
                self._ended(replace(running, state=JobState.FAILED, problem=" ".join(str(error).split())))
                raise
            self._ended(finished_job(running, result))
            return self._learned(result)

    def _executor(self) -> Executor:
        return Executor(
            table=self.table,
            skip=self.settings.skip,
            engine=self.engine,
            options=merge_options(self.settings),
        )

    def _ended(self, job: JobStatus) -> None:
        self.ledger.ended(self.name, job)

    def _learned(self, result: JobResult) -> bool:
        """What follows from a result; answers whether anything changed."""
        now_s = self.table.world.clock.monotonic_s()
        match result.outcome:
            case Outcome.CONFLICT:
                _logger.info("not merged, planned again: %s", result.problem)
                return False
            case Outcome.DAMAGED:
                assert result.damaged is not None
                self._pending.clear()
                return self._quarantine(result.damaged, result.problem, now_s)
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

    def _quarantine(self, ulid: str, problem: str, now_s: float) -> bool:
        """Keep merges away from a damaged block, over restarts too."""
        try:
            quarantine(self.table, ulid, problem)
        except BlockstoreError as error:
            _logger.warning("block %s could not be marked: %s", ulid, error, extra={"block": ulid})
        self._damaged[ulid] = (now_s, problem)
        return True

    def _forget(self, now_s: float) -> None:
        """What was learned of blocks counts for a while: the bucket says it by then, or it is to be tried again."""
        self._merged = {ulid: since for ulid, since in self._merged.items() if now_s - since < _REMEMBERED_S}
        self._damaged = {
            ulid: found for ulid, found in self._damaged.items() if now_s - found[0] < _REMEMBERED_S
        }

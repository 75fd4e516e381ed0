"""A job as the status shows it: planned, running, finished. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from blockstore.compactor.plan.jobs import PlannedJob
from blockstore.compactor.process.status import Backlog, JobState, JobStatus
from blockstore.compactor.run.report import JobResult, Outcome

_STATES = {
    Outcome.COMMITTED: JobState.COMMITTED,
    Outcome.UPLOADED: JobState.UPLOADED,
    Outcome.CONFLICT: JobState.CONFLICT,
    Outcome.DAMAGED: JobState.DAMAGED,
}


def planned_job(table: str, job: PlannedJob) -> JobStatus:
    """A job to be done."""
    return JobStatus(
        number=0,
        table=table,
        state=JobState.PLANNED,
        reason=str(job.reason),
        details=job.details,
        labels=dict(job.stream.labels),
        resolution=job.stream.resolution,
        level=job.level,
        inputs=tuple(block.ulid for block in job.inputs),
        blocks=len(job.inputs),
        rows=job.rows,
        bytes=job.bytes,
        min_time_ms=job.min_time,
        max_time_ms=job.max_time,
        memory_bytes=job.memory_bytes,
        disk_bytes=job.disk_bytes,
    )


def finished_job(running: JobStatus, result: JobResult) -> JobStatus:
    """The job as it ended."""
    done = result.outcome in (Outcome.COMMITTED, Outcome.UPLOADED)
    return replace(
        running,
        state=_STATES[result.outcome],
        progress=1.0 if done else running.progress,
        seconds=result.seconds,
        rows_per_s=result.rows / result.seconds if done and result.seconds > 0 else 0.0,
        block=result.block,
        version=result.version,
        rows_out=result.rows,
        bytes_out=result.bytes,
        problem=result.problem,
    )


def backlog_of(jobs: Iterable[PlannedJob]) -> tuple[Backlog, ...]:
    """The totals of a plan, by the level of its results."""
    levels: dict[int, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        levels[job.level].append(job)
    return tuple(
        Backlog(
            level=level,
            jobs=len(found),
            blocks=sum(len(job.inputs) for job in found),
            bytes=sum(job.bytes for job in found),
        )
        for level, found in sorted(levels.items())
    )

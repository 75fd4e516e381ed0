"""The report of a compaction run: jobs planned and jobs done, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from blockstore.cli.output import iso
from blockstore.compactor.plan.jobs import PlannedJob


class Outcome(StrEnum):
    """How a job ended."""

    COMMITTED = "committed"
    UPLOADED = "uploaded"
    """On a table without an index: the merged block is durable, and replaces its inputs once it
    has aged."""
    CONFLICT = "conflict"
    """Another operation changed an input meanwhile; nothing is lost, and the next pass plans
    again."""
    DAMAGED = "damaged"
    """An input does not match its meta.json; it is left out from now on, and the others are planned
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job and its outcome."""

    job: PlannedJob
    outcome: Outcome
    block: str | None = None
    """The merged block; None if there is none, or no row was left."""
    version: int | None = None
    rows: int = 0
    dropped_rows: int = 0
    bytes: int = 0
    chunks: int = 0
    seconds: float = 0.0
    problem: str = ""
    damaged: str | None = None
    """The input that is damaged."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A complete run."""

    url: str
    version: int | None
    """The version after the run; None without an index."""
    passes: int
    results: tuple[JobResult, ...]
    left_out: Mapping[str, str]
    """Damaged blocks: ULID to what is wrong."""

    @property
    def done(self) -> tuple[JobResult, ...]:
        """The jobs that were carried out."""
        done = (Outcome.COMMITTED, Outcome.UPLOADED)
        return tuple(result for result in self.results if result.outcome in done)

    def to_json(self) -> dict[str, object]:
        """The report as JSON."""
        return {
            "url": self.url,
            "version": self.version,
            "passes": self.passes,
            "jobs": [result_json(result) for result in self.results],
            "left_out": dict(self.left_out),
        }


def job_json(job: PlannedJob) -> dict[str, object]:
    """A planned job as JSON."""
    return {
        "reason": str(job.reason),
        "details": job.details,
        "labels": dict(job.stream.labels),
        "resolution": job.stream.resolution,
        "window": [iso(moment) for moment in job.window] if job.window else None,
        "level": job.level,
        "min_time": iso(job.min_time),
        "max_time": iso(job.max_time),
        "expected_rows": job.rows,
        "expected_bytes": job.bytes,
        "disk_bytes": job.disk_bytes,
        "memory_bytes": job.memory_bytes,
        "inputs": [
            _input_json(block.ulid, block.rows, block.bytes, block.level) for block in job.inputs
        ],
    }


def result_json(result: JobResult) -> dict[str, object]:
    """A job and its outcome as JSON."""
    return {
        **job_json(result.job),
        "outcome": str(result.outcome),
        "block": result.block,
        "version": result.version,
        "rows": result.rows,
        "dropped_rows": result.dropped_rows,
        "bytes": result.bytes,
        "chunks": result.chunks,
        "seconds": round(result.seconds, 3),
        "problem": result.problem,
        "notes": list(result.notes),
    }


def _input_json(ulid: str, rows: int, size: int, level: int) -> dict[str, object]:
    return {"ulid": ulid, "rows": rows, "bytes": size, "level": level}

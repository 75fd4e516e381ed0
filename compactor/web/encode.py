"""The process's status as the page's JSON: only what the page shows.

Rules:
- Times are milliseconds since the epoch, sizes bytes; nothing is formatted here.
- The first inputs of a job are named and all are counted: a status stays small whatever is merged.
"""

from __future__ import annotations

from collections import Counter

import orjson

from blockstore.compactor.process.combined import A_PAGE, page_of
from blockstore.compactor.process.status import (
    JobStatus,
    LoopStatus,
    Quarantined,
    Status,
    TableStatus,
)

_INPUTS = 12
_JOBS = 100
_QUARANTINED = 500


def encode_status(status: Status, text: str = "", page: int = 0) -> bytes:
    """The status as JSON for the page: the tables of one of its pages whose names have ``text`` in
    them, and the others as one."""
    shown, matching, others = page_of(status.tables, text, page)
    return orjson.dumps(
        {
            "url": status.url,
            "program": status.program,
            "started": status.started_ms,
            "now": status.now_ms,
            "role": status.role,
            "shard": status.shard,
            "merges": status.merges,
            "stopping": status.stopping,
            "not_ready": status.not_ready,
            "unhealthy": status.unhealthy,
            "month_cost": dict(status.month_cost),
            "loops": [_loop(loop) for loop in status.loops],
            "tables": [_table(table) for table in shown],
            "others": None if others is None else _table(others),
            "page": page,
            "page_size": A_PAGE,
            "matching": matching,
            "count": len(status.tables),
            "healths": Counter(str(one.health) for one in status.tables),
        }
    )


def _table(table: TableStatus) -> dict[str, object]:
    return {
        "name": table.name,
        "url": table.url,
        "health": str(table.health),
        "problem": table.problem,
        "fix": table.fix,
        "since": table.since_ms,
        "resting": table.resting,
        "indexed": table.indexed,
        "version": table.version,
        "boundary": table.boundary,
        "horizon": table.horizon,
        "floor": table.floor,
        "blocks": table.blocks,
        "rows": table.rows,
        "bytes": table.bytes,
        "read_amplification": table.read_amplification,
        "seen": table.seen_ms,
        "backlog": [
            {"level": one.level, "jobs": one.jobs, "blocks": one.blocks, "bytes": one.bytes}
            for one in table.backlog
        ],
        "backlog_jobs": table.backlog_jobs,
        "backlog_bytes": table.backlog_bytes,
        "last_success": table.last_success_ms,
        "waiting": table.waiting,
        "kept": table.kept,
        "kept_bytes": table.kept_bytes,
        "planned": [_job(job) for job in table.planned[:_JOBS]],
        "planned_count": len(table.planned),
        "running": [_job(job) for job in table.running],
        "finished": [_job(job) for job in table.finished[:_JOBS]],
        "quarantined": [_quarantined(one) for one in table.quarantined[:_QUARANTINED]],
        "quarantined_count": len(table.quarantined),
        "loops": [_loop(loop) for loop in table.loops],
        "totals": {
            "jobs": dict(table.totals.jobs),
            "merged_rows": table.totals.merged_rows,
            "merged_bytes": table.totals.merged_bytes,
            "merge_seconds": table.totals.merge_seconds,
            "discovered": table.totals.discovered,
            "marked": table.totals.marked,
            "removed": table.totals.removed,
            "removed_bytes": table.totals.removed_bytes,
            "retired": table.totals.retired,
        },
    }


def _job(job: JobStatus) -> dict[str, object]:
    return {
        "number": job.number,
        "state": str(job.state),
        "reason": job.reason,
        "details": job.details,
        "stream": {"labels": dict(job.labels), "resolution": job.resolution},
        "level": job.level,
        "inputs": list(job.inputs[:_INPUTS]),
        "input_count": job.blocks,
        "rows": job.rows,
        "bytes": job.bytes,
        "min": job.min_time_ms,
        "max": job.max_time_ms,
        "memory": job.memory_bytes,
        "disk": job.disk_bytes,
        "started": job.started_ms,
        "ended": job.ended_ms,
        "progress": round(job.progress, 4),
        "seconds": job.seconds,
        "rows_per_s": job.rows_per_s,
        "block": job.block,
        "version": job.version,
        "rows_out": job.rows_out,
        "bytes_out": job.bytes_out,
        "problem": job.problem,
    }


def _quarantined(one: Quarantined) -> dict[str, object]:
    return {
        "ulid": one.ulid,
        "reason": one.reason,
        "since": one.since_ms,
        "look": one.look,
        "command": one.command,
    }


def _loop(loop: LoopStatus) -> dict[str, object]:
    return {
        "name": loop.name,
        "interval_s": loop.interval_s,
        "running": loop.running,
        "started": loop.last_start_ms,
        "success": loop.last_success_ms,
        "failure": loop.last_failure_ms,
        "next": loop.next_ms,
        "failures": loop.failures,
        "runs": loop.runs,
        "problem": loop.problem,
        "seconds": loop.seconds,
    }

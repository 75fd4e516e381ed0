"""The line of a job that has ended at this gateway, whichever gateway took it.

Its ``id`` is that in ``job`` of the statement's line. The text is in that line, and not here.
"""

from __future__ import annotations

from blockstore.reader.jobs.store import Job


def line_of_job(job: Job, token: str | None) -> dict[str, object]:
    """The record. ``token``: the name of its owner; None if this gateway does not know it."""
    request, outcome = job.request, job.outcome
    assert outcome is not None, "the job has ended"
    result, written, failure = outcome.result, outcome.written or {}, outcome.failure
    version = written.get("version")
    known = isinstance(version, int) and request.table is not None
    return {
        "event": "job",
        "id": job.id,
        "began_ms": request.created_ms,
        "ended_ms": outcome.ended_ms,
        "token": token,
        "owner": request.owner,
        "kind": str(request.kind),
        "table": request.table,
        "state": str(outcome.state),
        "read": {} if result is None else dict(sorted(result.versions.items())),
        "committed": {request.table: version} if known else {},
        "rows": written.get("rows") if result is None else result.rows,
        "bytes": None if result is None else result.bytes,
        "error": None if failure is None else " ".join(failure.message.split())[:1_000],
    }

"""Which jobs a caller sees, by what it may do now.

Rules:
- A job is seen by the token that asked for it, and by admins, while they could ask for it today:
  with the scope that this takes, and of tables that they may all know of. What the asker might when
  it asked counts for nothing.
- The tables of a job are those that its result says it read, or the one that an upload or a
  download was asked for by name. Where neither is known (SQL that has not ended, a result of an
  older release), and where it failed, since what is said then may name tables that are near, they
  are all that its asker might know of then.
"""

from __future__ import annotations

from collections.abc import Collection

from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import Kind, Request
from blockstore.reader.jobs.store import Job


def concerns(caller: Caller, request: Request) -> bool:
    """Whether the caller asked for it, or is an admin; nobody else sees it, whatever became of
    it."""
    return request.owner == caller.fingerprint or caller.may(Scope.ADMIN)


def sees(caller: Caller, job: Job) -> bool:
    """Whether the caller may know of the job, its result and its failure now."""
    needed = Scope.WRITE if job.request.kind is Kind.UPLOAD else Scope.READ
    if not concerns(caller, job.request) or not caller.may(needed):
        return False
    if caller.tables is None:
        return True
    tables = _tables(job)
    return tables is not None and caller.tables.issuperset(tables)


def _tables(job: Job) -> Collection[str] | None:
    """The tables that the job may tell of; None for any."""
    outcome, named = job.outcome, job.request.table
    result = None if outcome is None else outcome.result
    if result is not None and result.tables is not None:
        return result.tables
    failed = outcome is not None and outcome.failure is not None
    if named is None or result is not None or failed:
        return job.request.allowed
    return (named,)

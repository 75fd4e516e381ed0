"""Which jobs a caller may see, by its present permissions.

Rules:
- A job is visible to the token that submitted it and to admins, as long as they could submit it
  today: with the scope that it needs, and with access to all its tables. The permissions at the
  time of submission do not count.
- The tables of a job are those that its result says it read, or the one that an upload or a
  download names. Where neither is known (SQL that has not ended, a result of an older release), and
  where the job failed (the message may name similar tables), they are all tables that its owner
  could know then.
"""

from __future__ import annotations

from collections.abc import Collection

from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import CALL, Kind, Request
from blockstore.reader.jobs.store import Job
from blockstore.reader.tables.names import covers


def concerns(caller: Caller, request: Request) -> bool:
    """Whether the caller submitted the job or is an admin; no other caller ever sees it."""
    return request.owner == caller.fingerprint or caller.may(Scope.ADMIN)


def sees(caller: Caller, job: Job) -> bool:
    """Whether the caller may see the job, its result and its failure now."""
    if not concerns(caller, job.request) or not caller.may(_needed(job.request)):
        return False
    return covers(caller.tables, _tables(job))


def _needed(request: Request) -> Scope:
    """The scope that submits such a job."""
    if request.kind is Kind.TABLE or request.what == CALL:
        return Scope.DDL
    return Scope.WRITE if request.kind.writes else Scope.READ


def _tables(job: Job) -> Collection[str] | None:
    """The tables that the job may reveal; None for any."""
    outcome, named = job.outcome, job.request.table
    result = None if outcome is None else outcome.result
    if result is not None and result.tables is not None:
        return result.tables
    failed = outcome is not None and outcome.failure is not None
    if named is None or result is not None or failed:
        return job.request.allowed
    return (named,)

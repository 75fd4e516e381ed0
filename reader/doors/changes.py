"""Statements that change something, as every door runs them.

Rules:
- A statement is a job: with a key it happens once, however often it is sent, and a gateway that
  dies leaves it complete or absent.
- A change of rows needs the scopes ``read`` and ``write``, a statement about a table ``ddl``, and
  a CALL that goes back to other rows ``ddl`` and ``write``. Each reaches only the tables of its
  token.
- One statement a call, or those from BEGIN to COMMIT, and no RETURNING: the job has counts, and the
  version to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import orjson

from blockstore.client.parameters import sendable
from blockstore.errors import Invalid
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.definitions import (
    check_room,
    makes_new,
    request_of_definition,
    sent_before,
)
from blockstore.reader.doors.submitted import Submitted, allowed_of, ended, job_id, submit
from blockstore.reader.errors import BadSql
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import CALL
from blockstore.reader.jobs.record import Kind as JobKind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.statements import call_of, changes_in, sent
from blockstore.reader.jobs.store import Job
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.query.task import Parameters
from blockstore.reader.statements.calling import Call
from blockstore.reader.statements.reading import read_dml
from blockstore.reader.statements.texts import Kind, Text, split
from blockstore.reader.statements.transaction import Block

_OTHERS = frozenset({Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.CALL})
"""What changes something beside the statements that change rows or define tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A statement as a caller sends it."""

    sql: str
    parameters: Parameters = None
    message: str = ""
    """Kept with the version."""
    key: str | None = None
    """The same key of the same token is the same change, which happens once."""


def is_query(gateway: Gateway, sql: str) -> bool:
    """Whether a text is run as a query: no statement of it changes anything. A text that cannot be
    parsed is one too: running it says why."""
    try:
        texts = split(gateway.engine.syntax, sql)
    except BadSql:
        return True
    return not any(one.changes or one.defines or one.kind in _OTHERS for one in texts)


def changed(
    gateway: Gateway,
    caller: Caller,
    change: Change,
    *,
    wait_s: float,
    gone: Callable[[], bool] = lambda: False,
) -> Job:
    """Carry out a statement that changes rows or defines a table; return its job, ended unless
    ``wait_s`` have passed.
    If the client is ``gone`` meanwhile, the job is cancelled.

    Raises BadSql and Invalid for a statement that no job carries out, and Problem for one that
    failed; then nothing was changed.
    """
    one = submitted(gateway, caller, change)
    return ended(gateway, one.job, one.wanted, one.made, wait_s, gone)


def submitted(gateway: Gateway, caller: Caller, change: Change) -> Submitted:
    """Make a job of a statement, as ``changed``, and do not wait for it."""
    if not any(map(caller.may, (Scope.WRITE, Scope.DDL))):
        check_scope(caller, Scope.WRITE)
    gateway.need_jobs()
    job = job_id(gateway, caller, change.key)
    step = sent(gateway.engine, change.sql)
    wanted = request_of(gateway, caller, step, change, None if change.key is None else job)
    check_room(gateway, wanted, job, new=makes_new(step))
    body = {"sql": change.sql, "parameters": sendable(change.parameters), "message": change.message}
    data = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    if len(data) > gateway.settings.http.max_body_bytes:
        raise Invalid(
            f"the statement and its parameters have {len(data):,} bytes, and the limit is "
            f"{gateway.settings.http.max_body_bytes:,}: load rows from a file or by ingest"
        )
    return Submitted(job=job, wanted=wanted, made=submit(gateway, job, wanted, data))


def request_of(
    gateway: Gateway, caller: Caller, step: Text | Block, change: Change, job: str | None
) -> JobRequest:
    """The request of a job for a statement, or a transaction, over the tables that there are now;
    that of the ``job`` where it is about a table, and was sent before. Raises BadSql, Invalid and
    Problem for one that no job carries out."""
    call = call_of(step)
    if isinstance(step, Text) and (step.defines or (call is not None and call.undrops)):
        return request_of_definition(gateway, caller, step, change.message, change.parameters, job)
    if call is not None:
        return _job_of_call(gateway, caller, call, change, job)
    return _job_of_rows(gateway, caller, step, change.message)


def _job_of_call(
    gateway: Gateway, caller: Caller, call: Call, change: Change, job: str | None
) -> JobRequest:
    check_scope(caller, Scope.DDL)
    if call.changes:
        check_scope(caller, Scope.WRITE)
    if change.parameters:
        raise BadSql("CALL takes no parameters: write the values into the statement")
    before = None if job is None else sent_before(gateway, caller, job)
    if before is not None:
        return before
    wanted = _on_table(gateway, caller, call.name, change.message)
    return replace(wanted, what=CALL)


def _job_of_rows(gateway: Gateway, caller: Caller, step: Text | Block, message: str) -> JobRequest:
    check_scope(caller, Scope.READ)
    check_scope(caller, Scope.WRITE)
    each = [read_dml(one.sql) for one in changes_in(step)]
    if any(dml.returning is not None for dml in each):
        raise BadSql(
            "RETURNING is not possible here: read the rows with a query after the statement, with "
            "min_version"
        )
    return _on_table(gateway, caller, each[0].target.name, message)


def _on_table(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, which a statement needs to happen once")
    version, commit = identity_of(handle.bucket, gateway.world)
    wanted = JobRequest(
        kind=JobKind.STATEMENT,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="json",
        allowed=allowed_of(caller),
        message=message,
    )
    return replace(wanted, table=name, table_version=version, table_commit=commit)


def rows_changed(job: Job) -> int | None:
    """How many rows a job wrote; None while it has not ended, or where it is not known."""
    written = {} if job.outcome is None else job.outcome.written or {}
    rows = written.get("rows")
    return rows if isinstance(rows, int) else None

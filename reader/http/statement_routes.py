"""SQL that changes rows, over HTTP.

Rules:
- A statement is a job: with an Idempotency-Key it happens once, however often it is sent, and a
  gateway that dies leaves it complete or absent. The request waits for its end for some seconds.
- It needs the scopes ``read`` and ``write``, and reaches only the tables of its token.
- One statement a request, or those from BEGIN to COMMIT, and no RETURNING: the response has
  counts, and the version to read.
"""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from blockstore.reader.errors import BadSql
from blockstore.reader.http.callers import Here, Reading, check_scope
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import StatementBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import allowed_of, ended_answer, id_of, key_of, taken
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.statements import changes_in, check_takes, step_of
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.statements.reading import read_dml

router = APIRouter(responses=ERRORS, tags=["rows"])


@router.post("/v1/statements", responses=CHANGED)
async def statement(
    request: Request, gateway: Here, caller: Reading, body: StatementBody, wait: Wait = 10.0
) -> Response:
    """Carry out one INSERT, UPDATE, DELETE, MERGE or TRUNCATE, or several from BEGIN to COMMIT."""
    jobs = gateway.need_jobs()
    check_scope(caller, Scope.WRITE)
    key = key_of(request)
    job = gateway.world.ids.ulid() if key is None else id_of(caller, key)
    wanted = JobRequest(
        kind=Kind.STATEMENT,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="json",
        allowed=allowed_of(caller),
        message=body.message,
    )
    wanted = await in_thread(lambda: _of_table(gateway, caller, body.sql, wanted))
    made = await taken(gateway, jobs, job, wanted, await request.body())
    return await ended_answer(gateway, jobs, job, wanted, made, wait)


def _of_table(gateway: Gateway, caller: Caller, sql: str, wanted: JobRequest) -> JobRequest:
    """The request, for the table that there is now. Raises BadSql and Problem for a statement that
    no job carries out."""
    step = step_of(gateway.engine, sql)
    each = [read_dml(one.sql) for one in changes_in(step)]
    if any(dml.returning is not None for dml in each):
        raise BadSql(
            "RETURNING is not possible here: read the rows with a query after the statement, with "
            "min_version"
        )
    name = gateway.tables.find(each[0].target.name, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, which a statement needs to happen once")
    check_takes(name, handle.definition, step)
    version, commit = identity_of(handle.bucket, gateway.world)
    return replace(wanted, table=name, table_version=version, table_commit=commit)

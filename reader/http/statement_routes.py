"""SQL that changes rows, over HTTP.

Rules:
- A statement is a job: with an Idempotency-Key it happens once, however often it is sent, and a
  gateway that dies leaves it complete or absent. The request waits for its end for some seconds.
- It needs the scopes ``read`` and ``write``, and reaches only the tables of its token.
- One statement a request, or those from BEGIN to COMMIT, and no RETURNING: the response has
  counts, and the version to read.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from blockstore.reader.audit import running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.changes import job_of_change
from blockstore.reader.doors.definitions import job_of_definition, makes_new
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import StatementBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import KEY, ended_answer, job_of, taken
from blockstore.reader.http.table_changes import submitted
from blockstore.reader.http.tokens import Scope
from blockstore.reader.jobs.statements import sent
from blockstore.reader.statements.texts import Text

router = APIRouter(responses=ERRORS, tags=["rows"])


@router.post("/v1/statements", responses=CHANGED)
async def statement(
    request: Request, gateway: Here, caller: Known, body: StatementBody, wait: Wait = 10.0
) -> Response:
    """Carry out one INSERT, UPDATE, DELETE, MERGE or TRUNCATE, or several from BEGIN to COMMIT
    (scopes read and write); or one CREATE TABLE, ALTER TABLE or DROP TABLE (scope ddl)."""
    running().text = body.sql
    gateway.need_jobs()
    if not any(map(caller.may, (Scope.WRITE, Scope.DDL))):
        check_scope(caller, Scope.WRITE)
    step = await in_thread(lambda: sent(gateway.engine, body.sql))
    if isinstance(step, Text) and step.defines:
        check_scope(caller, Scope.DDL)
        job = job_of(request, gateway, caller) if KEY in request.headers else None
        wanted = await in_thread(
            lambda: job_of_definition(gateway, caller, step, body.message, body.parameters, job)
        )
        content = await request.body()
        return await submitted(request, gateway, caller, wanted, content, wait, new=makes_new(step))
    check_scope(caller, Scope.READ)
    check_scope(caller, Scope.WRITE)
    job = job_of(request, gateway, caller)
    wanted = await in_thread(lambda: job_of_change(gateway, caller, step, body.message))
    made = await taken(gateway, job, wanted, await request.body())
    return await ended_answer(gateway, job, wanted, made, wait)

"""SQL that changes rows or tables, over HTTP.

Rules:
- A statement is a job: with an Idempotency-Key it happens once, however often it is sent, and a
  gateway that dies leaves it complete or absent. The request waits for its end for some seconds.
- Which scopes it needs is said by ``doors/changes.py``; it reaches only the tables of its token.
- One statement a request, or those from BEGIN to COMMIT, and no RETURNING: the response has
  counts, and the version to read.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from blockstore.reader.audit import running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.changes import Change, request_of
from blockstore.reader.doors.definitions import makes_new
from blockstore.reader.forms.parameters import from_json
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import StatementBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import KEY, job_of
from blockstore.reader.http.table_changes import submitted
from blockstore.reader.http.tokens import Scope
from blockstore.reader.jobs.statements import sent

router = APIRouter(responses=ERRORS, tags=["rows"])


@router.post("/v1/statements", responses=CHANGED)
async def statement(
    request: Request, gateway: Here, caller: Known, body: StatementBody, wait: Wait = 10.0
) -> Response:
    """Carry out one INSERT, UPDATE, DELETE, MERGE or TRUNCATE, or several from BEGIN to COMMIT
    (scopes read and write); or one CREATE TABLE, ALTER TABLE, DROP TABLE, UNDROP or CALL (scope
    ddl, and write where rows change)."""
    running().text = body.sql
    from_json(body.parameters)
    gateway.need_jobs()
    if not any(map(caller.may, (Scope.WRITE, Scope.DDL))):
        check_scope(caller, Scope.WRITE)
    step = await in_thread(lambda: sent(gateway.engine, body.sql))
    change = Change(sql=body.sql, parameters=body.parameters, message=body.message)
    known = job_of(request, gateway, caller) if KEY in request.headers else None
    wanted = await in_thread(lambda: request_of(gateway, caller, step, change, known))
    content = await request.body()
    return await submitted(request, gateway, caller, wanted, content, wait, new=makes_new(step))

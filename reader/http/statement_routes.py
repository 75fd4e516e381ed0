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

from blockstore.errors import TableDropped
from blockstore.reader.audit import running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.changes import job_of_change
from blockstore.reader.errors import BadSql, UnknownTable
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import StatementBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import KEY, ended_answer, job_of, taken
from blockstore.reader.http.table_changes import altering, check_new, creating, dropping, submitted
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.definitions import altered, created, may_exist, parsed
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.statements import sent
from blockstore.reader.jobs.tables import What
from blockstore.reader.statements.altering import Alter
from blockstore.reader.statements.defining import Create
from blockstore.reader.statements.dropping import Drop
from blockstore.reader.statements.texts import Kind as SqlKind
from blockstore.reader.statements.texts import Text
from blockstore.reader.tables.names import folded

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
        sent_before = job_of(request, gateway, caller) if KEY in request.headers else None
        wanted = await in_thread(
            lambda: (
                _before(gateway, caller, sent_before) or _of_definition(gateway, caller, step, body)
            )
        )
        content = await request.body()
        new = step.kind is SqlKind.CREATE and not may_exist(step)
        return await submitted(request, gateway, caller, wanted, content, wait, new=new)
    check_scope(caller, Scope.READ)
    check_scope(caller, Scope.WRITE)
    job = job_of(request, gateway, caller)
    wanted = await in_thread(lambda: job_of_change(gateway, caller, step, body.message))
    made = await taken(gateway, job, wanted, await request.body())
    return await ended_answer(gateway, job, wanted, made, wait)


def _before(gateway: Gateway, caller: Caller, job: str | None) -> JobRequest | None:
    """The request that was sent with this key before: what it would mean by now does not count."""
    store = gateway.need_jobs().store
    if job is None or not store.sketch(job).submitted:
        return None
    found = store.request(job)
    return found if found.table is None or caller.knows(found.table) else None


def _of_definition(gateway: Gateway, caller: Caller, text: Text, body: StatementBody) -> JobRequest:
    """The request of a statement that defines a table; without a table where it has nothing to do.
    Raises BadSql, Invalid and Problem for one that no job carries out."""
    if body.parameters:
        raise BadSql(f"{text.kind} TABLE takes no parameters: write the values into the statement")
    match parsed(text):
        case Create() as create:
            check_new(caller, create.name)
            created(gateway.engine, text)
            wanted = creating(gateway, caller, create.name, body.message)
            if create.if_not_exists:
                own = (one for one in gateway.tables.names() if folded(one) == folded(create.name))
                wanted = replace(wanted, table=next(own, create.name))
            return wanted
        case Alter() as alter:
            try:
                wanted = altering(gateway, caller, alter.name, body.message)
            except (UnknownTable, TableDropped):
                if not alter.if_exists:
                    raise
                return _nothing(gateway, caller, body, What.ALTER)
            assert wanted.table is not None, "an alteration names its table"
            # Another gateway may have altered it just now.
            gateway.tables.poll_now(wanted.table)
            handle = gateway.tables.table(wanted.table, caller.tables)
            altered(gateway.engine, text, handle.definition)
            return wanted
        case Drop() as drop:
            try:
                return dropping(gateway, caller, drop.name, body.message)
            except (UnknownTable, TableDropped):
                if not drop.if_exists:
                    raise
            return _nothing(gateway, caller, body, What.DROP)


def _nothing(gateway: Gateway, caller: Caller, body: StatementBody, what: What) -> JobRequest:
    """The request of a statement about a table that need not exist, and does not."""
    return replace(creating(gateway, caller, "", body.message), what=what, table=None)

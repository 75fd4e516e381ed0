"""Tables over HTTP: create, alter, drop and bring back. All are jobs, as changes of rows are."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from blockstore.bucket import Bucket
from blockstore.index.presence import exists
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.submitted import allowed_of
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import AlterBody, TableBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import ended_answer, job_of, taken
from blockstore.reader.http.table_routes import Name
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.tables import What, alteration_of, check_name, definition_of
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.tables.lake import table_name
from blockstore.reader.tables.names import folded

router = APIRouter(responses=ERRORS, tags=["tables"])

Message = Annotated[str, Query(max_length=1_000, description="A comment for the history")]


@router.post("/v1/tables", responses=CHANGED)
async def create(
    request: Request, gateway: Here, caller: Known, body: TableBody, wait: Wait = 10.0
) -> Response:
    """Create a table in the first lake of this gateway."""
    check_scope(caller, Scope.DDL)
    check_new(caller, body.name)
    found = body.model_dump()
    definition_of(found)
    wanted = creating(gateway, caller, body.name, "")
    return await _submitted(request, gateway, caller, wanted, found, wait)


@router.patch("/v1/tables/{table:path}", responses=CHANGED)
async def alter(
    request: Request, gateway: Here, caller: Known, table: Name, body: AlterBody, wait: Wait = 10.0
) -> Response:
    """Alter a table: its columns, their rules, its properties. No block is changed."""
    check_scope(caller, Scope.DDL)
    found = body.model_dump()
    alteration_of(found)
    wanted = await in_thread(lambda: altering(gateway, caller, table, body.message))
    return await _submitted(request, gateway, caller, wanted, found, wait)


@router.delete("/v1/tables/{table:path}", responses=CHANGED)
async def drop(
    request: Request,
    gateway: Here,
    caller: Known,
    table: Name,
    message: Message = "",
    wait: Wait = 10.0,
) -> Response:
    """Drop a table. Its name is free at once, and it can be brought back for its delete_delay."""
    check_scope(caller, Scope.DDL)
    wanted = await in_thread(lambda: dropping(gateway, caller, table, message))
    return await _submitted(request, gateway, caller, wanted, {}, wait)


@router.post("/v1/tables/{table:path}/undrop", responses=CHANGED)
async def undrop(
    request: Request,
    gateway: Here,
    caller: Known,
    table: Name,
    message: Message = "",
    wait: Wait = 10.0,
) -> Response:
    """Bring a dropped table back, as it was."""
    check_scope(caller, Scope.DDL)

    def known() -> JobRequest:
        bucket = gateway.tables.bucket_of(table, caller.tables)
        return _of_life(gateway, caller, What.UNDROP, table_name(bucket), bucket, message)

    return await _submitted(request, gateway, caller, await in_thread(known), {}, wait)


def check_new(caller: Caller, name: str) -> None:
    """Raise Invalid and Problem for a name that a new table of this caller cannot have."""
    check_name(name)
    if not caller.knows(name):
        raise Problem(
            403, f"the token {caller.name!r} is for some tables, and {name} is none of them"
        )


def creating(gateway: Gateway, caller: Caller, name: str, message: str) -> JobRequest:
    """The request to create a table."""
    return _wanted(gateway, caller, What.CREATE, name, message)


def altering(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    """The request to alter the table that there is now. Raises UnknownTable and Problem."""
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, which an alter by HTTP needs")
    version, commit = identity_of(handle.bucket, gateway.world)
    wanted = _wanted(gateway, caller, What.ALTER, name, message)
    return replace(wanted, table_version=version, table_commit=commit)


def dropping(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    """The request to drop the table that there is now. Raises UnknownTable and Problem."""
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, in which a drop could be undone")
    return _of_life(gateway, caller, What.DROP, name, handle.bucket, message)


def _of_life(
    gateway: Gateway, caller: Caller, what: What, name: str, bucket: Bucket, message: str
) -> JobRequest:
    version, commit = identity_of(bucket, gateway.world, dropped=True)
    wanted = _wanted(gateway, caller, what, name, message)
    return replace(wanted, table_version=version, table_commit=commit)


def _wanted(gateway: Gateway, caller: Caller, what: What, name: str, message: str) -> JobRequest:
    return JobRequest(
        kind=Kind.TABLE,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="json",
        allowed=allowed_of(caller),
        table=name,
        message=message,
        what=what,
    )


async def _submitted(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    wanted: JobRequest,
    body: dict[str, object],
    wait_s: float,
) -> Response:
    return await submitted(request, gateway, caller, wanted, orjson.dumps(body), wait_s, new=True)


async def submitted(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    wanted: JobRequest,
    body: bytes,
    wait_s: float,
    *,
    new: bool,
) -> Response:
    """The response to a change of a table, once it has ended. ``new``: raise Problem where there is
    a table of the name already."""
    jobs = gateway.need_jobs()
    job = job_of(request, gateway, caller)

    def check() -> None:
        if wanted.what != What.CREATE or jobs.store.sketch(job).submitted:
            return
        if exists(gateway.lake):
            raise Problem(409, "this gateway serves a table and no lake, which could hold others")
        assert wanted.table is not None, "a table that is created has a name"
        if new and any(folded(name) == folded(wanted.table) for name in gateway.tables.names()):
            raise Problem(409, f"there is already a table {wanted.table} here: choose another name")

    await in_thread(check)
    made = await taken(gateway, job, wanted, body)
    return await ended_answer(gateway, job, wanted, made, wait_s)

"""Tables over HTTP: create, alter, drop and bring back. All are jobs, as changes of rows are."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.definitions import (
    altering,
    check_new,
    check_room,
    creating,
    dropping,
    undropping,
)
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import CHANGED, Wait
from blockstore.reader.http.shapes import AlterBody, TableBody
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import ended_answer, job_of, taken
from blockstore.reader.http.table_routes import Name
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.bodies import alteration_of, definition_of
from blockstore.reader.jobs.record import Request as JobRequest

router = APIRouter(responses=ERRORS, tags=["tables"])

Message = Annotated[str, Query(max_length=1_000, description="A comment for the history")]


@router.post("/v1/tables", responses=CHANGED)
async def create(
    request: Request, gateway: Here, caller: Known, body: TableBody, wait: Wait = 10.0
) -> Response:
    """Create a table in the first lake of this gateway."""
    check_scope(caller, Scope.DDL)
    check_new(caller, body.name)
    # In a typed table a limit that is left out is another one than null.
    found = body.model_dump(exclude_unset=body.typed)
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
    wanted = await in_thread(lambda: undropping(gateway, caller, table, message))
    return await _submitted(request, gateway, caller, wanted, {}, wait)


async def _submitted(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    wanted: JobRequest,
    body: dict[str, object],
    wait_s: float,
) -> Response:
    # Integers of any length are kept.
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return await submitted(request, gateway, caller, wanted, content, wait_s, new=True)


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
    job = job_of(request, gateway, caller)
    await in_thread(lambda: check_room(gateway, wanted, job, new=new))
    made = await taken(gateway, job, wanted, body)
    return await ended_answer(gateway, job, wanted, made, wait_s)

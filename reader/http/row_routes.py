"""Rows over HTTP: put complete rows, change some cells, delete rows, and read versions of a row.

Rules:
- Every change is a job: with an Idempotency-Key it happens once, however often it is sent, and a
  gateway that dies leaves it complete or absent. The request waits for its end for some seconds.
- A change is one version. Rows that are not as the caller expects refuse all of it (409), and the
  response lists them.
- A row is named by its id, or by its key as text; a key of several columns is a JSON array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from blockstore.cli.row_names import row_named
from blockstore.cli.row_tables import rows_as_json
from blockstore.errors import Invalid
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.submitted import allowed_of
from blockstore.reader.http.callers import Here, Known, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.shapes import (
    CellsBody,
    JobShown,
    NamedBody,
    RowsBody,
    VersionsBody,
)
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.submitting import ended_answer, job_of, taken
from blockstore.reader.http.table_routes import MinVersion, Name, Version
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.rows import What, named_versions, parsed
from blockstore.reader.jobs.writing import identity_of
from blockstore.rows.versions import fetch, row_at, row_history


class _AnyText(Convertor[str]):
    """A part of a path with slashes and line breaks: a key may have them."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _AnyText())
router = APIRouter(responses=ERRORS, tags=["rows"])

Wait = Annotated[
    float,
    Query(ge=0, le=60, description="Seconds to wait for the end; after that the response is 202"),
]
RowName = Annotated[
    str,
    Path(
        description="The row id, or the value of the key; a JSON array of the values where the key "
        r"has several columns, or a slash, which is then written \u002f",
        max_length=10_000,
    ),
]
Labels = Annotated[
    Sequence[str],
    Query(
        description="With a key: a label of the row, `name=value`; may be repeated",
        max_length=100,
    ),
]
CHANGED: dict[int | str, dict[str, object]] = {
    200: {"model": JobShown, "description": "The change is done; `written` has its version"},
    202: {"model": JobShown, "description": "The change has not ended yet; look at its job"},
}


@router.post("/v1/tables/{table:path}/rows", responses=CHANGED)
async def put(
    request: Request, gateway: Here, caller: Known, table: Name, body: RowsBody, wait: Wait = 10.0
) -> Response:
    """Put complete rows into a table: new ones, and new versions of rows."""
    return await _changed(request, gateway, caller, table, What.PUT, body.message, wait)


@router.patch("/v1/tables/{table:path}/rows", responses=CHANGED)
async def cells(
    request: Request, gateway: Here, caller: Known, table: Name, body: CellsBody, wait: Wait = 10.0
) -> Response:
    """Change some cells of rows, which keep their others; add rows and delete rows with it."""
    if not (body.rows or body.new or body.delete):
        raise Invalid("the body has no rows, new or delete: give at least one of them a row")
    return await _changed(request, gateway, caller, table, What.CELLS, body.message, wait)


@router.delete("/v1/tables/{table:path}/rows", responses=CHANGED)
async def delete(
    request: Request, gateway: Here, caller: Known, table: Name, body: NamedBody, wait: Wait = 10.0
) -> Response:
    """Delete rows by id or key, with ``_version`` only those that still have that version. Those
    that do not exist are passed over, unless a version is named."""
    return await _changed(request, gateway, caller, table, What.DELETE, body.message, wait)


@router.post("/v1/tables/{table:path}/rows/fetch")
async def given(
    request: Request,
    gateway: Here,
    caller: Reading,
    table: Name,
    body: VersionsBody,
    min_version: MinVersion = None,
) -> dict[str, object]:
    """Given versions of given rows, also of rows that are deleted, in the order in which they are
    named. If one of them is not kept, the response is 404 and has none."""
    rows = parsed(await request.body())["rows"]

    def found() -> dict[str, object]:
        view = gateway.tables.at_least(table, min_version, caller.tables)
        versions = fetch(
            view.bucket,
            view.world,
            view.snapshot,
            named_versions(rows, view.definition),
            labels=body.labels,
            reads=gateway.reads,
        )
        return {"table": table, "version": view.version, "rows": rows_as_json(versions)}

    return await in_thread(found)


@router.get("/v1/tables/{table:path}/rows/{row:text}/history")
def versions(
    gateway: Here,
    caller: Reading,
    table: Name,
    row: RowName,
    min_version: MinVersion = None,
    label: Labels = (),
) -> dict[str, object]:
    """All versions of a row that are kept, the newest first; of rows with any labels, unless these
    are named."""
    view = gateway.tables.at_least(table, min_version, caller.tables)
    named = row_named(row, view.definition)
    labels = labels_of(label)
    found = row_history(
        view.bucket, view.world, view.snapshot, named, labels=labels, reads=gateway.reads
    )
    return {"table": table, "version": view.version, "rows": rows_as_json(found)}


@router.get("/v1/tables/{table:path}/rows/{row:text}")
def one(
    gateway: Here,
    caller: Reading,
    table: Name,
    row: RowName,
    version: Version = None,
    min_version: MinVersion = None,
    label: Labels = (),
) -> dict[str, object]:
    """A row as it is, or as it was in a version."""
    view = gateway.tables.at_least(table, min_version, caller.tables)
    named = row_named(row, view.definition)
    labels = labels_of(label)
    found = row_at(
        view.bucket,
        view.world,
        view.snapshot,
        named,
        version=version,
        labels=labels,
        reads=gateway.reads,
    )
    return {"table": table, "version": view.version, "row": rows_as_json(found)[0]}


def labels_of(words: Sequence[str]) -> dict[str, str] | None:
    """The labels of a request; None for any. Raises Invalid."""
    pairs = [word.partition("=") for word in words]
    if any(not name or not sign for name, sign, _ in pairs):
        raise Invalid(f"label is {list(words)!r}, expected name=value each")
    return {name: value for name, _, value in pairs} or None


async def _changed(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    table: str,
    what: What,
    message: str,
    wait_s: float,
) -> Response:
    gateway.need_jobs()
    check_scope(caller, Scope.WRITE)
    job = job_of(request, gateway, caller)
    wanted = JobRequest(
        kind=Kind.ROWS,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="json",
        allowed=allowed_of(caller),
        message=message,
        what=what,
    )
    wanted = await in_thread(lambda: _of_table(gateway, caller, table, wanted))
    made = await taken(gateway, job, wanted, await request.body())
    return await ended_answer(gateway, job, wanted, made, wait_s)


def _of_table(gateway: Gateway, caller: Caller, table: str, wanted: JobRequest) -> JobRequest:
    """The request, for the table that there is now. Raises Problem for one whose rows cannot be
    named."""
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed or handle.definition.identity is None:
        raise Problem(
            409,
            f"the rows of table {name} have neither ids nor a key, so that none of them can be "
            "changed: append rows with an upload, or create the table with row ids or a key",
        )
    version, commit = identity_of(handle.bucket, gateway.world)
    return replace(wanted, table=name, table_version=version, table_commit=commit)

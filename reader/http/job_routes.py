"""Jobs over HTTP: submit a job, query its state, fetch its file, cancel it.

Rules:
- ``job_visibility.py`` decides who sees a job; for every other caller it does not exist.
- ``submitting.py`` has the rules of submission.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from blockstore.bucket import Bucket
from blockstore.errors import (
    Corrupt,
    Invalid,
    NewerFormat,
    NotFound,
    ObjectMissing,
)
from blockstore.format.identity import VERSION, Key
from blockstore.names import is_ulid
from blockstore.reader.audit import running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.submitted import allowed_of
from blockstore.reader.doors.submitted import cancel as cancel_job
from blockstore.reader.errors import BadSql, Restricted, UnknownTable
from blockstore.reader.forms.encode import Form
from blockstore.reader.http.callers import Here, Known, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.job_visibility import concerns, sees
from blockstore.reader.http.negotiate import MEDIA_TYPES
from blockstore.reader.http.problems import Problem, sentence
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.receiving import headed
from blockstore.reader.http.shapes import JobBody, JobShown, JobsShown
from blockstore.reader.http.streaming import Patience, Streamed, first_piece, in_thread
from blockstore.reader.http.submitting import (
    check_plain,
    check_text,
    check_wide,
    is_wide,
    job_answer,
    job_of,
    shown_of,
    uploaded,
)
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.arrow_file import ARROW, Mode
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job
from blockstore.reader.jobs.upload import APPEND, INSERT, UPSERT
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.tables import At

router = APIRouter(responses=ERRORS, tags=["jobs"])

_logger = logging.getLogger(__name__)

FORMS = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    MEDIA_TYPES[Form.ARROW]: ARROW,
}
"""The media types of uploads, and the form of each."""
_MODES = {APPEND: Mode.APPEND, INSERT: Mode.APPEND, UPSERT: Mode.UPSERT}
"""What is done with the rows of an Arrow stream: an append refuses keys that exist."""
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LISTED = 1_000
_PLACE = f"^[0-9]{{1,16}}-[{_CROCKFORD}]{{26}}$"
"""A job in the order of the list: when it was submitted, and its id. It says so itself, because the
job may expire before the next page is asked for."""
_WINDOW = 4 << 20
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/JobBody"}},
            "text/csv": {"schema": {"type": "string", "format": "binary"}},
            "text/tab-separated-values": {"schema": {"type": "string", "format": "binary"}},
            MEDIA_TYPES[Form.ARROW]: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/v1/jobs",
    status_code=202,
    openapi_extra=_BODY,
    responses={200: {"model": JobShown}, 202: {"model": JobShown}},
)
async def submit(
    request: Request,
    gateway: Here,
    caller: Known,
    table: Annotated[
        str | None, Query(max_length=1_000, description="For an upload: the table to append to")
    ] = None,
    null: Annotated[
        list[str] | None,
        Query(max_length=20, description="For an upload: other spellings of null"),
    ] = None,
    message: Annotated[
        str,
        Query(max_length=1_000, description="For an upload: the message in the table's history"),
    ] = "",
    mode: Annotated[
        Literal["append", "upsert", "insert"],
        Query(
            description="For an upload: append adds the rows, and changes those that a file names "
            "by _row_id and _version; upsert makes each row the current one of its key; insert "
            "refuses keys that exist"
        ),
    ] = "append",
) -> Response:
    """Submit a query or a download (JSON), or upload a CSV or TSV file into ``table``: new rows,
    and changed ones where the file begins with ``_row_id,_version`` (with a key: ``_version``). Or
    upload an Arrow stream: new rows, or with ``upsert`` the current ones of their keys.

    With an Idempotency-Key the request is safe to repeat.
    """
    jobs = gateway.need_jobs()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    job = job_of(request, gateway, caller)
    if kind in FORMS:
        check_scope(caller, Scope.WRITE)
        name, keyed, version, commit = await in_thread(lambda: _uploadable(gateway, caller, table))
        wanted = JobRequest(
            kind=Kind.UPLOAD,
            owner=caller.fingerprint,
            created_ms=gateway.world.clock.now_ms(),
            form=FORMS[kind],
            allowed=allowed_of(caller),
            table=name,
            nulls=tuple(null or ()),
            message=message,
            what=_what(kind, mode),
            table_version=version,
            table_commit=commit,
        )
        check_plain(request)
        parts: AsyncIterator[bytes] = request.stream()
        if wanted.form != ARROW and check_text(request):
            parts = headed(parts, check_wide)
        if keyed and mode == APPEND and wanted.form != ARROW:
            parts = headed(parts, lambda head: _check_appends(name, head))
        made = await uploaded(parts, gateway, jobs, job, wanted)
    elif kind == "application/json":
        check_scope(caller, Scope.READ)
        body = await _body(request)
        running().text = body.sql
        wanted = await in_thread(lambda: _unrestricted(gateway, caller, body))
        made = await in_thread(lambda: jobs.store.submit(job, wanted))
    else:
        raise Problem(
            415,
            f"the Content-Type is {kind or 'missing'}, expected application/json, "
            f"{', '.join(FORMS)}",
        )
    return await in_thread(lambda: job_answer(gateway, jobs, job, wanted, made))


@router.get("/v1/jobs")
def listed(
    gateway: Here,
    caller: Known,
    limit: Annotated[int, Query(ge=1, le=_LISTED)] = 100,
    before: Annotated[
        str | None,
        Query(pattern=_PLACE, description="`next` of another page: the jobs that come after it"),
    ] = None,
) -> JobsShown:
    """The caller's jobs, or all jobs for an admin, newest first, and in ``next`` where the page
    after this one begins. Jobs of tables that the caller may not know are left out."""
    store = gateway.need_jobs().store
    owner = None if caller.may(Scope.ADMIN) else caller.fingerprint
    found: list[JobShown] = []
    last = None
    for created_ms, job in store.newest(owner, _place(before)):
        try:
            wanted = store.request(job)
            # A submission that was repeated may have left a place with another time.
            if wanted.created_ms != created_ms or not concerns(caller, wanted):
                continue
            made = store.job_of(store.sketch(job), wanted)
        except NotFound:
            continue  # it expired, or was never submitted
        except (Corrupt, NewerFormat) as error:
            _logger.warning("job %s cannot be listed: %s", job, error)
            continue
        if not sees(caller, made):
            continue
        if len(found) == limit:
            return JobsShown(jobs=found, next=last)
        found.append(shown_of(gateway, made))
        last = f"{created_ms}-{job}"
    return JobsShown(jobs=found, next=None)


def _place(before: str | None) -> tuple[int, str] | None:
    """The last job of another page."""
    if before is None:
        return None
    created_ms, _, job = before.partition("-")
    return int(created_ms), job


@router.get("/v1/jobs/{job}")
def look(gateway: Here, caller: Known, job: str) -> JobShown:
    """The state of a job."""
    return shown_of(gateway, _load(gateway, caller, job))


@router.delete(
    "/v1/jobs/{job}",
    status_code=202,
    responses={200: {"model": JobShown}, 202: {"model": JobShown}},
)
def cancel(gateway: Here, caller: Known, job: str) -> Response:
    """Cancel a job: 202 if it was still open, and its state shows when it has ended; else 200."""
    found = _load(gateway, caller, job)
    if found.state.ended:
        return JSONResponse(shown_of(gateway, found).model_dump())
    jobs = gateway.need_jobs()
    cancel_job(jobs, found.id)
    return JSONResponse(shown_of(gateway, jobs.store.load(found.id)).model_dump(), status_code=202)


@router.get("/v1/jobs/{job}/result", response_class=Response)
async def result(request: Request, gateway: Here, caller: Reading, job: str) -> Response:
    """The file of a query or a download."""
    found = await in_thread(lambda: _load(gateway, caller, job))
    outcome = found.outcome
    if outcome is None or outcome.result is None:
        raise Problem(
            409, f"job {job} is {found.state} and has no file: see its state, or submit another"
        )
    form, size = Form(found.request.form), outcome.result.bytes
    held = _Nothing()
    parts = _parts(gateway.need_jobs().store.bucket, outcome.result.key, size)
    first = await first_piece(request.receive, parts, held)
    http = gateway.settings.http
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="{found.id}.{found.request.form}"',
    }
    return Streamed(
        first,
        parts,
        held,
        Patience(http.stall_s, max(http.answer_s, 3600.0)),
        media_type=MEDIA_TYPES[form],
        headers=headers,
    )


class _Nothing:
    """A file holds no resource that must be closed."""

    def cancel(self) -> None:
        return None

    def close(self) -> None:
        return None


def _parts(bucket: Bucket, key: str, size: int) -> Iterator[bytes]:
    """The object, window by window. Raises NotFound if it is shorter than it should be."""
    if not size:
        yield b""
    for start in range(0, size, _WINDOW):
        length = min(_WINDOW, size - start)
        try:
            data = bucket.get_range(key, start, length)
        except ObjectMissing:
            raise NotFound("the file of the job has expired: submit the job again") from None
        if len(data) != length:
            raise NotFound("the file of the job changed during the download: submit the job again")
        yield data


def _what(kind: str, mode: str) -> str:
    """What an upload does with its rows, as the job's record has it."""
    if FORMS[kind] == ARROW:
        return _MODES[mode]
    return "" if mode == APPEND else mode


async def _body(request: Request) -> JobBody:
    from pydantic import ValidationError

    try:
        return JobBody.model_validate_json(await request.body())
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        raise Problem(400, sentence(found)) from None


def _unrestricted(gateway: Gateway, caller: Caller, body: JobBody) -> JobRequest:
    """The request of a query or a download. Raises Restricted for a table of which the caller sees
    a part: another gateway may run the job, later, when the policies are others."""
    try:
        return _job_request(gateway, caller, body)
    except Restricted as error:
        raise Restricted(
            error.table,
            f"table {error.table[:200]} is restricted for you by a policy, and no job reads such a "
            "table: query it by POST /v1/query, which returns what the policy shows",
        ) from None


def _job_request(gateway: Gateway, caller: Caller, body: JobBody) -> JobRequest:
    at = At(version=body.version, as_of=body.as_of, tag=body.tag)
    table = None
    if body.kind == "query":
        if body.sql is None or body.table is not None:
            raise Invalid("a query needs sql and takes no table")
        if caller.restricted is not None:
            # Else its job would say so; whatever else is wrong with it, its job says.
            with suppress(BadSql, UnknownTable):
                gateway.engine.tables(body.sql, allowed=caller.tables)
    else:
        if body.table is None or body.sql is not None:
            raise Invalid("a download needs a table and takes no sql")
        table = gateway.tables.find(body.table, caller.tables)
    return JobRequest(
        kind=Kind(body.kind),
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form=body.format,
        allowed=allowed_of(caller),
        sql=body.sql,
        table=table,
        version=body.version,
        as_of=at.as_of_ms,
        tag=body.tag,
        limit=body.limit,
        row_ids=body.row_ids,
    )


def _check_appends(table: str, head: bytes) -> None:
    """Raise Problem for a file of new rows for a table with a key: neither ``upsert`` nor
    ``insert`` was said, and the one would replace rows that the other refuses."""
    if is_wide(head):
        head = head.decode("utf-16", "replace").encode()
    if VERSION.encode() not in head.partition(b"\n")[0]:
        raise Problem(
            400,
            f"the rows of table {table} have a key, and rows with a key are not appended: say "
            "mode=upsert to make each row the current one of its key, or mode=insert to refuse "
            f"keys that exist; or let the file begin with {VERSION}",
        )


def _uploadable(gateway: Gateway, caller: Caller, table: str | None) -> tuple[str, bool, int, str]:
    """The table's own spelling, whether it has a key, its version and the commit id of that
    version: the upload is for this table and no other."""
    if not table:
        raise Problem(400, "an upload needs a table: POST /v1/jobs?table=NAME")
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(
            409,
            f"table {name} has no index, which an upload needs to happen exactly once: use "
            "blockstore write",
        )
    keyed = isinstance(handle.definition.identity, Key)
    return name, keyed, *identity_of(handle.bucket, gateway.world)


def _load(gateway: Gateway, caller: Caller, job: str) -> Job:
    unknown = NotFound(f"there is no job {job[:40]}: it never existed, or it has expired")
    if not is_ulid(job):
        raise unknown
    try:
        found = gateway.need_jobs().store.load(job)
    except NotFound:
        raise unknown from None
    if not sees(caller, found):
        raise unknown
    return found

"""Jobs over HTTP: submit a job, query its state, fetch its file, cancel it.

Rules:
- ``job_visibility.py`` decides who sees a job; for every other caller it does not exist.
- A client that this gateway reports a finished upload to can read its rows here, whichever gateway
  wrote them.
- The same Idempotency-Key of the same token is the same job, on every gateway, as long as the job
  is kept: the job's id is derived from the key.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from blockstore.bucket import Bucket
from blockstore.errors import (
    BlockstoreError,
    Corrupt,
    Invalid,
    NewerFormat,
    NotFound,
    ObjectMissing,
)
from blockstore.names import is_ulid, job_input_key
from blockstore.reader.forms.encode import Form
from blockstore.reader.http.callers import Here, Known, Reading, check_scope
from blockstore.reader.http.gateway import Gateway, Jobs
from blockstore.reader.http.job_visibility import concerns, sees
from blockstore.reader.http.negotiate import MEDIA_TYPES
from blockstore.reader.http.problems import Problem, sentence
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.receiving import measured, received
from blockstore.reader.http.shapes import JobBody, JobShown, JobsShown
from blockstore.reader.http.streaming import Patience, Streamed, first_piece, in_thread
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job
from blockstore.reader.jobs.upload import identity_of
from blockstore.reader.tables import At

router = APIRouter(responses=ERRORS, tags=["jobs"])

_logger = logging.getLogger(__name__)

_FORMS = {"text/csv": "csv", "text/tab-separated-values": "tsv"}
_LISTED = 1_000
_WINDOW = 4 << 20
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/JobBody"}},
            "text/csv": {"schema": {"type": "string", "format": "binary"}},
            "text/tab-separated-values": {"schema": {"type": "string", "format": "binary"}},
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
        list[str] | None, Query(description="For an upload: other spellings of null")
    ] = None,
    message: Annotated[
        str,
        Query(max_length=1_000, description="For an upload: the message in the table's history"),
    ] = "",
) -> Response:
    """Submit a query or a download (JSON), or upload a CSV or TSV file into ``table``.

    With an Idempotency-Key the request is safe to repeat.
    """
    jobs = gateway.need_jobs()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    key = _key(request)
    job = gateway.world.ids.ulid() if key is None else _id_of(caller, key)
    if kind in _FORMS:
        check_scope(caller, Scope.WRITE)
        name, version, commit = await in_thread(lambda: _uploadable(gateway, caller, table))
        wanted = JobRequest(
            kind=Kind.UPLOAD,
            owner=caller.fingerprint,
            created_ms=gateway.world.clock.now_ms(),
            form=_FORMS[kind],
            allowed=_allowed(caller),
            table=name,
            nulls=tuple(null or ())[:20],
            message=message,
            table_version=version,
            table_commit=commit,
        )
        _check_encoding(request)
        made = await _upload(request, gateway, jobs, job, wanted)
    elif kind == "application/json":
        check_scope(caller, Scope.READ)
        body = await _body(request)
        wanted = await in_thread(lambda: _job_request(gateway, caller, body))
        made = await in_thread(lambda: jobs.store.submit(job, wanted))
    else:
        raise Problem(
            415,
            f"the Content-Type is {kind or 'missing'}, expected application/json, "
            f"{', '.join(_FORMS)}",
        )
    return await in_thread(lambda: _answer(gateway, jobs, job, wanted, made))


@router.get("/v1/jobs")
def listed(
    gateway: Here, caller: Known, limit: Annotated[int, Query(ge=1, le=_LISTED)] = 100
) -> JobsShown:
    """The caller's jobs, or all jobs for an admin, newest first. Jobs of tables that the caller may
    not know are left out."""
    store = gateway.need_jobs().store
    submitted = sorted(
        (one for one in store.sketches() if one.submitted),
        key=lambda one: (one.submitted_ms, one.job),
    )
    found: list[JobShown] = []
    while submitted and len(found) < limit:
        sketch = submitted.pop()
        try:
            wanted = store.request(sketch.job)
            # The request names the owner: nothing more is read of other callers' jobs.
            if concerns(caller, wanted) and sees(caller, job := store.job_of(sketch, wanted)):
                found.append(_response_of(gateway, job))
        except NotFound:
            continue  # it expired meanwhile
        except (Corrupt, NewerFormat) as error:
            _logger.warning("job %s cannot be listed: %s", sketch.job, error)
    return JobsShown(jobs=found)


@router.get("/v1/jobs/{job}")
def look(gateway: Here, caller: Known, job: str) -> JobShown:
    """The state of a job."""
    return _response_of(gateway, _load(gateway, caller, job))


@router.delete(
    "/v1/jobs/{job}",
    status_code=202,
    responses={200: {"model": JobShown}, 202: {"model": JobShown}},
)
def cancel(gateway: Here, caller: Known, job: str) -> Response:
    """Cancel a job: 202 if it was still open, and its state shows when it has ended; else 200."""
    found = _load(gateway, caller, job)
    if found.state.ended:
        return JSONResponse(_response_of(gateway, found).model_dump())
    jobs = gateway.need_jobs()
    jobs.store.cancel(found.id)
    jobs.runner.stop_here(found.id)
    jobs.runner.wake()
    return JSONResponse(
        _response_of(gateway, jobs.store.load(found.id)).model_dump(), status_code=202
    )


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


async def _upload(
    request: Request, gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest
) -> bool:
    """Store the file in the bucket, then create the job; False if the job existed."""
    places: asyncio.Semaphore = request.app.state.uploads
    if places.locked():
        limit = gateway.settings.http.uploads_at_once
        raise Problem(429, f"upload limit reached ({limit} at a time); retry in a few seconds")
    async with places:
        known = await in_thread(lambda: jobs.store.sketch(job).submitted)
        if known:
            found = await measured(request.stream())
            key = ""
        else:
            key = job_input_key(job, gateway.world.ids.ulid())
            found = await received(jobs.store.bucket, key, request.stream())
        complete = replace(
            wanted, input_key=key, input_bytes=found.bytes, input_sha256=found.sha256
        )
        if not known and await in_thread(lambda: jobs.store.submit(job, complete)):
            return True
        if key:
            await in_thread(lambda: jobs.store.bucket.delete([key]))
        await in_thread(lambda: _check_same(jobs, job, complete))
        return False


def _answer(gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest, made: bool) -> Response:
    if not made and wanted.kind is not Kind.UPLOAD:
        _check_same(jobs, job, wanted)
    if made:
        found = _offered(jobs, job, wanted)
    else:
        found = jobs.store.load(job)
    return JSONResponse(
        _response_of(gateway, found).model_dump(),
        status_code=202 if made else 200,
        headers={"Location": f"/v1/jobs/{job}"},
    )


def _offered(jobs: Jobs, job: str, wanted: JobRequest) -> Job:
    """Start a new job here if there is a place. Whatever fails from now on, the response must say
    that the job exists: a client without an Idempotency-Key would submit it a second time."""
    try:
        claimed = jobs.runner.offer(job)
        if claimed is not None:
            jobs.runner.begin(claimed)
        return jobs.store.load(job)
    except BlockstoreError as error:
        _logger.warning("job %s was created and waits for the next pass: %s", job, error)
        jobs.runner.wake()
        return Job(id=job, request=wanted)


def _check_same(jobs: Jobs, job: str, wanted: JobRequest) -> None:
    if not jobs.store.request(job).same_as(wanted):
        raise Problem(409, "this Idempotency-Key was used for another request: use a new one")


async def _body(request: Request) -> JobBody:
    from pydantic import ValidationError

    try:
        return JobBody.model_validate_json(await request.body())
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        raise Problem(400, sentence(found)) from None


def _job_request(gateway: Gateway, caller: Caller, body: JobBody) -> JobRequest:
    at = At(version=body.version, as_of=body.as_of, tag=body.tag)
    table = None
    if body.kind == "query":
        if body.sql is None or body.table is not None:
            raise Invalid("a query needs sql and takes no table")
    else:
        if body.table is None or body.sql is not None:
            raise Invalid("a download needs a table and takes no sql")
        table = gateway.tables.find(body.table, caller.tables)
    return JobRequest(
        kind=Kind(body.kind),
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form=body.format,
        allowed=_allowed(caller),
        sql=body.sql,
        table=table,
        version=body.version,
        as_of=at.as_of_ms,
        tag=body.tag,
        limit=body.limit,
    )


def _uploadable(gateway: Gateway, caller: Caller, table: str | None) -> tuple[str, int, str]:
    """The table's own spelling, its version and the commit id of that version: the upload is for
    this table and no other."""
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
    return name, *identity_of(handle.bucket, gateway.world)


def _check_encoding(request: Request) -> None:
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Problem(
            415, f"the file has Content-Encoding {coding}: send it without Content-Encoding"
        )


def _allowed(caller: Caller) -> tuple[str, ...] | None:
    return None if caller.tables is None else tuple(sorted(caller.tables))


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise Problem(400, f"Idempotency-Key has {len(key)} characters, expected 1 to 200")
    return key


def _id_of(caller: Caller, key: str) -> str:
    """The id of a job with this key: the same on every gateway, different for every token."""
    digest = hashlib.sha256(
        f"{caller.fingerprint}\n{key}".encode("utf-8", "surrogateescape")
    ).digest()
    number = int.from_bytes(digest[:16], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


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


def _response_of(gateway: Gateway, job: Job) -> JobShown:
    """The body of a response about a job, once this gateway reads the rows that it wrote."""
    written = {} if job.outcome is None else job.outcome.written or {}
    version, table = written.get("version"), job.request.table
    if table is not None and isinstance(version, int):
        gateway.tables.catch_up(table, version)
    return _shown(job)


def _shown(job: Job) -> JobShown:
    outcome, request = job.outcome, job.request
    progress = outcome.progress if outcome else job.lease.progress if job.lease else None
    error = None
    if outcome is not None and outcome.failure is not None:
        error = {
            "error": outcome.failure.error,
            "message": outcome.failure.message,
            **outcome.failure.detail,
        }
    made = None
    if outcome is not None and outcome.result is not None:
        made = {
            "bytes": outcome.result.bytes,
            "rows": outcome.result.rows,
            "versions": dict(outcome.result.versions),
            "href": f"/v1/jobs/{job.id}/result",
        }
    return JobShown(
        id=job.id,
        kind=request.kind,
        state=job.state,
        created=request.created_ms,
        ended=None if outcome is None else outcome.ended_ms,
        table=request.table,
        sql=request.sql,
        format=request.form,
        attempt=job.lease.attempt if job.lease else 0,
        progress={
            "rows": progress.rows if progress else 0,
            "bytes": progress.bytes if progress else 0,
            "bytes_total": request.input_bytes,
        },
        error=error,
        written=None if outcome is None or outcome.written is None else dict(outcome.written),
        result=made,
    )

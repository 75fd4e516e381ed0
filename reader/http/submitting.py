"""How a request becomes a job: its id, its input, and the response about it.

Rules:
- The same Idempotency-Key of the same token is the same job, on every gateway, as long as the job
  is kept: the job's id is derived from the key.
- Once a job exists, every response says so: a client without a key would submit it again.
- A client that this gateway reports a finished job to can read its rows here, whichever gateway
  wrote them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace

from fastapi import Request
from starlette.responses import JSONResponse, Response

from blockstore.errors import BlockstoreError
from blockstore.names import job_input_key
from blockstore.reader.http.gateway import Gateway, Jobs
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.receiving import measured, received
from blockstore.reader.http.shapes import JobShown
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.tokens import Caller
from blockstore.reader.jobs.record import Failure, State
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job

_logger = logging.getLogger(__name__)

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LOOK_S = 0.25
_STATUS = {
    "BadSql": 400,
    "Conflict": 409,
    "Corrupt": 500,
    "Invalid": 400,
    "NotFound": 404,
    "TableDropped": 404,
    "bad_file": 400,
    "bad_row": 400,
    "conflict": 409,
    "forgotten": 409,
    "given_up": 409,
    "internal": 500,
    "invalid": 400,
    "not_found": 404,
    "replaced": 409,
    "unknown_table": 404,
}
"""The status of a response about a job that failed with this error; another one is 503."""


async def uploaded(
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
        await in_thread(lambda: check_same(jobs, job, complete))
        return False


def job_answer(gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest, made: bool) -> Response:
    if not made and not wanted.kind.writes:
        check_same(jobs, job, wanted)
    if made:
        found = _offered(jobs, job, wanted)
    else:
        found = jobs.store.load(job)
    return JSONResponse(
        shown_of(gateway, found).model_dump(),
        status_code=202 if made else 200,
        headers={"Location": f"/v1/jobs/{job}"},
    )


async def taken(gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest, body: bytes) -> bool:
    """Store a small body in the bucket, then create the job; False if the job existed."""
    digest = hashlib.sha256(body).hexdigest()

    def take() -> bool:
        complete = replace(wanted, input_bytes=len(body), input_sha256=digest)
        if jobs.store.sketch(job).submitted:
            check_same(jobs, job, complete)
            return False
        key = job_input_key(job, gateway.world.ids.ulid())
        jobs.store.bucket.put(key, body)
        if jobs.store.submit(job, replace(complete, input_key=key)):
            return True
        jobs.store.bucket.delete([key])
        check_same(jobs, job, complete)
        return False

    return await in_thread(take)


async def ended_answer(
    gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest, made: bool, wait_s: float
) -> Response:
    """The response to a change that was submitted, once it has ended: 200, or the status of its
    failure; 202 if it has not ended after ``wait_s``."""

    def ended() -> Response:
        clock = gateway.world.clock
        until_s = clock.monotonic_s() + wait_s
        found = _offered(jobs, job, wanted) if made else jobs.store.load(job)
        while not found.state.ended and (left_s := until_s - clock.monotonic_s()) > 0:
            if not jobs.runner.wait(job, left_s):
                clock.sleep(min(_LOOK_S, left_s))
            found = jobs.store.load(job)
        failure = None if found.outcome is None else found.outcome.failure
        if failure is not None:
            raise _problem(job, failure)
        if found.state is State.CANCELLED:
            raise Problem(409, f"job {job} was cancelled: nothing was changed")
        return JSONResponse(
            shown_of(gateway, found).model_dump(),
            status_code=200 if found.state.ended else 202,
            headers={"Location": f"/v1/jobs/{job}"},
        )

    return await in_thread(ended)


def _problem(job: str, failure: Failure) -> Problem:
    status = _STATUS.get(failure.error, 503)
    detail = {**failure.detail, "job": job}
    kind = failure.error if failure.error.islower() else None
    return Problem(status, failure.message, error=kind, detail=detail)


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


def check_same(jobs: Jobs, job: str, wanted: JobRequest) -> None:
    if not jobs.store.request(job).same_as(wanted):
        raise Problem(409, "this Idempotency-Key was used for another request: use a new one")


def allowed_of(caller: Caller) -> tuple[str, ...] | None:
    return None if caller.tables is None else tuple(sorted(caller.tables))


def key_of(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise Problem(400, f"Idempotency-Key has {len(key)} characters, expected 1 to 200")
    return key


def id_of(caller: Caller, key: str) -> str:
    """The id of a job with this key: the same on every gateway, different for every token."""
    digest = hashlib.sha256(
        f"{caller.fingerprint}\n{key}".encode("utf-8", "surrogateescape")
    ).digest()
    number = int.from_bytes(digest[:16], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def shown_of(gateway: Gateway, job: Job) -> JobShown:
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

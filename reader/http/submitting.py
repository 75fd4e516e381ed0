"""How a request becomes a job, and the response about it. ``doors/submitted.py`` has the rules."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from dataclasses import replace
from email.message import Message

from fastapi import Request
from starlette.responses import JSONResponse, Response

from blockstore.names import job_input_key
from blockstore.reader.audit import running
from blockstore.reader.doors.receiving import receiving
from blockstore.reader.doors.submitted import (
    Submitted,
    check_same,
    ended_meanwhile,
    job_id,
    offered,
    serve,
    submit,
)
from blockstore.reader.http.gateway import Gateway, Jobs
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.receiving import measured, received
from blockstore.reader.http.shapes import JobShown
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.tokens import Caller
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job

_UTF_8 = ("utf-8", "utf8", "us-ascii", "ascii")
_UTF_16 = ("utf-16", "utf16", "utf-16le", "utf-16be")
KEY = "idempotency-key"
"""The header that makes requests with the same value one job."""


async def uploaded(
    parts: AsyncIterator[bytes], gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest
) -> bool:
    """Store the file in the bucket, then create the job; False if the job existed."""
    with receiving(gateway):
        known = await in_thread(lambda: jobs.store.sketch(job).submitted)
        if known:
            found = await measured(parts)
            key = ""
        else:
            key = job_input_key(job, gateway.world.ids.ulid())
            found = await received(jobs.store.bucket, key, parts)
        complete = replace(
            wanted, input_key=key, input_bytes=found.bytes, input_sha256=found.sha256
        )
        if not known and await in_thread(lambda: jobs.store.submit(job, complete)):
            return True
        if key:
            await in_thread(lambda: jobs.store.bucket.delete([key]))
        await in_thread(lambda: check_same(jobs, job, complete))
        return False


def check_plain(request: Request) -> None:
    """Refuse a file that is encoded for the way, for it is stored as it comes. Raises Problem
    415."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Problem(
            415, f"the file has Content-Encoding {coding}: send it without Content-Encoding"
        )


def check_text(request: Request) -> bool:
    """Whether the Content-Type says that a text is UTF-16, as ``check_wide`` is to see. Raises
    Problem 415 for an encoding that is not read, and for a text without a header."""
    said = Message()
    said["Content-Type"] = request.headers.get("content-type", "")
    charset = str(said.get_param("charset", "utf-8")).strip().lower()
    if charset not in _UTF_8 and charset not in _UTF_16:
        raise Problem(
            415,
            f"the file is in {charset[:40]}, and only UTF-8, or UTF-16 with a byte order mark, is "
            "read: convert the file, and say charset=utf-8",
        )
    if str(said.get_param("header", "present")).strip().lower() != "present":
        raise Problem(
            415,
            "the Content-Type says that the file has no header, and its first line must name the "
            "columns: add one, and leave header= away",
        )
    return charset in _UTF_16


def check_wide(head: bytes) -> None:
    """Raise Problem 415 for a text that was said to be UTF-16 and does not show its byte order."""
    if head and not is_wide(head):
        raise Problem(
            415,
            "the file is said to be UTF-16 and begins without a byte order mark: write it with "
            "one, or as UTF-8",
        )


def is_wide(head: bytes) -> bool:
    """Whether a text begins as UTF-16 does."""
    return head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def job_answer(gateway: Gateway, jobs: Jobs, job: str, wanted: JobRequest, made: bool) -> Response:
    running().runs_as(job)
    if not made and not wanted.kind.writes:
        check_same(jobs, job, wanted)
    if made:
        found = offered(jobs, job, wanted)
    else:
        found = jobs.store.load(job)
    return JSONResponse(
        shown_of(gateway, found).model_dump(),
        status_code=202 if made else 200,
        headers={"Location": f"/v1/jobs/{job}"},
    )


async def taken(gateway: Gateway, job: str, wanted: JobRequest, body: bytes) -> bool:
    """Store a small body in the bucket, then create the job; False if the job existed."""
    return await in_thread(lambda: submit(gateway, job, wanted, body))


async def ended_answer(
    gateway: Gateway, job: str, wanted: JobRequest, made: bool, wait_s: float
) -> Response:
    """The response to a change that was submitted, once it has ended: 200, or the status of its
    failure; 202 if it has not ended after ``wait_s``."""
    sent = Submitted(job=job, wanted=wanted, made=made)
    found = await ended_meanwhile(gateway, sent, wait_s)

    def answer() -> Response:
        return JSONResponse(
            shown_of(gateway, found).model_dump(),
            status_code=200 if found.state.ended else 202,
            headers={"Location": f"/v1/jobs/{job}"},
        )

    return await in_thread(answer)


def job_of(request: Request, gateway: Gateway, caller: Caller) -> str:
    """The id of the job that a request submits, by its Idempotency-Key."""
    return job_id(gateway, caller, request.headers.get(KEY))


def shown_of(gateway: Gateway, job: Job) -> JobShown:
    """The body of a response about a job, once this gateway reads the rows that it wrote."""
    serve(gateway, job)
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

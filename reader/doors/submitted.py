"""How a call becomes a job: its id, its input, its end.

Rules:
- The same key of the same token is the same job, on every gateway, as long as the job is kept: the
  job's id is derived from the key.
- Once a job exists, every response says so: a client without a key would submit it again.
- A client that this gateway reports a finished job to can read its rows here, whichever gateway
  wrote them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace

from blockstore.errors import BlockstoreError
from blockstore.names import job_input_key
from blockstore.reader.audit import running
from blockstore.reader.http.gateway import Gateway, Jobs
from blockstore.reader.http.problems import Problem
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


def allowed_of(caller: Caller) -> tuple[str, ...] | None:
    """The tables that a job of the caller may use."""
    return None if caller.tables is None else tuple(sorted(caller.tables))


def job_id(gateway: Gateway, caller: Caller, key: str | None) -> str:
    """The id of a job with this key: the same on every gateway, different for every token; a new
    one without a key. Raises Problem 400."""
    if key is None:
        return gateway.world.ids.ulid()
    if not 1 <= len(key) <= 200:
        raise Problem(400, f"Idempotency-Key has {len(key)} characters, expected 1 to 200")
    digest = hashlib.sha256(
        f"{caller.fingerprint}\n{key}".encode("utf-8", "surrogateescape")
    ).digest()
    number = int.from_bytes(digest[:16], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def submit(gateway: Gateway, job: str, wanted: JobRequest, body: bytes) -> bool:
    """Store a small input in the bucket, then create the job; False if the job existed. Raises
    Problem 409 where it was another one."""
    jobs = gateway.need_jobs()
    digest = hashlib.sha256(body).hexdigest()
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


def ended(
    gateway: Gateway,
    job: str,
    wanted: JobRequest,
    made: bool,
    wait_s: float,
    gone: Callable[[], bool] = lambda: False,
) -> Job:
    """A job that was submitted, once it has ended and this gateway reads what it wrote; as it is
    after ``wait_s``. If its client is ``gone`` meanwhile, the job is cancelled: it is complete or
    absent, as ever. Raises Problem for one that failed or was cancelled."""
    jobs, clock = gateway.need_jobs(), gateway.world.clock
    running().runs_as(job)
    until_s = clock.monotonic_s() + wait_s
    found = offered(jobs, job, wanted) if made else jobs.store.load(job)
    cancelled = False
    while not found.state.ended and (left_s := until_s - clock.monotonic_s()) > 0:
        if not cancelled and gone():
            cancel(jobs, job)
            cancelled = True
        pause_s = min(_LOOK_S, left_s)
        ran = jobs.runner.wait(job, pause_s)
        if ran and left_s > pause_s:
            continue  # it runs here, or has just ended: nothing is read until it does not run
        found = jobs.store.load(job)
        if not ran and not found.state.ended:
            clock.sleep(pause_s)
    failure = None if found.outcome is None else found.outcome.failure
    if failure is not None:
        raise _problem(job, failure)
    if found.state is State.CANCELLED:
        raise Problem(409, f"job {job} was cancelled: nothing was changed")
    serve(gateway, found)
    commits(found)
    return found


def commits(job: Job) -> None:
    """The statement that runs has made the version that a job has made."""
    written = {} if job.outcome is None else job.outcome.written or {}
    running().commits(job.request.table, written.get("version"))


def serve(gateway: Gateway, job: Job) -> None:
    """Serve the rows that a job wrote from now on."""
    written = {} if job.outcome is None else job.outcome.written or {}
    version, table = written.get("version"), job.request.table
    if table is not None and isinstance(version, int):
        gateway.tables.catch_up(table, version)


def offered(jobs: Jobs, job: str, wanted: JobRequest) -> Job:
    """Start a new job here if there is a place. Whatever fails from now on, the response must say
    that the job exists: a client without a key would submit it a second time."""
    try:
        claimed = jobs.runner.offer(job)
        if claimed is not None:
            jobs.runner.begin(claimed)
        return jobs.store.load(job)
    except BlockstoreError as error:
        _logger.warning("job %s was created and waits for the next pass: %s", job, error)
        jobs.runner.wake()
        return Job(id=job, request=wanted)


def cancel(jobs: Jobs, job: str) -> None:
    """Cancel an open job: at once if it runs here, else soon."""
    jobs.store.cancel(job)
    jobs.runner.stop_here(job)
    jobs.runner.wake()


def check_same(jobs: Jobs, job: str, wanted: JobRequest) -> None:
    """Raise Problem 409 if the job is not this one."""
    if not jobs.store.request(job).same_as(wanted):
        raise Problem(409, "this Idempotency-Key was used for another request: use a new one")


def _problem(job: str, failure: Failure) -> Problem:
    status = _STATUS.get(failure.error, 503)
    detail = {**failure.detail, "job": job}
    kind = failure.error if failure.error.islower() else None
    return Problem(status, failure.message, error=kind, detail=detail)

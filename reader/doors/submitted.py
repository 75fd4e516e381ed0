"""How a call becomes a job: its id, its input, its end.

Rules:
- The same key of the same token is the same job, on every gateway, as long as the job is kept: the
  job's id is derived from the key.
- Once a job exists, every response says so: a client without a key would submit it again.
- A client that this gateway reports a finished job to can read its rows here, whichever gateway
  wrote them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import anyio
from anyio import to_thread

from blockstore.errors import BlockstoreError
from blockstore.names import job_input_key
from blockstore.reader.audit import running
from blockstore.reader.doors.queries import Stopper
from blockstore.reader.http.gateway import Gateway, Jobs
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.tokens import Caller
from blockstore.reader.jobs.record import Failure, State
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job

_logger = logging.getLogger(__name__)

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LOOK_S = 0.25
_LOOKS_S = 2.0
_LOOKS_LATER = 0.25
"""A job that does not run here is looked at again after this part of the time that it has taken, so
that many that wait do not ask the store all the time."""
_QUIET_S = 5.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A call that has become a job."""

    job: str
    wanted: JobRequest
    made: bool
    """Whether the job is new."""


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


class Waiting:
    """The wait for the end of a job that was submitted, in steps of which none waits. ``wake`` is
    called, from any thread, when a step is worth it before its time."""

    def __init__(
        self,
        gateway: Gateway,
        sent: Submitted,
        wait_s: float,
        gone: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        self._gateway = gateway
        self._jobs = gateway.need_jobs()
        self._sent = sent
        self._gone = gone
        self._cancelled = False
        self._now_s = gateway.world.clock.monotonic_s
        self._begun_s = self._now_s()
        self._wait_s = wait_s
        self._found = Job(id=sent.job, request=sent.wanted)
        self._wake = wake
        self._forget: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start the job, if it is new and there is a place."""
        job = self._sent.job
        running().runs_as(job)
        self._forget = self._jobs.runner.endings.watch(job, self._wake)
        if self._sent.made:
            self._found = offered(self._jobs, job, self._sent.wanted)
        else:
            self._found = self._jobs.store.load(job)

    def quiet_s(self) -> float | None:
        """How long there is nothing to look at unless it is woken, as the job runs here; None if
        ``look`` is to look. Neither reads nor waits."""
        left_s = self._left_s
        if left_s <= 0 or (self._gone() and not self._cancelled):
            return None
        return min(_QUIET_S, left_s) if self._jobs.runner.runs(self._sent.job) else None

    def look(self) -> float | None:
        """Look at the job, and cancel it if its client is gone; return how long until the next look
        if it is not woken before, None if it has ended or the time is over."""
        if self._found.state.ended or self._wait_s <= 0:
            return None
        if not self._cancelled and self._gone():
            cancel(self._jobs, self._sent.job)
            self._cancelled = True
        quiet_s = self.quiet_s()
        if quiet_s is not None:
            return quiet_s
        self._found = self._jobs.store.load(self._sent.job)
        left_s = self._left_s
        if self._found.state.ended or left_s <= 0:
            return None
        pause_s = (self._wait_s - left_s) * _LOOKS_LATER
        return min(max(_LOOK_S, pause_s), _LOOKS_S, left_s)

    def end(self) -> Job:
        """The job as it was found last. Raises Problem for one that failed or was cancelled."""
        job, found = self._sent.job, self._found
        failure = None if found.outcome is None else found.outcome.failure
        if failure is not None:
            problem = _problem(job, failure)
            table = found.request.table
            if problem.status_code == 409 and table is not None:
                # A client that now reads again is to find what was in its way.
                with suppress(BlockstoreError):
                    self._gateway.tables.poll_now(table)
            raise problem
        if found.state is State.CANCELLED:
            raise Problem(409, f"job {job} was cancelled: nothing was changed")
        serve(self._gateway, found)
        commits(found)
        return found

    def close(self) -> None:
        """It waits no more."""
        self._forget()

    @property
    def _left_s(self) -> float:
        return self._wait_s - (self._now_s() - self._begun_s)


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
    woken = threading.Event()
    sent = Submitted(job=job, wanted=wanted, made=made)
    waiting = Waiting(gateway, sent, wait_s, gone, woken.set)
    try:
        waiting.begin()
        while (pause_s := waiting.look()) is not None:
            while pause_s > 0 and not woken.wait(min(pause_s, _LOOK_S)) and not gone():
                pause_s -= _LOOK_S
            woken.clear()
        return waiting.end()
    finally:
        waiting.close()


async def ended_meanwhile(
    gateway: Gateway, sent: Submitted, wait_s: float, stopper: Stopper | None = None
) -> Job:
    """As ``ended``, without a thread that waits: however many writers wait, none takes the place of
    a query. If ``stopper`` is stopped, the job is cancelled."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    def gone() -> bool:
        return stopper is not None and stopper.stopped

    waiting = Waiting(gateway, sent, wait_s, gone, wake)
    if stopper is not None:
        stopper.began(wake)
    try:
        await in_thread(waiting.begin)
        while True:
            woken.clear()
            pause_s = waiting.quiet_s() or await to_thread.run_sync(waiting.look)
            if pause_s is None:
                return await in_thread(waiting.end)
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), pause_s)
    except asyncio.CancelledError:
        if gone():
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(waiting.look)
        raise
    finally:
        waiting.close()


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

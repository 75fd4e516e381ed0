"""One gateway's part in the jobs of a bucket: find open jobs, claim, run and end them.

Rules:
- A job without a claim belongs to the gateway that creates attempt 1. A job with a claim can be
  claimed only after ``LeaseWatch`` saw it unchanged for the length of a lease; it then belongs to
  the gateway that creates the next attempt.
- The lease of a running job is renewed three times per lease. A gateway that finds a later attempt,
  or an outcome, drops its work.
- Only its outcome ends a job, created if absent. The work settles before a second or later attempt
  records a failure or a cancellation, and before any attempt records a timeout: after that, other
  attempts can have no effect.
- A job that ``MAX_ATTEMPTS`` gateways did not finish fails, so that a job that kills its gateway
  does not kill all of them.
- Uploads have places of their own, and so have changes of given rows and of tables, which are
  short: neither long queries nor long uploads delay them. Where all gateways share a number of
  places, an attempt needs one of these as well (``places.py``), and one of its owner's shares.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from blockstore.errors import (
    BlockstoreError,
    Conflict,
    Corrupt,
    Indeterminate,
    Invalid,
    NotFound,
    Unavailable,
)
from blockstore.reader.jobs.endings import Endings
from blockstore.reader.jobs.failures import failure_of, given_up, internal, overtime, unsettled
from blockstore.reader.jobs.marks import Marks
from blockstore.reader.jobs.meter import Meter, Stop, Stopped
from blockstore.reader.jobs.places import SharedPlaces, group_of
from blockstore.reader.jobs.record import Failure, Kind, Lease, Outcome, Request, State
from blockstore.reader.jobs.shares import Share, Shares, of_anyone
from blockstore.reader.jobs.store import Job, JobStore, Sketch
from blockstore.reader.jobs.watch import LeaseWatch
from blockstore.reader.jobs.work import Ended, Failed, Work
from blockstore.world import World

_logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
_BEATS = 3
"""Renewals per lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How this gateway runs jobs."""

    lease_s: float = 30.0
    poll_s: float = 5.0
    time_limit_s: float = 3600.0
    keep_s: float = 7 * 86_400.0
    """How long a job is kept after its end."""
    places: int = 2
    """How many uploads, how many changes of rows and tables, and how many queries and downloads,
    run at once."""
    cluster_places: Mapping[str, int] = field(default_factory=dict)
    """How many of these run at once on all gateways together, by group; without a number, any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An attempt that this gateway holds."""

    job: str
    request: Request
    lease: Lease

    @property
    def attempt(self) -> int:
        return self.lease.attempt


class Runner:
    """Runs jobs of one bucket in this process."""

    def __init__(
        self,
        store: JobStore,
        world: World,
        works: Mapping[Kind, Work],
        terms: Terms,
        report: Callable[[str, str], None] = lambda kind, event: None,
        audit: Callable[[Job], None] = lambda job: None,
        share: Share = of_anyone,
    ) -> None:
        self._store = store
        self._world = world
        self._works = dict(works)
        self._terms = terms
        self._report = report
        """Called for each event, ``(kind, event)``, for metrics."""
        self._audit = audit
        """Called with each job that has ended here, before others learn of it here."""
        self.holder = world.ids.ulid()
        self._watch = LeaseWatch(world.clock, terms.lease_s)
        self._shared = SharedPlaces(store, world, self.holder, terms.lease_s, terms.cluster_places)
        self._shares = Shares(share)
        self._requests: dict[str, Request] = {}
        self._lock = threading.Lock()
        self.endings = Endings()
        """Who waits for a job."""
        self._running: dict[str, tuple[Kind, Meter]] = {}
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        self._marks = Marks(store)
        self._next_sweep_s = 0.0

    # What one pass does

    def look(self) -> list[Claimed]:
        """One pass: claim the jobs that may be claimed and have a place. Raises what the listing
        raises. The claimed jobs are returned whatever happens to the rest of the pass: a claim that
        is not run would never end."""
        self._shared.look_again()
        open_jobs, sketches = self._marks.look()
        self._watch.keep(open_jobs)
        self._requests = {job: one for job, one in self._requests.items() if job in open_jobs}
        claimed = []
        for sketch in sketches:
            if not sketch.open or self._closing.is_set():
                continue
            try:
                one = self._try(sketch)
            except NotFound:
                continue
            except Unavailable as error:
                _logger.warning("the pass over the jobs ended early: %s", error)
                break
            except BlockstoreError as error:
                _logger.warning("job %s cannot be claimed: %s", sketch.job, error)
                continue
            if one is not None:
                claimed.append(one)
        try:
            self._sweep()
        except BlockstoreError as error:
            _logger.warning("old jobs cannot be removed now: %s", error)
        return claimed

    def offer(self, job: str) -> Claimed | None:
        """Claim a job that was submitted to this gateway, if there is a place, without waiting for
        the next pass."""
        return None if self._closing.is_set() else self._try(self._store.sketch(job))

    def run(self, claimed: Claimed) -> Outcome | None:
        """Run an attempt to its end. Return None if it has no outcome: the attempt was lost, or
        another one is to follow."""
        meter = self._meter(claimed)
        keeper = threading.Thread(
            target=self._keep,
            args=(claimed, meter, done := threading.Event()),
            name="job-lease",
            daemon=True,
        )
        keeper.start()
        try:
            return self._run(claimed, meter)
        finally:
            done.set()
            keeper.join()
            self._give_place(claimed.job)
            self.endings.ended(claimed.job)
            self._wake.set()

    def beat(self, claimed: Claimed, meter: Meter, beat: int) -> None:
        """Renew the lease, and tell the meter if the job must stop."""
        lease = Lease(
            attempt=claimed.attempt, holder=self.holder, beat=beat, progress=meter.progress
        )
        sketch = self._store.sketch(claimed.job)
        if sketch.attempt != claimed.attempt or sketch.ended or not sketch.submitted:
            meter.stop(Stop.LOST)
            return
        self._store.renew(claimed.job, lease)
        self._shared.renew(claimed.job, beat)
        if sketch.cancelled:
            meter.stop(Stop.CANCELLED)
        meter.reason()

    # The service

    def start(self) -> None:
        """Find and run jobs, in threads, until ``close``."""
        thread = threading.Thread(target=self._serve, name="jobs", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self, grace_s: float = 10.0) -> None:
        """Stop the running jobs and release their leases, so that others can take them at once."""
        self._closing.set()
        self._wake.set()
        with self._lock:
            meters = [meter for _, meter in self._running.values()]
        for meter in meters:
            meter.stop(Stop.CLOSING)
        until = self._world.clock.monotonic_s() + grace_s
        for thread in list(self._threads):
            thread.join(max(0.1, until - self._world.clock.monotonic_s()))

    def wake(self) -> None:
        """Start a pass now."""
        self._wake.set()

    def stop_here(self, job: str) -> None:
        """Stop a cancelled job at once if this gateway runs it."""
        with self._lock:
            found = self._running.get(job)
        if found is not None:
            found[1].stop(Stop.CANCELLED)

    @property
    def running(self) -> int:
        """How many jobs this gateway runs."""
        with self._lock:
            return len(self._running)

    def runs(self, job: str) -> bool:
        """Whether this gateway runs the job."""
        with self._lock:
            return job in self._running

    def begin(self, claimed: Claimed) -> None:
        """Run an attempt in a thread of its own."""
        thread = threading.Thread(target=self._run_safely, args=(claimed,), name="job", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._wake.clear()
            try:
                for claimed in self.look():
                    self.begin(claimed)
            except BlockstoreError as error:
                _logger.warning("the jobs cannot be listed: %s", error)
            except Exception:
                _logger.exception("a pass over the jobs failed")
            jitter = self._world.ids.uniform(0.8, 1.2)
            self._wake.wait(self._terms.poll_s * jitter)

    def _run_safely(self, claimed: Claimed) -> None:
        try:
            self.run(claimed)
        except BlockstoreError as error:
            _logger.warning(
                "job %s could not be ended and will be tried again: %s", claimed.job, error
            )
        except Exception:
            _logger.exception("job %s failed", claimed.job)

    # Claiming

    def _try(self, sketch: Sketch) -> Claimed | None:
        request = self._requests.get(sketch.job) or self._store.request(sketch.job)
        self._requests[sketch.job] = request
        if sketch.attempt:
            held = self._store.lease(sketch.job, sketch.attempt)
            if held is None or not self._watch.over(sketch.job, held):
                return None
        if not self._take_place(sketch.job, request, ends=sketch.cancelled):
            return None
        lease = Lease(attempt=sketch.attempt + 1, holder=self.holder, beat=0)
        try:
            mine = self._store.claim(sketch.job, lease)
        except BaseException:
            self._give_place(sketch.job)
            raise
        if not mine:
            self._give_place(sketch.job)
            return None
        self._report(request.kind, "taken_over" if sketch.attempt else "claimed")
        return Claimed(job=sketch.job, request=request, lease=lease)

    def _take_place(self, job: str, request: Request, *, ends: bool) -> bool:
        """Take what the job needs to run. One that was cancelled ``ends`` at once, and needs no
        place: it would hold its client up until one is free."""
        kind = request.kind
        with self._lock:
            group = group_of(kind)
            taken = sum(group_of(one) == group for one, _ in self._running.values())
            if job in self._running or (taken >= self._terms.places and not ends):
                return False
            self._running[job] = (kind, Meter(self._world.clock, self._terms.time_limit_s))
        took = False
        try:
            took = ends or (self._shares.take(job, request) and self._shared.take(job, kind))
        finally:
            if not took:
                self._give_place(job)
        return took

    def _give_place(self, job: str) -> None:
        self._shared.give_back(job)
        self._shares.give_back(job)
        with self._lock:
            self._running.pop(job, None)

    # Running

    def _meter(self, claimed: Claimed) -> Meter:
        meter = Meter(self._world.clock, self._terms.time_limit_s, claimed.request.input_bytes)
        with self._lock:
            self._running[claimed.job] = (claimed.request.kind, meter)
        if self._closing.is_set():
            meter.stop(Stop.CLOSING)
        return meter

    def _keep(self, claimed: Claimed, meter: Meter, done: threading.Event) -> None:
        beat = 0
        while not done.wait(self._terms.lease_s / _BEATS):
            beat += 1
            try:
                self.beat(claimed, meter, beat)
            except BlockstoreError as error:
                _logger.warning("the lease of job %s was not renewed: %s", claimed.job, error)

    def _run(self, claimed: Claimed, meter: Meter) -> Outcome | None:
        work = self._works[claimed.request.kind]
        try:
            sketch = self._store.sketch(claimed.job)
            if sketch.ended:
                meter.stop(Stop.LOST)
            elif sketch.cancelled:
                meter.stop(Stop.CANCELLED)
            if claimed.attempt > MAX_ATTEMPTS:
                raise Failed(given_up(MAX_ATTEMPTS))
            meter.check()
            ended = work.run(claimed.job, claimed.attempt, claimed.request, meter)
        except Stopped as stopped:
            return self._stopped(claimed, meter, stopped.reason)
        except Failed as failed:
            return self._end(claimed, meter, State.FAILED, failure=failed.failure, clean=True)
        except (Unavailable, Conflict, Indeterminate) as error:
            if work.repeats:
                _logger.warning("job %s will be tried again: %s", claimed.job, error)
                self._release(claimed, meter)
                return None
            return self._end(claimed, meter, State.FAILED, failure=failure_of(error))
        except BlockstoreError as error:
            return self._end(claimed, meter, State.FAILED, failure=failure_of(error))
        except Exception as error:
            _logger.exception("job %s failed with an internal error", claimed.job)
            return self._end(claimed, meter, State.FAILED, failure=internal(error))
        return self._end(claimed, meter, State.DONE, ended=ended)

    def _stopped(self, claimed: Claimed, meter: Meter, reason: Stop) -> Outcome | None:
        if reason is Stop.CANCELLED:
            return self._end(claimed, meter, State.CANCELLED, clean=True)
        if reason is Stop.OVERTIME:
            # Another attempt has a new time limit and may succeed before this failure is recorded:
            # settle first.
            limit = overtime(self._terms.time_limit_s)
            return self._end(claimed, meter, State.FAILED, failure=limit)
        if reason is Stop.CLOSING:
            self._release(claimed, meter)
        return None

    def _release(self, claimed: Claimed, meter: Meter) -> None:
        """Release the lease: this attempt has ended."""
        if self._store.sketch(claimed.job).attempt == claimed.attempt:
            lease = Lease(
                attempt=claimed.attempt,
                holder=self.holder,
                beat=claimed.lease.beat,
                progress=meter.progress,
                released=self._closing.is_set(),
            )
            self._store.renew(claimed.job, lease)

    def _end(
        self,
        claimed: Claimed,
        meter: Meter,
        state: State,
        *,
        failure: Failure | None = None,
        ended: Ended | None = None,
        clean: bool = False,
    ) -> Outcome:
        """Record the outcome; return the one that counts. ``clean``: this attempt had no effect,
        which says nothing of later attempts."""
        if state is not State.DONE and not (clean and self._alone(claimed)):
            try:
                late = self._works[claimed.request.kind].settle(claimed.job, claimed.request)
            except (Corrupt, Invalid, NotFound) as error:
                state, failure = State.FAILED, unsettled(failure, error)
            else:
                if late is not None:
                    state, failure, ended = State.DONE, None, late
        outcome = Outcome(
            state=state,
            attempt=claimed.attempt,
            ended_ms=self._world.clock.now_ms(),
            progress=meter.progress,
            failure=failure,
            result=None if ended is None else ended.result,
            written=None if ended is None else ended.written,
        )
        counted = self._store.finish(claimed.job, outcome)
        self._marks.ended(claimed.job)
        self._report(claimed.request.kind, counted.state)
        self._audit(Job(id=claimed.job, request=claimed.request, outcome=counted))
        return counted

    def _alone(self, claimed: Claimed) -> bool:
        """Whether there is no other attempt, before this one or after it."""
        return claimed.attempt == 1 and self._store.sketch(claimed.job).attempt == 1

    # Removing what is over

    def _sweep(self) -> None:
        """At the start and sometimes later, list all jobs: remove those that ended, or never began,
        long ago by the store's clock, and mark open ones that are not."""
        now_s = self._world.clock.monotonic_s()
        if now_s < self._next_sweep_s:
            return
        self._next_sweep_s = now_s + max(self._terms.poll_s, min(3600.0, self._terms.keep_s / 4))
        limit_ms = self._store.bucket.now_ms() - round(self._terms.keep_s * 1000)
        sketches = self._marks.check(limit_ms)
        for sketch in sketches:
            # Read again: another gateway may have removed the job, and a client submitted the same
            # id again.
            if (
                not sketch.open
                and sketch.modified_ms < limit_ms
                and self._store.sketch(sketch.job) == sketch
            ):
                self._marks.forget(sketch)

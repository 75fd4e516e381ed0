"""The records of jobs in a bucket: who may write which, and in what order.

Rules:
- The input is written first, then the request, by create-if-absent: a job exists once its request
  exists.
- A mark under ``jobs/open/`` is written before the request and deleted after the outcome: gateways
  look at what is marked, and not at all jobs that are kept. A job without one, of a gateway of an
  earlier release, gets it when all jobs are listed.
- A place under ``jobs/of/`` is written before the request too, and says whose the job is and when
  it was submitted, so that a page of the list of jobs reads that page alone. A job without one gets
  it, and one without a job goes, when all jobs are listed.
- Attempt N belongs to the gateway that created its claim. A gateway creates a claim only if there
  is none (N = 1), or if it saw the newest one unchanged for the length of a lease on its own clock
  (``watch.py``).
- An outcome is created if absent: the first one counts, and a gateway that comes second reads it.
- Only records under ``jobs/`` are removed here, and only those of jobs that ended, or never began,
  a retention ago by the store's clock. The outcome is removed last, after the request, so that no
  half-removed job runs again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from blockstore.bucket import Bucket
from blockstore.bucket.api import ObjectInfo
from blockstore.errors import AlreadyExists, Contended, NotFound, ObjectMissing, Unanswered
from blockstore.names import (
    JOBS,
    JOBS_LISTED,
    JOBS_OPEN,
    job_cancel_key,
    job_claim_key,
    job_listed_prefix,
    job_open_key,
    job_outcome_key,
    job_place,
    job_prefix,
    job_request_key,
    parse_job_claim,
    parse_job_place,
    split_job_key,
)
from blockstore.reader.jobs.record import Lease, Outcome, Request, State

_PAGE = 1_000
"""Places that are listed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """What a listing shows of a job: which records exist, and when the newest was written, by the
    store's clock."""

    job: str
    submitted: bool
    attempt: int
    """The newest claim; 0 for none."""
    cancelled: bool
    ended: bool
    modified_ms: int
    claim_etag: str | None = None
    keys: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether the job still has to be run."""
        return self.submitted and not self.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job, from its records."""

    id: str
    request: Request
    lease: Lease | None = None
    outcome: Outcome | None = None
    cancelled: bool = field(default=False)

    @property
    def state(self) -> State:
        """The state that the records show."""
        if self.outcome is not None:
            return self.outcome.state
        if self.cancelled:
            return State.CANCELLING
        return State.QUEUED if self.lease is None else State.RUNNING


class JobStore:
    """The jobs of one bucket; safe to share between threads, and between gateways."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def submit(self, job: str, request: Request) -> bool:
        """Create the job; False if it existed. Raises Unavailable if that is unknown; to repeat
        the call is safe."""
        self.mark(job)
        place = self.list_as(job, request)
        self._forget_outcome(job)
        if self._create(job_request_key(job), request.dump()):
            return True
        with suppress(NotFound):
            standing = self.request(job)
            if _place(job, standing) != place:
                self.bucket.delete([place])
        return False

    def _forget_outcome(self, job: str) -> None:
        """Remove an outcome without a request: of a job of this id that was forgotten, up to the
        last of its records. Another job would have ended before it began."""
        there = self.sketch(job)
        if there.ended and not there.submitted:
            self.bucket.delete_once(job_outcome_key(job))

    def load(self, job: str) -> Job:
        """The job. Raises NotFound."""
        request = self.request(job)
        return self.job_of(self.sketch(job), request)

    def job_of(self, sketch: Sketch, request: Request) -> Job:
        """The job of a sketch and a request that are known already."""
        job = sketch.job
        outcome = self.outcome(job) if sketch.ended else None
        lease = self.lease(job, sketch.attempt) if sketch.attempt else None
        return Job(
            id=job, request=request, lease=lease, outcome=outcome, cancelled=sketch.cancelled
        )

    def request(self, job: str) -> Request:
        """The request of a job. Raises NotFound."""
        try:
            return Request.load(self.bucket.get(job_request_key(job)).data, job_request_key(job))
        except ObjectMissing:
            raise NotFound(f"there is no job {job}: it never existed, or it has expired") from None

    def sketch(self, job: str) -> Sketch:
        """The records that exist of one job."""
        return _sketch(job, self.bucket.list(job_prefix(job)))

    def sketches(self) -> list[Sketch]:
        """All jobs of the bucket that are kept, also those that ended, in the order of their ids; a
        listing of all of their records."""
        found: dict[str, list[ObjectInfo]] = {}
        for info in self.bucket.list(JOBS):
            split = split_job_key(info.key)
            if split is not None:
                found.setdefault(split[0], []).append(info)
        return [_sketch(job, infos) for job, infos in sorted(found.items())]

    def list_as(self, job: str, request: Request) -> str:
        """Give the job its place in the list of its owner's jobs; the key of that place."""
        place = _place(job, request)
        self.bucket.put(place, b"")
        return place

    def newest(
        self, owner: str | None, before: tuple[int, str] | None
    ) -> Iterator[tuple[int, str]]:
        """The times and ids of an owner's jobs, of all jobs for None, the newest first, and after
        ``before`` in this order. One request for a thousand of an owner; of a job, there may be
        several places, or one without a job: the time in its request says which counts."""
        owners = [job_listed_prefix(owner)] if owner is not None else None
        after = "" if before is None else job_place(*before)
        folders = self.bucket.prefixes(JOBS_LISTED) if owners is None else owners
        for place in heapq.merge(*(self._places(folder, after) for folder in folders)):
            found = parse_job_place(job_listed_prefix("") + place)
            if found is not None:
                yield found

    def _places(self, folder: str, after: str) -> Iterator[str]:
        while True:
            page = self.bucket.list(
                folder, start_after=folder + after, recursive=False, at_most=_PAGE
            )
            names = sorted(info.key.removeprefix(folder) for info in page)
            yield from names
            if len(names) < _PAGE:
                return
            after = names[-1]

    def places(self) -> dict[str, dict[str, int]]:
        """All places of each job, and when each was written, by the store's clock."""
        found: dict[str, dict[str, int]] = {}
        for info in self.bucket.list(JOBS_LISTED):
            parsed = parse_job_place(info.key)
            if parsed is not None:
                found.setdefault(parsed[1], {})[info.key] = info.modified_ms
        return found

    def unlist(self, places: Iterable[str]) -> None:
        """Places of jobs that are over, or were never submitted."""
        if keys := list(places):
            self.bucket.delete(keys)

    def mark(self, job: str) -> None:
        """Let gateways look at the job."""
        self.bucket.put(job_open_key(job), b"")

    def marked(self) -> dict[str, int]:
        """The jobs that may be open, by their id, and when each was marked, by the store's
        clock."""
        return {
            info.key.removeprefix(JOBS_OPEN): info.modified_ms
            for info in self.bucket.list(JOBS_OPEN)
        }

    def unmark(self, jobs: Iterable[str]) -> None:
        """Jobs that have ended, or never began."""
        if keys := [job_open_key(job) for job in jobs]:
            self.bucket.delete(keys)

    def claims(self, job: str) -> set[int]:
        """The attempts that have a claim."""
        return set(_attempts(info.key for info in self.bucket.list(job_prefix(job))))

    def claim(self, job: str, lease: Lease) -> bool:
        """Take an attempt; False if another gateway has it. If the store's response is lost, the
        content of the claim shows its holder."""
        key = job_claim_key(job, lease.attempt)
        if self._create(key, lease.dump()):
            return True
        held = self.lease(job, lease.attempt)
        return held is not None and held.holder == lease.holder and held.beat == lease.beat

    def renew(self, job: str, lease: Lease) -> None:
        """Show that the attempt is alive; only its holder calls this."""
        self.bucket.put(job_claim_key(job, lease.attempt), lease.dump())

    def lease(self, job: str, attempt: int) -> Lease | None:
        """The claim of an attempt; None if there is none."""
        key = job_claim_key(job, attempt)
        with suppress(ObjectMissing):
            return Lease.load(self.bucket.get(key).data, key)
        return None

    def cancel(self, job: str) -> None:
        """Record that the job is to be cancelled; the gateway that holds it ends it."""
        self._create(job_cancel_key(job), b"{}")

    def finish(self, job: str, outcome: Outcome) -> Outcome:
        """Create the outcome; return the one that counts, which may be an earlier one."""
        if self._create(job_outcome_key(job), outcome.dump()):
            return outcome
        standing = self.outcome(job)
        return outcome if standing is None else standing

    def outcome(self, job: str) -> Outcome | None:
        """The outcome of the job; None while it is open."""
        key = job_outcome_key(job)
        with suppress(ObjectMissing):
            return Outcome.load(self.bucket.get(key).data, key)
        return None

    def forget(self, sketch: Sketch) -> None:
        """Remove the listed records: the outcome last, since a request without an outcome is an
        open job. These two are removed by requests that are never retried: a client may submit the
        same id again in the meantime."""
        last = [job_request_key(sketch.job), job_outcome_key(sketch.job)]
        self.bucket.delete([key for key in sketch.keys if key not in last])
        for key in last:
            if key in sketch.keys:
                self.bucket.delete_once(key)

    def _create(self, key: str, data: bytes) -> bool:
        """Create if absent; retried if the response is lost, since the content is the same."""
        left = 3
        while True:
            try:
                self.bucket.put_if_absent(key, data)
            except AlreadyExists:
                return self._mine(key, data)
            except (Unanswered, Contended):
                left -= 1
                if not left:
                    raise
            else:
                return True

    def _mine(self, key: str, data: bytes) -> bool:
        """Whether the stored object is this one: from an earlier try whose response was lost."""
        with suppress(ObjectMissing):
            return self.bucket.get(key).data == data
        return False


def _sketch(job: str, infos: Iterable[ObjectInfo]) -> Sketch:
    found = {info.key: info for info in infos}
    attempts = _attempts(found)
    newest = max(attempts, default=0)
    return Sketch(
        job=job,
        submitted=job_request_key(job) in found,
        attempt=newest,
        cancelled=job_cancel_key(job) in found,
        ended=job_outcome_key(job) in found,
        modified_ms=max((info.modified_ms for info in found.values()), default=0),
        claim_etag=found[attempts[newest]].etag if newest else None,
        keys=tuple(sorted(found)),
    )


def _place(job: str, request: Request) -> str:
    return job_listed_prefix(request.owner) + job_place(request.created_ms, job)


def _attempts(keys: Iterable[str]) -> dict[int, str]:
    """The keys of claims by their attempts."""
    paths = ((key, key.removeprefix(JOBS).partition("/")[2]) for key in keys)
    return {attempt: key for key, path in paths if (attempt := parse_job_claim(path)) is not None}

"""The loops of the process, run by APScheduler: after each run its loop is scheduled again.

Rules:
- No loop waits for another's failure: each runs once at a time, with its own count of failures and
  its own backoff.
- Merges run one at a time, in the order in which they fell due, so tables take turns and memory is
  bounded. All other loops run next to them and to each other.
- Due times are counted by a monotonic clock: setting the machine's clock moves no loop.
- A fatal failure is reported to the process, which ends; its loop does not run again.
- No run begins once the process stops; ``wait`` returns when the running ones have ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor as PoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from blockstore.clock import Clock
from blockstore.compactor.config import Schedule
from blockstore.compactor.process.failures import FailureKind, backoff_s, classify
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.run.monitor import Abandoned
from blockstore.errors import BlockstoreError
from blockstore.service.logs import about
from blockstore.world import World

_logger = logging.getLogger(__name__)


class Pool:
    """Which threads run a loop."""

    MERGE = "merge"
    CARE = "care"
    LAKE = "lake"
    WATCH = "watch"


_THREADS = {Pool.MERGE: 1, Pool.CARE: 4, Pool.LAKE: 1, Pool.WATCH: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop over one table."""

    table: str
    name: str
    url: str
    interval_s: float
    run: Callable[[], float]
    """One run; returns the seconds until the next."""
    pool: str = Pool.CARE

    @property
    def id(self) -> str:
        return f"{self.table}\0{self.name}"


class _Due(MemoryJobStore):
    """Jobs whose dates count the seconds since the store was created, from 1970 on: no step of the
    machine's clock moves them."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._start_s = clock.monotonic_s()

    def date(self, in_s: float) -> datetime:
        """The date of a job that is due in ``in_s`` seconds."""
        return datetime.fromtimestamp(self._clock.monotonic_s() - self._start_s + in_s, UTC)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return super().get_due_jobs(self.date(0.0))

    def get_next_run_time(self) -> datetime | None:
        """The time by the machine's clock, a millisecond late rather than early: the scheduler
        waits until then and asks again."""
        due = super().get_next_run_time()
        if due is None:
            return None
        wait_s = (due - self.date(0.0)).total_seconds()
        return datetime.fromtimestamp((self._clock.now_ms() + 1) / 1000 + wait_s, UTC)


class Loops:
    """Runs the loops until it is stopped."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        schedule: Schedule,
        *,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._schedule = schedule
        self._fatal = fatal
        self._due = _Due(world.clock)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            jobstores={"default": self._due},
            executors={name: PoolExecutor(count) for name, count in _THREADS.items()},
            # A run schedules the next one just before it ends, which the scheduler counts as two.
            job_defaults={"coalesce": True, "max_instances": 2, "misfire_grace_time": None},
        )
        self._lock = threading.Lock()
        self._loops: dict[str, Loop] = {}
        self._busy: set[str] = set()
        self._again: set[str] = set()
        """Loops that run, and are to run again at once."""
        self._running = 0
        self._stopped = False
        self._idle = threading.Condition(self._lock)

    @property
    def alive(self) -> bool:
        """Whether loops are being run."""
        return bool(self._scheduler.running) and not self._stopped

    def start(self) -> None:
        """Start running what is due."""
        self._scheduler.start()

    def add(self, loop: Loop, *, in_s: float = 0.0) -> None:
        """Run a loop from now on."""
        with self._lock:
            self._loops[loop.id] = loop
        self._ledger.loop(loop.table, loop.name, loop.interval_s)
        self._schedule_next(loop, in_s)

    def drop(self, table: str) -> None:
        """Stop the loops of a table; a run under way finishes."""
        with self._lock:
            gone = [one for one in self._loops if one.startswith(f"{table}\0")]
            for one in gone:
                del self._loops[one]
                try:
                    self._scheduler.remove_job(one)
                except JobLookupError:
                    pass

    def hurry(self, table: str) -> None:
        """Run the loops of a table now; those that run already, again once they have ended."""
        for loop in self.of(table).values():
            with self._lock:
                runs = loop.id in self._busy
                if runs:
                    self._again.add(loop.id)
            if not runs:
                self._schedule_next(loop, 0.0)

    def of(self, table: str) -> dict[str, Loop]:
        """The loops of a table, by name."""
        with self._lock:
            return {one.name: one for one in self._loops.values() if one.table == table}

    def stop(self) -> None:
        """Begin no further run."""
        with self._lock:
            self._stopped = True
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until nothing runs; return whether nothing does."""
        with self._idle:
            return self._idle.wait_for(lambda: self._running == 0, timeout=seconds)

    def turn(self, loop: Loop) -> float | None:
        """One run of a loop in this thread; return the seconds until the next, None if there is
        none."""
        with self._lock:
            if self._stopped or loop.id not in self._loops:
                return None
            self._running += 1
            self._busy.add(loop.id)
        try:
            next_s = self._run(loop)
        finally:
            with self._idle:
                self._running -= 1
                self._busy.discard(loop.id)
                again = loop.id in self._again
                self._again.discard(loop.id)
                self._idle.notify_all()
        return 0.0 if again and next_s is not None else next_s

    def _run(self, loop: Loop) -> float | None:
        clock = self._world.clock
        started_s = clock.monotonic_s()
        self._ledger.started(loop.table, loop.name)
        with about(table=loop.table, loop=loop.name):
            try:
                next_s = loop.run()
            except Abandoned:
                return None
            except Exception as error:  # noqa: BLE001 - the other loops continue
                return self._failed(loop, error, clock.monotonic_s() - started_s)
        self._ledger.succeeded(loop.table, loop.name, clock.monotonic_s() - started_s, next_s)
        return next_s

    def _failed(self, loop: Loop, error: BaseException, seconds: float) -> float | None:
        failure = classify(error, loop.url)
        failures = self._ledger.failed(loop.table, loop.name, seconds, failure)
        if failure.kind is FailureKind.FATAL:
            _logger.error("%s: %s", type(error).__name__, failure.problem)
            self._fatal(error)
            return None
        schedule = self._schedule
        next_s = backoff_s(
            failures, self._world.ids, first_s=schedule.retry_s, most_s=schedule.retry_most_s
        )
        ours = failure.kind is FailureKind.RETRY or isinstance(error, BlockstoreError)
        _logger.warning(
            "%s failed (%s, %s in a row), next try in %.0f s: %s",
            loop.name,
            failure.kind,
            failures,
            next_s,
            failure.problem,
            exc_info=None if ours else error,
        )
        self._ledger.due(loop.table, loop.name, next_s)
        return next_s

    def _fire(self, loop_id: str) -> None:
        """Called by the scheduler."""
        with self._lock:
            loop = self._loops.get(loop_id)
        if loop is None:
            return
        try:
            next_s = self.turn(loop)
        except BaseException as error:  # noqa: BLE001 - a library's panic must not end the loop either
            with about(table=loop.table, loop=loop.name):
                next_s = self._failed(loop, error, 0.0)
        if next_s is not None:
            self._schedule_next(loop, next_s)

    def _schedule_next(self, loop: Loop, in_s: float) -> None:
        with self._lock:
            if self._stopped or self._loops.get(loop.id) is not loop:
                return
            # Under the lock, or a loop added in between would get the date of the one it replaces.
            self._scheduler.add_job(
                self._fire,
                "date",
                run_date=self._due.date(in_s),
                args=[loop.id],
                id=loop.id,
                executor=loop.pool,
                replace_existing=True,
            )

"""The ledger: what the loops of a process note as they work; its status is made from it.

Rules:
- One lock, held for as long as a note takes; nothing else happens under it.
- It grows with tables, not with time: finished jobs are kept up to a number, planned jobs are shown
  up to a number.
- It decides nothing. Health follows from how the loops last ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from blockstore.clock import Clock
from blockstore.compactor.process.combined import OWN_SERIES
from blockstore.compactor.process.failures import Failure, FailureKind
from blockstore.compactor.process.status import (
    JobStatus,
    LoopStatus,
    Quarantined,
    TableHealth,
    TableStatus,
)

LAKE = ""
"""The name under which the loops over the lake are noted."""

_SHOWN = 500
"""Planned jobs that a status shows; the backlog counts all."""

_FINISHED_AT_REST = 4
"""Finished jobs of a resting table that are kept: thousands of tables may rest."""

_INPUTS = 64
"""Inputs of a finished job that are kept."""


@dataclass(slots=True)
class _Record:
    """What is known of one table."""

    status: TableStatus
    loops: dict[str, LoopStatus] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    quarantined: dict[str, dict[str, Quarantined]] = field(default_factory=dict)
    """By the pass that found them: cleaning, merging."""
    asleep: dict[str, LoopStatus] = field(default_factory=dict)
    """The loops of a table that rests, as they ended last."""
    health: TableHealth = TableHealth.STARTING


class Ledger:
    """Notes of a process. Safe to share between threads."""

    def __init__(self, clock: Clock, *, history: int = 200) -> None:
        self._clock = clock
        self._history = history
        self._lock = threading.Lock()
        self._records: dict[str, _Record] = {}
        self._numbers = 0
        self._gone = 0
        self._own_series = 0

    def add(self, table: str, url: str, *, left: bool = False) -> None:
        """Note a table that was found; ``left`` if the configuration leaves it alone. A table that
        is already known is not changed."""
        health = TableHealth.LEFT if left else TableHealth.STARTING
        with self._lock:
            if table not in self._records:
                own = table == LAKE or self._own_series < OWN_SERIES
                self._own_series += own and table != LAKE
                status = TableStatus(
                    name=table,
                    url=url,
                    health=health,
                    own_series=own,
                    since_ms=self._clock.now_ms(),
                )
                self._records[table] = _Record(status, health=health)

    def rests(self, table: str, loop: str, interval_s: float) -> None:
        """Note that a table rests: one ``loop`` is left of it, which has just succeeded, and a few
        of its finished jobs."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        watching = LoopStatus(
            name=loop, interval_s=interval_s, last_success_ms=now_ms, last_success_s=now_s
        )
        with self._lock:
            record = self._records.get(table)
            if record is not None:
                record.asleep, record.loops = record.loops, {loop: watching}
                record.status = replace(
                    record.status,
                    resting=True,
                    planned=(),
                    finished=record.status.finished[:_FINISHED_AT_REST],
                )
                self._judge(record)

    def wakes(self, table: str) -> None:
        """Note that a table no longer rests. The last look at it counts as the last success of its
        loops: until then they had nothing to do."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        with self._lock:
            record = self._records.get(table)
            if record is not None:
                record.loops = {
                    name: replace(
                        one,
                        running=False,
                        last_success_ms=now_ms,
                        last_success_s=now_s,
                        next_ms=now_ms,
                    )
                    for name, one in record.asleep.items()
                }
                record.asleep = {}
                record.failures.clear()
                record.status = replace(record.status, resting=False)
                self._judge(record)

    def names(self) -> frozenset[str]:
        """The tables, by name."""
        with self._lock:
            return frozenset(self._records) - {LAKE}

    def drop(self, table: str) -> None:
        """Forget a table that is gone."""
        with self._lock:
            record = self._records.pop(table, None)
            self._gone += record is not None
            self._own_series -= record is not None and record.status.own_series

    def note(self, table: str, change: Callable[[TableStatus], TableStatus]) -> None:
        """Change what is known of a table; a table that is gone is ignored."""
        with self._lock:
            record = self._records.get(table)
            if record is not None:
                record.status = change(record.status)

    def count(self, table: str, **more: float) -> None:
        """Add to the totals of a table, by the names of ``Totals``."""

        def change(status: TableStatus) -> TableStatus:
            totals = {name: getattr(status.totals, name) + value for name, value in more.items()}
            return replace(status, totals=replace(status.totals, **totals))

        self.note(table, change)

    # --- loops ---

    def loop(self, table: str, name: str, interval_s: float) -> None:
        """Note that a loop exists."""
        with self._lock:
            record = self._records.get(table)
            if record is not None:
                record.loops.setdefault(name, LoopStatus(name=name, interval_s=interval_s))

    def started(self, table: str, name: str) -> None:
        """Note that a run of a loop begins."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        self._loop(
            table,
            name,
            lambda one: replace(
                one, running=True, last_start_ms=now_ms, last_start_s=now_s, next_ms=None
            ),
        )

    def succeeded(self, table: str, name: str, seconds: float, next_s: float) -> None:
        """Note a run that succeeded; the next is due in ``next_s``."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()

        def change(one: LoopStatus) -> LoopStatus:
            return replace(
                one,
                running=False,
                last_success_ms=now_ms,
                last_success_s=now_s,
                next_ms=now_ms + round(next_s * 1000),
                failures=0,
                problem="",
                runs=one.runs + 1,
                seconds=seconds,
            )

        self._loop(table, name, change, None)

    def failed(self, table: str, name: str, seconds: float, failure: Failure) -> int:
        """Note a run that failed; return how many failed in a row."""
        now_ms = self._clock.now_ms()

        def change(one: LoopStatus) -> LoopStatus:
            return replace(
                one,
                running=False,
                last_failure_ms=now_ms,
                failures=one.failures + 1,
                problem=failure.problem,
                runs=one.runs + 1,
                failed_runs=one.failed_runs + 1,
                seconds=seconds,
            )

        found = self._loop(table, name, change, failure)
        return 1 if found is None else found.failures

    def due(self, table: str, name: str, next_s: float) -> None:
        """Note that the next run of a failed loop is due in ``next_s``."""
        next_ms = self._clock.now_ms() + round(next_s * 1000)
        self._loop(table, name, lambda one: replace(one, next_ms=next_ms))

    def _loop(
        self,
        table: str,
        name: str,
        change: Callable[[LoopStatus], LoopStatus],
        *failure: Failure | None,
    ) -> LoopStatus | None:
        with self._lock:
            record = self._records.get(table)
            if record is None or name not in record.loops:
                return None
            record.loops[name] = change(record.loops[name])
            for one in failure:
                record.failures.pop(name, None)
                if one is not None:
                    record.failures[name] = one
            self._judge(record)
            return record.loops[name]

    def _judge(self, record: _Record) -> None:
        """Note the health that a table has by its loops now, and since when."""
        health = _health(record)
        if health is not record.health:
            record.health = health
            record.status = replace(record.status, since_ms=self._clock.now_ms())

    # --- jobs ---

    def planned(self, table: str, jobs: Iterable[JobStatus]) -> None:
        """Note the jobs to do, in their order."""
        listed = tuple(jobs)[:_SHOWN]
        self.note(table, lambda status: replace(status, planned=listed))

    def begins(self, table: str, job: JobStatus) -> JobStatus:
        """Note that a planned job starts; return it with its number."""
        with self._lock:
            self._numbers += 1
            numbered = replace(job, number=self._numbers, started_ms=self._clock.now_ms())
        self.note(
            table,
            lambda status: replace(
                status,
                planned=tuple(one for one in status.planned if one.inputs != job.inputs),
                running=(*status.running, numbered),
            ),
        )
        return numbered

    def ended(self, table: str, job: JobStatus) -> None:
        """Note that a running job ended, with its final state."""
        kept = replace(job, inputs=job.inputs[:_INPUTS], ended_ms=self._clock.now_ms())

        def change(status: TableStatus) -> TableStatus:
            totals = status.totals
            jobs = {**totals.jobs, job.state.value: totals.jobs.get(job.state.value, 0) + 1}
            return replace(
                status,
                running=tuple(one for one in status.running if one.number != job.number),
                finished=(kept, *status.finished)[: self._history],
                totals=replace(totals, jobs=jobs),
            )

        self.note(table, change)

    # --- quarantine ---

    def quarantined(self, table: str, finder: str, blocks: Mapping[str, tuple[str, str]]) -> None:
        """Note all blocks that ``finder`` now reports in quarantine: ULID to reason and command."""
        now_ms = self._clock.now_ms()
        with self._lock:
            record = self._records.get(table)
            if record is None:
                return
            before = record.quarantined.get(finder, {})
            record.quarantined[finder] = {
                ulid: Quarantined(
                    ulid=ulid,
                    reason=reason,
                    command=command,
                    since_ms=before[ulid].since_ms if ulid in before else now_ms,
                )
                for ulid, (reason, command) in blocks.items()
            }

    # --- status ---

    def tables(self) -> tuple[TableStatus, ...]:
        """Every table as it is now, by name."""
        with self._lock:
            return tuple(
                _status(record) for name, record in sorted(self._records.items()) if name != LAKE
            )

    @property
    def gone(self) -> int:
        """How many tables were dropped."""
        return self._gone

    def lake_loops(self) -> tuple[LoopStatus, ...]:
        """The loops over the lake."""
        with self._lock:
            record = self._records.get(LAKE)
            return () if record is None else tuple(record.loops.values())

    def failure(self, table: str) -> Failure | None:
        """The failure that decides a table's health."""
        with self._lock:
            record = self._records.get(table)
            return None if record is None else _worst(record)


def _worst(record: _Record) -> Failure | None:
    failures = sorted(record.failures.values(), key=lambda one: one.kind is FailureKind.RETRY)
    return failures[0] if failures else None


def _health(record: _Record) -> TableHealth:
    if record.health is TableHealth.LEFT:
        return TableHealth.LEFT
    worst = _worst(record)
    if worst is not None:
        return TableHealth.FAILING if worst.kind is FailureKind.RETRY else TableHealth.DEGRADED
    if any(one.last_success_ms is None for one in record.loops.values()):
        return TableHealth.STARTING
    return TableHealth.OK


def _status(record: _Record) -> TableStatus:
    worst = _worst(record)
    blocks = {ulid: one for found in record.quarantined.values() for ulid, one in found.items()}
    return replace(
        record.status,
        health=record.health,
        problem="" if worst is None else worst.problem,
        fix="" if worst is None else worst.fix,
        loops=tuple(record.loops.values()),
        quarantined=tuple(blocks[ulid] for ulid in sorted(blocks)),
    )

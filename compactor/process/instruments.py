"""The process's Prometheus metrics: made from its status when they are scraped; every series exists
from the start, with zeros. Beyond a number of tables the rest are one (``combined.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from blockstore.compactor.process.combined import healths, with_series
from blockstore.compactor.process.status import (
    JobState,
    LoopStatus,
    Status,
    TableHealth,
    TableStatus,
)
from blockstore.service.metrics import Source, boundary_totals, gauge, total

_LEVELS = range(2, 7)
"""Levels whose backlog is reported as zero; higher levels appear as they occur."""

_ENDS = tuple(one for one in JobState if one not in (JobState.PLANNED, JobState.RUNNING))
_P = "blockstore_compactor_"

Of = Callable[[TableStatus], float]


class Instruments:
    """Registers the metrics of a process, given a function that returns its status."""

    def __init__(self, registry: CollectorRegistry, status: Callable[[], Status]) -> None:
        self._status = status
        Source(registry, self._metrics)

    def _metrics(self) -> Iterator[Metric]:
        status = self._status()
        tables = with_series(status.tables)
        yield gauge(
            f"{_P}ready", "Whether the process is ready: 1 or 0.", (), [((), not status.not_ready)]
        )
        yield gauge(f"{_P}tables", "Tables that were found.", (), [((), len(status.tables))])
        resting = sum(one.resting for one in status.tables)
        yield gauge(f"{_P}tables_resting", "Tables that are only looked at.", (), [((), resting)])
        yield total(
            f"{_P}tables_gone", "Tables that were found and have vanished.", (), [((), status.gone)]
        )
        yield gauge(
            f"{_P}table_health",
            "1 for the health that the table has: starting, ok, failing, degraded or left.",
            ("table", "health"),
            healths(status.tables).items(),
        )
        yield from _backlog(tables)
        yield from _running(tables)
        yield from _loops(status.loops, tables)
        yield from _gauges(tables)
        yield from _totals(tables)
        yield from boundary_totals(
            _P, ("table",), [((one.name,), one.boundary_requests) for one in tables]
        )
        yield from _staleness(status, tables)
        yield gauge(
            f"{_P}export_lag_seconds",
            "Seconds since the export for other engines was current; for tables with one.",
            ("table",),
            [
                ((one.name,), status.now_s - one.exported_s)
                for one in tables
                if one.exported_s is not None
            ],
        )


def _backlog(tables: Iterable[TableStatus]) -> Iterator[Metric]:
    found = [
        (one.name, level, {backlog.level: backlog for backlog in one.backlog}.get(level))
        for one in tables
        for level in sorted({*_LEVELS, *(backlog.level for backlog in one.backlog)})
    ]
    labels = ("table", "level")
    yield gauge(
        f"{_P}backlog_jobs",
        "Merges to be done, by the level of their results.",
        labels,
        (((name, str(level)), 0 if one is None else one.jobs) for name, level, one in found),
    )
    yield gauge(
        f"{_P}backlog_bytes",
        "Bytes that these merges will read, by the level of their results.",
        labels,
        (((name, str(level)), 0 if one is None else one.bytes) for name, level, one in found),
    )


def _running(tables: Iterable[TableStatus]) -> Iterator[Metric]:
    def each(of: Of) -> Iterator[tuple[tuple[str], float]]:
        return (((one.name,), of(one)) for one in tables)

    yield gauge(
        f"{_P}running_jobs", "Merges that run.", ("table",), each(lambda one: len(one.running))
    )
    yield gauge(
        f"{_P}running_progress_ratio",
        "How far the running merge is, from 0 to 1; 0 without one.",
        ("table",),
        each(lambda one: max((job.progress for job in one.running), default=0)),
    )
    yield gauge(
        f"{_P}merge_idle_seconds",
        "Seconds for which the running merge has moved no byte; 0 without one, and for remote "
        "merges.",
        ("table",),
        each(lambda one: one.idle_s),
    )
    yield gauge(
        f"{_P}merge_rows_per_second",
        "Rows a second of the last merge that ended.",
        ("table",),
        each(lambda one: next((job.rows_per_s for job in one.finished if job.rows_per_s), 0)),
    )


def _loops(lake: Iterable[LoopStatus], tables: Iterable[TableStatus]) -> Iterator[Metric]:
    loops = [("", one) for one in lake]
    loops += [(table.name, one) for table in tables for one in table.loops]
    labels = ("table", "loop")
    yield gauge(
        f"{_P}last_success_timestamp_seconds",
        "When a loop last succeeded; 0 if it never did.",
        labels,
        (((table, one.name), (one.last_success_ms or 0) / 1000) for table, one in loops),
    )
    yield gauge(
        f"{_P}consecutive_failures",
        "Runs of a loop that failed in a row until now.",
        labels,
        (((table, one.name), one.failures) for table, one in loops),
    )
    yield total(
        f"{_P}loop_runs",
        "Runs of a loop.",
        labels,
        (((table, one.name), one.runs) for table, one in loops),
    )
    yield total(
        f"{_P}loop_failures",
        "Runs of a loop that failed.",
        labels,
        (((table, one.name), one.failed_runs) for table, one in loops),
    )
    yield gauge(
        f"{_P}loop_seconds",
        "How long the last run of a loop took.",
        labels,
        (((table, one.name), one.seconds) for table, one in loops),
    )


_GAUGES: tuple[tuple[str, str, Of], ...] = (
    ("quarantined_blocks", "Blocks that wait for a person.", lambda one: len(one.quarantined)),
    (
        "waiting_blocks",
        "Marked blocks that are due but held back by a rule.",
        lambda one: one.waiting,
    ),
    (
        "kept_bytes",
        "Bytes of blocks that only earlier versions or tags name.",
        lambda one: one.kept_bytes,
    ),
    ("blocks", "Live blocks.", lambda one: one.blocks),
    ("rows", "Rows of live blocks.", lambda one: one.rows),
    ("bytes", "Bytes of live blocks.", lambda one: one.bytes),
    (
        "read_amplification",
        "Rows that queries read for each row that they see; 1 where rows have no versions.",
        lambda one: one.read_amplification,
    ),
    ("version", "The newest version; 0 without an index.", lambda one: one.version or 0),
    ("boundary", "The boundary of the index; 0 without one.", lambda one: one.boundary or 0),
)

_TOTALS: tuple[tuple[str, str, Of], ...] = (
    ("merged_rows", "Rows written by merges.", lambda one: one.totals.merged_rows),
    ("merged_bytes", "Bytes written by merges.", lambda one: one.totals.merged_bytes),
    (
        "merge_seconds",
        "Seconds spent in successful merges.",
        lambda one: one.totals.merge_seconds,
    ),
    ("discovered_blocks", "Aged blocks that were published.", lambda one: one.totals.discovered),
    ("marked_blocks", "Deletion marks that were placed.", lambda one: one.totals.marked),
    ("withdrawn_marks", "Deletion marks that were withdrawn.", lambda one: one.totals.withdrawn),
    ("removed_blocks", "Blocks that were removed.", lambda one: one.totals.removed),
    ("removed_objects", "Objects that were removed.", lambda one: one.totals.removed_objects),
    ("removed_bytes", "Bytes that were removed.", lambda one: one.totals.removed_bytes),
    ("retired_blocks", "Blocks that retention expired.", lambda one: one.totals.retired),
    ("exports", "Exports for other engines that wrote something.", lambda one: one.totals.exports),
    (
        "resumed_merges",
        "Uploaded merges that were committed after a restart.",
        lambda one: one.totals.resumed,
    ),
    (
        "collected_entries",
        "Index entries that were collected.",
        lambda one: one.totals.collected_entries,
    ),
    (
        "collected_checkpoints",
        "Checkpoints that were collected.",
        lambda one: one.totals.collected_checkpoints,
    ),
    (
        "written_checkpoints",
        "Checkpoints that were written.",
        lambda one: one.totals.written_checkpoints,
    ),
)


def _gauges(tables: Iterable[TableStatus]) -> Iterator[Metric]:
    for name, text, of in _GAUGES:
        yield gauge(f"{_P}{name}", text, ("table",), [((one.name,), of(one)) for one in tables])


def _totals(tables: Iterable[TableStatus]) -> Iterator[Metric]:
    for name, text, of in _TOTALS:
        yield total(f"{_P}{name}", text, ("table",), [((one.name,), of(one)) for one in tables])
    yield total(
        f"{_P}jobs",
        "Merges that ended, by outcome.",
        ("table", "outcome"),
        [
            ((one.name, end.value), one.totals.jobs.get(end.value, 0))
            for one in tables
            for end in _ENDS
        ],
    )


def _staleness(status: Status, tables: Iterable[TableStatus]) -> Iterator[Metric]:
    """The age of the oldest of a table's last successes: one figure to alert on."""
    ages = [
        (
            (one.name,),
            status.now_s - (status.started_s if (last_s := one.last_success_s) is None else last_s),
        )
        for one in tables
        if one.health is not TableHealth.LEFT
    ]
    yield gauge(
        f"{_P}staleness_seconds",
        "Seconds since the last success of the loop that has gone longest without one.",
        ("table",),
        ages,
    )

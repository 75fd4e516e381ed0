"""What is measured of a large table, as a process that begins with nothing does it."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from blockstore.bucket import open_bucket
from blockstore.bucket.metered import Metered
from blockstore.export.exported import Memo
from blockstore.export.iceberg.export import METADATA, export_iceberg
from blockstore.extras import load
from blockstore.index.change import Append
from blockstore.index.checkpoint_name import every
from blockstore.index.log import Log
from blockstore.names import checkpoint_key
from blockstore.scan.plan import ScanPlan, plan_pass, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.simulation.large.table import APART_MS, BLOCK_ROWS, Numbered
from blockstore.table import Table
from blockstore.table import open as open_table
from blockstore.world import World

_COMPACT = "blockstore.compactor.run.once", "blockstore.compactor.settings"
_EXPORTS = 9
_COMMITS = 1_024
_LATE = 100
_APART = {"ranges_ms": (APART_MS,)}
"""Settings under which no two blocks of the table are in one window."""
_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one piece of work has cost."""

    work: str
    wall_s: float
    cpu_s: float
    peak_mib: float | None
    """The most memory that the process has had until then; None where the system does not say."""
    bytes: int | None = None
    """The size of the object that it has written, if it is about one."""


class Watch:
    """Takes the figures of one process."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self.figures: list[Figure] = []

    def run(self, work: str, call: Callable[[], object]) -> Figure:
        """Carry out the call and note what it has cost."""
        wall, cpu = self._clock.monotonic_s(), _cpu_s()
        call()
        figure = Figure(
            work=work,
            wall_s=self._clock.monotonic_s() - wall,
            cpu_s=_cpu_s() - cpu,
            peak_mib=_peak_mib(),
        )
        self.figures.append(figure)
        return figure


def opened(url: str, blocks: int, world: World) -> list[Figure]:
    """Open the table and plan two queries for one row each."""
    watch, log = Watch(world), Log(open_bucket(url, world), world)
    watch.run("open", lambda: _expect("blocks", len(log.poll().blocks), blocks))
    rows = blocks * BLOCK_ROWS
    watch.run("first plan of a point query", lambda: _point(log, rows // 2))
    watch.run("second", lambda: _point(log, rows // 3))
    return watch.figures


def everything(url: str, blocks: int, world: World) -> list[Figure]:
    """Plan a query of all rows."""
    watch, snapshot = Watch(world), Snapshot.of(Log(open_bucket(url, world), world).poll())
    watch.run(
        "plan of everything",
        lambda: _expect("chunks", len(plan_scan(snapshot).chunks), blocks),
    )
    return watch.figures


def passed(url: str, blocks: int, world: World) -> list[Figure]:
    """Go through the chunks of all rows once, as a reader of all rows does."""
    watch, snapshot = Watch(world), Snapshot.of(Log(open_bucket(url, world), world).poll())
    plans: list[ScanPlan] = []
    watch.run("plan for one pass over everything", lambda: plans.append(plan_pass(snapshot)))
    watch.run("the pass", lambda: _expect("chunks", sum(1 for _ in plans[0].chunks), blocks))
    return watch.figures


def compaction(url: str, blocks: int, world: World) -> list[Figure]:
    """What ``compact --plan`` does, without printing it, where nothing was ever merged."""
    watch, table = Watch(world), open_table(url, world=world)
    watch.run("compact --plan", lambda: _expect("plans", _jobs(table) > 0, blocks > 1))
    return watch.figures


def compaction_later(url: str, blocks: int, world: World) -> list[Figure]:
    """The same where everything is merged but some new blocks, by two processes: one that begins
    with nothing, and one that planned before they came.

    Each block is in a window of its own, and each new one is in that of another.
    """
    table = open_table(url, world=world)
    running = Watch(world)
    before = _jobs(table, **_APART)
    running.run("plan again", lambda: _expect("jobs", _jobs(table, **_APART), before))
    made, late = Numbered(), min(_LATE, blocks)
    first = len(table.log.state.blocks)  # with those of the commits that were measured before
    new = [made.between(first + number, number * (blocks // late)) for number in range(late)]
    table.log.commit(Append(commit=world.ids.ulid(), blocks=tuple(new)))
    running.run(
        f"plan again after {_LATE} new blocks",
        lambda: _expect("jobs", _jobs(table, **_APART), before + late),
    )
    return running.figures


def compaction_cold(url: str, blocks: int, world: World) -> list[Figure]:
    """Open the table and plan, as ``compact --plan`` does, after ``compaction_later``."""
    watch = Watch(world)

    def planned() -> None:
        _expect("plans", _jobs(open_table(url, world=world), **_APART) >= min(_LATE, blocks), True)

    watch.run(f"open, compact --plan of a merged table, {_LATE} new blocks", planned)
    return watch.figures


def _jobs(table: Table, **settings: object) -> int:
    once, named = _COMPACT
    plan_table = load(once, "plan_table", "the figure of compact --plan")
    chosen = load(named, "Settings", "the figure of compact --plan")(**settings)
    return len(plan_table(table, chosen))


def commits(url: str, blocks: int, world: World) -> list[Figure]:
    """Commit up to the next version that has a checkpoint."""
    watch, log = Watch(world), Log(open_bucket(url, world), world)
    state = log.poll()
    due = every(blocks)
    there = len(state.blocks)  # with those of the commits that were measured before
    for number in range(there, there + due - state.version % due):
        watch.run("commit", partial(_commit, log, world, number))
    *plain, last = watch.figures
    return [
        Figure(
            work=f"commit, median of {len(plain)}",
            wall_s=median(one.wall_s for one in plain),
            cpu_s=median(one.cpu_s for one in plain),
            peak_mib=plain[-1].peak_mib,
        ),
        Figure(
            work="commit with a checkpoint",
            wall_s=last.wall_s,
            cpu_s=last.cpu_s,
            peak_mib=last.peak_mib,
            bytes=len(log.bucket.get(checkpoint_key(log.state.version)).data),
        ),
    ]


def many_commits(url: str, blocks: int, world: World) -> list[Figure]:
    """Commit a thousand times, checkpoints included."""
    watch, log = Watch(world), Log(open_bucket(url, world), world)
    log.poll()
    _commit(log, world, blocks)  # what is loaded once

    def run() -> None:
        for number in range(blocks + 1, blocks + 1 + _COMMITS):
            _commit(log, world, number)

    found = watch.run("", run)
    each = replace(
        found,
        work=f"commit, mean of {_COMMITS:,} with checkpoints",
        wall_s=found.wall_s / _COMMITS,
        cpu_s=found.cpu_s / _COMMITS,
    )
    return [each]


def exports(url: str, blocks: int, world: World) -> list[Figure]:
    """Export the table as Iceberg metadata, and again after each of some commits, as a compactor
    does."""
    bucket = Metered(open_bucket(url, world))
    watch, table, memo = Watch(world), Table.open_bucket(bucket, world), Memo()
    there = len(table.log.state.blocks)  # with those of the commits that were measured before
    _expect("blocks", there >= blocks, True)

    def export(files: int) -> None:
        memo.begin({info.key for info in bucket.list(METADATA)})
        _expect("files", export_iceberg(table, memo).files, files)

    watch.run("first export to Iceberg", lambda: export(there))
    sizes = []
    for number in range(there, there + _EXPORTS):
        _commit(table.log, world, number)
        table.log.poll()
        bucket.reset()
        watch.run("export", partial(export, number + 1))
        sizes.append(bucket.bytes["put"] + bucket.bytes["put_if_absent"])
    first, *more = watch.figures
    return [
        first,
        Figure(
            work=f"export of one more version, median of {_EXPORTS}",
            wall_s=median(one.wall_s for one in more),
            cpu_s=median(one.cpu_s for one in more),
            peak_mib=more[-1].peak_mib,
            bytes=int(median(sizes)),
        ),
    ]


def _point(log: Log, number: int) -> None:
    plan = plan_scan(Snapshot.of(log.state), where=f"id = {number}")
    _expect("chunks", len(plan.chunks), 1)


def _commit(log: Log, world: World, number: int) -> None:
    log.commit(Append(commit=world.ids.ulid(), blocks=(Numbered().meta(number),)))


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} {what}, expected {expected}: the figure is worth nothing")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> float | None:
    # Not getrusage, whose peak a process inherits from the one that started it.
    found = _PEAK.search(_STATUS.read_text()) if _STATUS.exists() else None
    return None if found is None else int(found[1]) / 1024

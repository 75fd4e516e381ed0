"""Many tables as one, where a page or a scrape would grow with their number. Pure.

Rules:
- What is counted is added; of ages the oldest, of failures in a row and amplification the worst is
  taken. What belongs to one table alone, as its version, is left out.
- A scrape has series of the first ``OWN_SERIES`` tables that were found, and one table ``OTHERS``
  for the rest. Which table has series of its own never changes while the process runs, so that no
  counter falls because another table came or went.
- A page shows ``A_PAGE`` tables, those that are not well first, and the rest as one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from blockstore.compactor.process.status import (
    Backlog,
    LoopStatus,
    TableHealth,
    TableStatus,
    Totals,
)
from blockstore.index.boundary import BoundaryCounts

OWN_SERIES = 200
A_PAGE = 200
OTHERS = "(others)"

_ILL = (TableHealth.DEGRADED, TableHealth.FAILING, TableHealth.STARTING)


def combined(tables: Sequence[TableStatus]) -> TableStatus:
    """These tables as one, which is as well as the worst of them."""
    tended = [one for one in tables if one.health is not TableHealth.LEFT]
    worst = min(tended or tables, key=_rank)
    exported = [one.exported_s for one in tables if one.exported_s is not None]
    return TableStatus(
        name=OTHERS,
        url="",
        health=worst.health,
        blocks=sum(one.blocks for one in tables),
        rows=sum(one.rows for one in tables),
        bytes=sum(one.bytes for one in tables),
        read_amplification=max(one.read_amplification for one in tables),
        exported_s=min(exported, default=None),
        backlog=_backlog(tables),
        running=tuple(job for one in tables for job in one.running),
        idle_s=max(one.idle_s for one in tables),
        finished=tuple(one.finished[0] for one in tables if one.finished)[:1],
        quarantined=tuple(block for one in tables for block in one.quarantined),
        loops=_loops(tended),
        waiting=sum(one.waiting for one in tables),
        kept=sum(one.kept for one in tables),
        kept_bytes=sum(one.kept_bytes for one in tables),
        totals=_totals(one.totals for one in tables),
        boundary_requests=_counts(one.boundary_requests for one in tables),
    )


def with_series(tables: Sequence[TableStatus]) -> tuple[TableStatus, ...]:
    """The tables of a scrape."""
    own = [one for one in tables if one.own_series]
    others = [one for one in tables if not one.own_series]
    return (*own, combined(others)) if others else tuple(own)


def healths(tables: Sequence[TableStatus]) -> dict[tuple[str, str], int]:
    """How many tables have each health, by table and health, as a scrape shows it."""
    found: Counter[tuple[str, str]] = Counter()
    for one in tables:
        name = one.name if one.own_series else OTHERS
        for health in TableHealth:
            found[name, health.value] += one.health is health
    return dict(found)


def page_of(
    tables: Sequence[TableStatus], text: str, number: int
) -> tuple[list[TableStatus], int, TableStatus | None]:
    """One page of the tables whose names have this text in them, from page 0 on: those tables, how
    many match in all, and all tables that the page does not show, as one."""
    wanted = text.casefold()
    matching = [one for one in tables if wanted in one.name.casefold()]
    if len(matching) > A_PAGE:
        matching.sort(key=lambda one: (_rank(one) if one.health in _ILL else len(_ILL), one.name))
    shown = matching[max(0, number) * A_PAGE :][:A_PAGE]
    names = {one.name for one in shown}
    rest = [one for one in tables if one.name not in names]
    return shown, len(matching), combined(rest) if rest else None


def _rank(one: TableStatus) -> int:
    return _ILL.index(one.health) if one.health in _ILL else len(_ILL)


def _backlog(tables: Iterable[TableStatus]) -> tuple[Backlog, ...]:
    levels: dict[int, list[Backlog]] = defaultdict(list)
    for one in tables:
        for backlog in one.backlog:
            levels[backlog.level].append(backlog)
    return tuple(
        Backlog(
            level=level,
            jobs=sum(one.jobs for one in found),
            blocks=sum(one.blocks for one in found),
            bytes=sum(one.bytes for one in found),
        )
        for level, found in sorted(levels.items())
    )


def _loops(tables: Iterable[TableStatus]) -> tuple[LoopStatus, ...]:
    by_name: dict[str, list[LoopStatus]] = defaultdict(list)
    for one in tables:
        for loop in one.loops:
            by_name[loop.name].append(loop)
    return tuple(_loop(found) for found in by_name.values())


def _loop(loops: Sequence[LoopStatus]) -> LoopStatus:
    oldest = min(loops, key=lambda one: -1.0 if one.last_success_s is None else one.last_success_s)
    return replace(
        oldest,
        running=any(one.running for one in loops),
        failures=max(one.failures for one in loops),
        runs=sum(one.runs for one in loops),
        failed_runs=sum(one.failed_runs for one in loops),
        seconds=max(one.seconds for one in loops),
    )


def _totals(all_totals: Iterable[Totals]) -> Totals:
    sums: Counter[str] = Counter()
    jobs: Counter[str] = Counter()
    for totals in all_totals:
        jobs.update(totals.jobs)
        for one in fields(Totals):
            if one.name != "jobs":
                sums[one.name] += getattr(totals, one.name)
    return replace(Totals(**sums), jobs=dict(jobs))  # type: ignore[arg-type]


def _counts(counts: Iterable[BoundaryCounts]) -> BoundaryCounts:
    found = BoundaryCounts()
    for one in counts:
        found.add(
            checks=one.checks,
            refusals=one.refusals,
            advances=one.advances,
            failed=one.failed,
            seconds=one.seconds,
        )
    return found

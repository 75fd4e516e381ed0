"""Whether the process is ready, and whether it must be restarted: from its status alone. Pure.

Ready means: there is at least one table, and every table that the process manages was worked on
recently. A table that fails, a loop without success for ``ready_age``, a merge that moves no byte
for as long, a run that does not end: each is named, with what to do. Nothing that has halted looks
ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from blockstore.compactor.process.status import LoopStatus, TableHealth, TableStatus

_SHOWN = 20
"""Reasons that are shown; the rest are counted."""

_WATCHED = frozenset({"compact", "clean", "tables", "watch"})
"""The loops whose age counts: without them a table silently falls behind."""

_STUCK = 4
"""After this many times ``ready_age`` without a byte the process must be restarted."""

_ENDLESS = 4
"""After this many times ``ready_age``, or its interval if that is longer, a run hangs. Cleaning at
a bounded rate takes long."""


def not_ready(
    lake: Iterable[LoopStatus],
    tables: Iterable[TableStatus],
    *,
    now_s: float,
    ready_age_s: float,
    idle_s: float | None,
) -> tuple[str, ...]:
    """Why the process is not ready, at ``now_s`` of the monotonic clock.

    ``idle_s`` is for how long the running merge has moved no byte, None without one.
    """
    reasons = list(
        _reasons(tuple(lake), tuple(tables), now_s, ready_age_s, moves=idle_s is not None)
    )
    if idle_s is not None and idle_s > ready_age_s:
        reasons.append(
            f"the running merge has moved no byte for {idle_s:.0f} s: check whether the store "
            "responds and, for a merge on Spark, whether its tasks still run"
        )
    more = len(reasons) - _SHOWN
    return (*reasons[:_SHOWN], f"and {more} more") if more > 0 else tuple(reasons)


def stuck(*, ready_age_s: float, idle_s: float | None) -> tuple[str, ...]:
    """Why the process must be restarted, as far as its merge shows."""
    if idle_s is None or idle_s <= _STUCK * ready_age_s:
        return ()
    return (f"the running merge has moved no byte for {idle_s:.0f} s: restart the process",)


def _reasons(
    lake: Sequence[LoopStatus],
    tables: Sequence[TableStatus],
    now_s: float,
    ready_age_s: float,
    *,
    moves: bool,
) -> Iterator[str]:
    """``moves``: it is known for how long the running merges have moved no byte."""
    for loop in lake:
        yield from _old(loop, "the lake", now_s, ready_age_s)
        if loop.name != "tables":
            continue
        if loop.last_success_s is None:
            yield f"the lake has not been listed yet{_problem(loop)}"
        elif not tables:
            # A disk that is not mounted, a mistyped URL, or a lake that is still empty.
            yield "there is no table at its URL or directly below it: check the URL, or create one"
    for table in tables:
        if table.health is TableHealth.LEFT:
            continue
        if table.health is TableHealth.DEGRADED:
            yield f"{table.name}: {table.problem.rstrip('.')}; {table.fix}"
            continue
        waiting = [loop for loop in table.loops if loop.last_success_s is None]
        if not table.loops:
            yield f"{table.name}: not opened yet{f': {table.problem}' if table.problem else ''}"
        for loop in waiting:
            yield f"{table.name}: {loop.name} has not finished a run yet{_problem(loop)}"
        for loop in table.loops:
            merging = moves and bool(table.running) and loop.name == "compact"
            yield from _old(loop, table.name, now_s, ready_age_s, merging=merging)


def _old(
    loop: LoopStatus, of: str, now_s: float, ready_age_s: float, *, merging: bool = False
) -> Iterator[str]:
    """A loop that succeeded before, and whose run now does not end, or that has not succeeded for
    too long.

    A run that is ``merging`` may take as long as it moves bytes, which is checked separately.
    """
    if loop.last_success_s is None:
        return
    if loop.running:
        ran_s = 0.0 if loop.last_start_s is None else now_s - loop.last_start_s
        if not merging and ran_s > _ENDLESS * max(ready_age_s, loop.interval_s):
            yield (
                f"{of}: {loop.name} has run for {ran_s:.0f} s without ending: check whether the "
                "store responds"
            )
        return
    if loop.name not in _WATCHED:
        return
    age_s = now_s - loop.last_success_s
    if age_s > max(ready_age_s, 3 * loop.interval_s):
        yield f"{of}: {loop.name} has not succeeded for {age_s:.0f} s{_problem(loop)}"


def _problem(loop: LoopStatus) -> str:
    return f": {loop.problem}" if loop.problem else ""

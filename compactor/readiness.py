"""Whether the process is ready, and whether it must be restarted: from its status alone. Pure.

Ready means: every table that it is told to look after is looked after, and was so lately. A table that fails, a loop that has
not ended well for ``ready_age``, a merge that moves no byte for as long, a run that does not end, each is named, with what to
do. Nothing that has halted looks ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compactor.status import LoopStatus, TableHealth, TableStatus

__all__ = ["not_ready", "stuck"]

_TOLD = 20
"""Reasons that are told; the rest is counted."""

_WATCHED = frozenset({"compact", "clean", "tables"})
"""The loops whose age decides: without them a table silently falls behind."""

_STUCK = 4
"""So many times ``ready_age`` without a byte, and the process must be restarted."""

_ENDLESS = 4
"""So many times ``ready_age``, or its interval if that is longer, and a run hangs; cleaning at a bounded rate takes long."""


def not_ready(
    lake: Iterable[LoopStatus],
    tables: Iterable[TableStatus],
    *,
    now_ms: int,
    ready_age_s: float,
    idle_s: float | None,
) -> tuple[str, ...]:
    """Why the process is not ready; ``idle_s``: for how long the running merge has moved no byte, None without one."""
    reasons = list(_reasons(lake, tables, now_ms, ready_age_s, moves=idle_s is not None))
    if idle_s is not None and idle_s > ready_age_s:
        reasons.append(
            f"the running merge has moved no byte for {idle_s:.0f} s: see whether the store answers"
        )
    more = len(reasons) - _TOLD
    return (*reasons[:_TOLD], f"and {more} more") if more > 0 else tuple(reasons)


def stuck(*, ready_age_s: float, idle_s: float | None) -> tuple[str, ...]:
    """Why the process must be restarted, as far as its merge tells."""
    if idle_s is None or idle_s <= _STUCK * ready_age_s:
        return ()
    return (f"the running merge has moved no byte for {idle_s:.0f} s: restart the process",)


def _reasons(
    lake: Iterable[LoopStatus],
    tables: Iterable[TableStatus],
    now_ms: int,
    ready_age_s: float,
    *,
    moves: bool,
) -> Iterator[str]:
    """``moves``: it is known for how long the running merges have moved no byte."""
    for loop in lake:
        yield from _old(loop, "the lake", now_ms, ready_age_s)
        if loop.last_success_ms is None:
            yield f"the lake has not been listed yet{_told(loop)}"
    for table in tables:
        if table.health is TableHealth.LEFT:
            continue
        if table.health is TableHealth.DEGRADED:
            yield f"{table.name}: {table.problem}; {table.fix}"
            continue
        waiting = [loop for loop in table.loops if loop.last_success_ms is None]
        if not table.loops:
            yield f"{table.name}: not opened yet{f': {table.problem}' if table.problem else ''}"
        for loop in waiting:
            yield f"{table.name}: {loop.name} has not ended once yet{_told(loop)}"
        for loop in table.loops:
            merging = moves and bool(table.running) and loop.name == "compact"
            yield from _old(loop, table.name, now_ms, ready_age_s, merging=merging)


def _old(
    loop: LoopStatus, of: str, now_ms: int, ready_age_s: float, *, merging: bool = False
) -> Iterator[str]:
    """A loop that ended well before, and now runs without an end, or has not ended well for too long.

    A run that is ``merging`` may take as long as it moves bytes, which is looked at for itself.
    """
    if loop.last_success_ms is None:
        return
    if loop.running:
        ran_s = (now_ms - (loop.last_start_ms or now_ms)) / 1000
        if not merging and ran_s > _ENDLESS * max(ready_age_s, loop.interval_s):
            yield f"{of}: {loop.name} has run for {ran_s:.0f} s and not ended: see whether the store answers"
        return
    if loop.name not in _WATCHED:
        return
    age_s = (now_ms - loop.last_success_ms) / 1000
    if age_s > max(ready_age_s, 3 * loop.interval_s):
        yield f"{of}: {loop.name} has not ended well for {age_s:.0f} s{_told(loop)}"


def _told(loop: LoopStatus) -> str:
    return f": {loop.problem}" if loop.problem else ""

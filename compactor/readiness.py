"""Whether the process is ready, and whether it must be restarted: from its status alone. Pure.

Ready means: every table that it is told to look after is looked after, and was so lately. A table that fails, a loop that has
not ended well for ``ready_age``, a merge that moves no byte for as long, each is named, with what to do. Nothing that has
halted looks ready.
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


def not_ready(
    lake: Iterable[LoopStatus],
    tables: Iterable[TableStatus],
    *,
    now_ms: int,
    ready_age_s: float,
    idle_s: float | None,
) -> tuple[str, ...]:
    """Why the process is not ready; ``idle_s``: for how long the running merge has moved no byte, None without one."""
    reasons = list(_reasons(lake, tables, now_ms, ready_age_s))
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
    lake: Iterable[LoopStatus], tables: Iterable[TableStatus], now_ms: int, ready_age_s: float
) -> Iterator[str]:
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
            yield from _old(loop, table.name, now_ms, ready_age_s)


def _old(loop: LoopStatus, of: str, now_ms: int, ready_age_s: float) -> Iterator[str]:
    """A loop that ran before, does not run now, and has not ended well for too long."""
    if loop.name not in _WATCHED or loop.last_success_ms is None or loop.running:
        return
    age_s = (now_ms - loop.last_success_ms) / 1000
    if age_s > max(ready_age_s, 3 * loop.interval_s):
        yield f"{of}: {loop.name} has not ended well for {age_s:.0f} s{_told(loop)}"


def _told(loop: LoopStatus) -> str:
    return f": {loop.problem}" if loop.problem else ""

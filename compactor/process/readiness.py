"""Whether the process is ready, and whether it must be restarted: from its status alone. Pure.

Ready means: every table that it is told to look after is looked after, and was so lately, and there
is one. A table that fails, a loop that has not ended well for ``ready_age``, a merge that moves no
byte for as long, a run that does not end, each is named, with what to do. Nothing that has halted
looks ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from blockstore.compactor.process.status import LoopStatus, TableHealth, TableStatus

_TOLD = 20
"""Reasons that are told; the rest is counted."""

_WATCHED = frozenset({"compact", "clean", "tables"})
"""The loops whose age decides: without them a table silently falls behind."""

_STUCK = 4
"""So many times ``ready_age`` without a byte, and the process must be restarted."""

_ENDLESS = 4
"""So many times ``ready_age``, or its interval if that is longer, and a run hangs; cleaning at a
bounded rate takes long."""


def not_ready(
    lake: Iterable[LoopStatus],
    tables: Iterable[TableStatus],
    *,
    now_s: float,
    ready_age_s: float,
    idle_s: float | None,
) -> tuple[str, ...]:
    """Why the process is not ready, at ``now_s`` of the clock that nobody sets;

    ``idle_s``: for how long the running merge has moved no byte, None without one.
    """
    reasons = list(
        _reasons(tuple(lake), tuple(tables), now_s, ready_age_s, moves=idle_s is not None)
    )
    if idle_s is not None and idle_s > ready_age_s:
        reasons.append(
            f"the running merge has moved no byte for {idle_s:.0f} s: see whether the store "
            "answers, and where it is done "
            "elsewhere (Spark) whether its tasks go on there"
        )
    more = len(reasons) - _TOLD
    return (*reasons[:_TOLD], f"and {more} more") if more > 0 else tuple(reasons)


def stuck(*, ready_age_s: float, idle_s: float | None) -> tuple[str, ...]:
    """Why the process must be restarted, as far as its merge tells."""
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
        if loop.last_success_s is None:
            yield f"the lake has not been listed yet{_told(loop)}"
        elif not tables:
            # A disk that is not mounted, or a URL with a typing error, looks like this; so does a
            # lake that waits for its first.
            yield "there is no table at its URL, nor in a folder right below it: check the URL, or create a table"
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
            yield f"{table.name}: {loop.name} has not ended once yet{_told(loop)}"
        for loop in table.loops:
            merging = moves and bool(table.running) and loop.name == "compact"
            yield from _old(loop, table.name, now_s, ready_age_s, merging=merging)


def _old(
    loop: LoopStatus, of: str, now_s: float, ready_age_s: float, *, merging: bool = False
) -> Iterator[str]:
    """A loop that ended well before, and now runs without an end, or has not ended well for too
    long.

    A run that is ``merging`` may take as long as it moves bytes, which is looked at for itself.
    """
    if loop.last_success_s is None:
        return
    if loop.running:
        ran_s = 0.0 if loop.last_start_s is None else now_s - loop.last_start_s
        if not merging and ran_s > _ENDLESS * max(ready_age_s, loop.interval_s):
            yield f"{of}: {loop.name} has run for {ran_s:.0f} s and not ended: see whether the store answers"
        return
    if loop.name not in _WATCHED:
        return
    age_s = now_s - loop.last_success_s
    if age_s > max(ready_age_s, 3 * loop.interval_s):
        yield f"{of}: {loop.name} has not ended well for {age_s:.0f} s{_told(loop)}"


def _told(loop: LoopStatus) -> str:
    return f": {loop.problem}" if loop.problem else ""

"""When time alone makes a plan: a window closes, a block has waited long enough. Pure.

A plan is a function of blocks, settings and time. While the blocks stay, it is made for later
times, until one has a job; the moment of that is found by halving.
"""

from __future__ import annotations

from collections.abc import Callable

_HOURS = (1, 2, 4, 8, 16, 32, 64)
_NEAR_S = 900.0


def due_s(has_jobs: Callable[[float], bool]) -> float | None:
    """In how many seconds there is a job, to a quarter of an hour; None if there is none in the
    next days. ``has_jobs`` says whether the plan has one in so many seconds; it has none now."""
    before = 0.0
    for hours in _HOURS:
        after = hours * 3600.0
        if not has_jobs(after):
            before = after
            continue
        while after - before > _NEAR_S:
            middle = (before + after) / 2
            before, after = (before, middle) if has_jobs(middle) else (middle, after)
        return after
    return None

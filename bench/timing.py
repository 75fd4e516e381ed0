"""Clock readings and what is made of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

__all__ = ["milliseconds", "percentile", "timed"]


def timed(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def milliseconds(call: Callable[[], object], *, times: int, warm: int) -> float:
    """The median of ``times`` calls, after ``warm`` that do not count."""
    for _ in range(warm):
        call()
    return statistics.median(timed(call) for _ in range(times)) * 1_000


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of ``values`` lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

"""What follows from a listing, read while all that it shows is still there.

A block that a listing shows, and that is not marked in it, goes ``delete_delay`` later at the
earliest (R7). A process that stands still in between, as in a closed laptop or a paused container,
would find that merged blocks are gone; the merge is not in its old listing, and it would answer
without their rows.

Rule: a listing and what it leads to are read within half of ``delete_delay``, by both clocks of
this machine, or read again. The other half is for the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from blockstore.clock import Clock
from blockstore.errors import Unavailable
from blockstore.format.durations import format_duration
from blockstore.format.properties import Properties
from blockstore.freshness import Freshness

__all__ = ["read_in_time"]

T = TypeVar("T")

_TRIES = 3


def read_in_time(clock: Clock, url: str, read: Callable[[], tuple[T, Properties]]) -> T:
    """What ``read`` answers, which begins with a listing, beside the delays of the table. Raises
    Unavailable where it is too slow time and again."""
    for _ in range(_TRIES):
        fresh = Freshness(clock)
        found, properties = read()
        fresh.lasts_s = properties.delete_delay_s / 2
        if not fresh.is_over:
            return found
    raise Unavailable(
        f"{url} was listed {_TRIES} times, and each time it took longer than half of the table's "
        "delete_delay "
        f"({format_duration(properties.delete_delay_s)}) to read what the listing shows, which "
        "may be removed meanwhile: raise "
        "delete_delay, or open the table with a cache, so that less is to be read"
    )

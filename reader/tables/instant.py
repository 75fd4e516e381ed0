"""One instant for several tables: the newest moment at which a remembered snapshot of each was
current.

The starts and ends of all looks of this process are numbered in the order in which they happen; no
clock is used. A look that ends at e saw its snapshot current at some moment before e. A later look
that started at s and found the same snapshot saw it current after s; no other was current between
them. So the snapshot was current throughout [e, s]. Snapshots of several tables whose intervals
share a moment were all current at that moment: what a writer did to one table before another is in
neither, in the first alone, or in both, never in the second alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blockstore.reader.tables.look import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A snapshot and the interval in which it was certainly the newest, in this process's order of
    events."""

    found: Found
    from_event: int
    """The end of the look that saw it first."""
    to_event: int
    """The start of the last look that saw it; before ``from_event`` until a second look saw it."""
    to_s: float
    """The time of ``to_event``."""

    def current_at(self, event: int) -> bool:
        """Whether it was certainly the newest at that event."""
        return self.from_event <= event <= self.to_event


def common_instant(
    seen: Mapping[str, Sequence[Seen]], *, not_before_s: float
) -> dict[str, Found] | None:
    """One remembered snapshot of each table, all current at the newest moment at which that is
    possible; None if there is no such moment at or after ``not_before_s``."""
    moments = {one.to_event: one.to_s for each in seen.values() for one in each}
    for event in sorted(moments, reverse=True):
        if moments[event] < not_before_s:
            return None
        chosen = {
            name: next((one.found for one in each if one.current_at(event)), None)
            for name, each in seen.items()
        }
        if all(found is not None for found in chosen.values()):
            return {name: found for name, found in chosen.items() if found is not None}
    return None

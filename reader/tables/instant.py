"""One instant for several tables: the newest moment at which a remembered snapshot of each was
current.

How it is known: the beginnings and ends of all looks of this process are numbered in the order in
which they happen, and no clock is trusted. A look that ends at e has seen its snapshot current at
some moment before e, and a later look that began at s and found the same has seen it current after
s; no other was current in between. So the snapshot was current throughout [e, s]. Snapshots of
several tables whose intervals share a moment were all current at that moment: what a writer did to
one table before another is in neither, in the first alone, or in both, never in the second alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blockstore.reader.tables.look import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A snapshot, and since and until when it was certainly the newest, in this process's own order
    of events."""

    found: Found
    from_event: int
    """The end of the look that first saw it."""
    to_event: int
    """The beginning of the last look that saw it still; before ``from_event`` until there was a
    second one."""
    to_s: float
    """When that was."""

    def current_at(self, event: int) -> bool:
        """Whether it was certainly the newest then."""
        return self.from_event <= event <= self.to_event


def common_instant(
    seen: Mapping[str, Sequence[Seen]], *, not_before_s: float
) -> dict[str, Found] | None:
    """One remembered snapshot of every table, all current at the newest moment at which there are
    such; None if there is none at or after ``not_before_s``."""
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

"""One instant for several tables: the newest moment at which a remembered snapshot of each was current.

How it is known (no clock is trusted): a look that ends at e has seen its snapshot current at some moment before e, and a
later look that began at s and found the same has seen it current after s; no other was current in between. So the
snapshot was current throughout [e, s]. Snapshots of several tables whose intervals share a moment were all current at
that moment: what a writer did to one table before another is in neither, in the first alone, or in both, never in
the second alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reader.tables.look import Found

__all__ = ["Seen", "common_instant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A snapshot, and since and until when it was certainly the newest, in this process's own seconds."""

    found: Found
    from_s: float
    """The end of the look that first saw it."""
    to_s: float
    """The beginning of the last look that saw it still; before ``from_s`` until there was a second one."""

    def current_at(self, moment_s: float) -> bool:
        """Whether it was certainly the newest then."""
        return self.from_s <= moment_s <= self.to_s


def common_instant(
    seen: Mapping[str, Sequence[Seen]], *, not_before_s: float
) -> tuple[float, dict[str, Found]] | None:
    """The newest moment at which one remembered snapshot of every table was current, and these; None if there is none
    at or after ``not_before_s``."""
    moments = sorted({one.to_s for each in seen.values() for one in each}, reverse=True)
    for moment in moments:
        if moment < not_before_s:
            return None
        chosen = {
            name: next((one.found for one in each if one.current_at(moment)), None)
            for name, each in seen.items()
        }
        if all(found is not None for found in chosen.values()):
            return moment, {name: found for name, found in chosen.items() if found is not None}
    return None

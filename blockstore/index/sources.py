"""The accounted sources: every write that the index ever took in, above the floor.

This is what makes a block count once: a source that is accounted is never published again, whether
its block is still live, was merged, or was removed long ago.

Invariants:
- The sources of live blocks are always accounted; a checkpoint therefore stores only the others.
- ``remove`` takes none away; only the floor forgets (protocol 3.6), and never what ``keep`` or a
  live block names.
- A value never changes; adding is O(log n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import immutables
import numpy as np

from blockstore.index import ulids
from blockstore.lazy import once

_OVERLAY = 4_096
_SHARE = 8

Added = immutables.Map[str, None]


class Sources:
    """An immutable set of ULIDs: a sorted array, made at first need, and an overlay."""

    def __init__(
        self, base: Callable[[], ulids.UlidArray] | None = None, added: Added | None = None
    ) -> None:
        self._load = base if base is not None else (lambda: ulids.EMPTY)
        self._added: Added = immutables.Map() if added is None else added

    @classmethod
    def of(cls, sources: Iterable[str] = ()) -> Sources:
        """The set of these sources."""
        array = ulids.unique(ulids.from_texts(sources))
        return cls(lambda: array)

    @once
    def _base(self) -> ulids.UlidArray:
        return self._load()

    def __contains__(self, source: object) -> bool:
        if source in self._added:
            return True
        return isinstance(source, str) and ulids.position(self._base, source) is not None

    def __len__(self) -> int:
        return len(self.array())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            np.array_equal(self.array(), other.array())
            if isinstance(other, Sources)
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sources({len(self._base)} + {len(self._added)})"

    def held(self, sources: Iterable[str]) -> list[str]:
        """Those of ``sources`` that are accounted, in the order given."""
        asked = list(sources)
        if len(asked) < 64:
            return [source for source in asked if source in self]
        found = ulids.holds(self._base, ulids.from_texts(asked))
        return [
            source for source, yes in zip(asked, found, strict=True) if yes or source in self._added
        ]

    def with_(self, sources: Iterable[str]) -> Sources:
        """The set and these sources."""
        added = self._added.mutate()
        for source in sources:
            added[source] = None
        grown = Sources(lambda: self._base, added.finish())
        if len(grown._added) > max(_OVERLAY, len(self._base) // _SHARE):
            array = grown.array()
            return Sources(lambda: array)
        return grown

    def above(self, floor: str, keep: ulids.UlidArray) -> Sources:
        """The set without what is at or below the floor, except what ``keep`` (sorted) names."""
        array = self.array()
        kept = array[(array > floor.encode("ascii")) | ulids.holds(keep, array)]
        return Sources(lambda: kept)

    def upto(self, floor: str) -> ulids.UlidArray:
        """Those at or below a floor, sorted."""
        array = self.array()
        return array[array <= floor.encode("ascii")]

    def array(self) -> ulids.UlidArray:
        """All, sorted."""
        if not self._added:
            return self._base
        return ulids.unique(self._base, ulids.from_texts(self._added.keys()))

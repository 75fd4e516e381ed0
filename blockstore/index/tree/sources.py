"""Accounted sources in leaves: loaded only where a source is between the first and the last one of
a leaf.

A missing leaf never means "not accounted": it raises.
"""

from __future__ import annotations

from collections.abc import Iterable

import immutables
import numpy as np
import numpy.typing as npt

from blockstore.index import ulids
from blockstore.index.sources import Added, Sources
from blockstore.index.tree.leaf import Leaf
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.sums import SourceSums
from blockstore.lazy import once


class SourceLeaves:
    """The leaves of sources of one root, and where each begins and ends: shared by the sets of all
    versions that rest on it."""

    def __init__(self, every: tuple[Leaf[SourceSums], ...]) -> None:
        self.every = every

    @once
    def firsts(self) -> ulids.UlidArray:
        """The first source of each."""
        return ulids.from_texts(leaf.sums.first for leaf in self.every)

    @once
    def lasts(self) -> ulids.UlidArray:
        """The last source of each."""
        return ulids.from_texts(leaf.sums.last for leaf in self.every)


class LeafSources(Sources):
    """The sources of a root's leaves without ``gone``, and those of an overlay."""

    def __init__(
        self,
        held: SourceLeaves,
        leaves: Leaves,
        added: Added | None = None,
        gone: ulids.UlidArray = ulids.EMPTY,
    ) -> None:
        super().__init__(self._load_all, added)
        self._held = held
        self.gone = gone
        """Sources of the leaves that were forgotten, sorted."""
        self.loader = leaves

    @property
    def leaves(self) -> tuple[Leaf[SourceSums], ...]:
        """The root's leaves."""
        return self._held.every

    @property
    def added(self) -> Added:
        """The sources of the overlay."""
        return self._added

    def __contains__(self, source: object) -> bool:
        return isinstance(source, str) and bool(self.held([source]))

    def __repr__(self) -> str:
        return f"LeafSources({len(self.leaves)} leaves + {len(self._added)})"

    def held(self, sources: Iterable[str]) -> list[str]:
        asked = list(sources)
        known = {source for source in asked if source in self._added}
        rest = ulids.unique(ulids.from_texts(one for one in asked if one not in known))
        rest = rest[~ulids.holds(self.gone, rest)]
        places = self._places(rest)
        for place in np.unique(places[places >= 0]).tolist():
            mine = rest[places == place]
            found = ulids.holds(self.loader.sources(self.leaves[place]), mine)
            known.update(ulids.to_texts(mine[found]))
        return [source for source in asked if source in known]

    def with_(self, sources: Iterable[str]) -> LeafSources:
        added = self._added.mutate()
        for source in sources:
            added[source] = None
        return LeafSources(self._held, self.loader, added.finish(), self.gone)

    def above(self, floor: str, keep: ulids.UlidArray) -> LeafSources:
        edge = floor.encode("ascii")
        low = [leaf for leaf in self.leaves if leaf.sums.first <= floor]
        gone = [self.gone]
        for array in self.loader.each_source_leaf(low):
            gone.append(array[(array <= edge) & ~ulids.holds(keep, array)])
        mine = ulids.from_texts(source for source in self._added if source <= floor)
        added = self._added.mutate()
        for source in ulids.to_texts(mine[~ulids.holds(keep, mine)]):
            del added[source]
        return LeafSources(self._held, self.loader, added.finish(), ulids.unique(*gone))

    def upto(self, floor: str) -> ulids.UlidArray:
        low = [leaf for leaf in self.leaves if leaf.sums.first <= floor]
        stored = ulids.unique(ulids.EMPTY, *self.loader.each_source_leaf(low))
        added = ulids.from_texts(source for source in self._added if source <= floor)
        every = ulids.unique(stored[~ulids.holds(self.gone, stored)], added)
        return every[every <= floor.encode("ascii")]

    def after(self, at: LeafSources, written: LeafSources) -> LeafSources:
        """The same set on the leaves of a later root, ``written``, which hold what ``at`` was: an
        earlier one on the leaves of this."""
        added = immutables.Map({source: None for source in self._added if source not in at._added})
        forgotten = ulids.from_texts(source for source in at._added if source not in self._added)
        later = self.gone[~ulids.holds(at.gone, self.gone)]
        return LeafSources(written._held, written.loader, added, ulids.unique(later, forgotten))

    def _places(self, sources: ulids.UlidArray) -> npt.NDArray[np.int64]:
        """The leaf in whose range each source is; -1: in none."""
        held = self._held
        if not held.every or not len(sources):
            return np.full(len(sources), -1, dtype=np.int64)
        places = np.minimum(held.lasts.searchsorted(sources), len(held.every) - 1)
        inside = (held.firsts[places] <= sources) & (sources <= held.lasts[places])
        return np.where(inside, places, -1)

    def _load_all(self) -> ulids.UlidArray:
        every = ulids.unique(ulids.EMPTY, *self.loader.each_source_leaf(self.leaves))
        return every[~ulids.holds(self.gone, every)]

"""The rows of live blocks in leaves: only those leaves are loaded that a question is about.

Rules:
- A row's place counts over all leaves, in order.
- A ULID outside the ranges of all leaves costs no request.
- What goes over all rows loads some leaves at a time and keeps none; only the small columns of all
  rows that were asked for stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from blockstore.index import ulids
from blockstore.index.arrow import numbers
from blockstore.index.derived import Derived, Places
from blockstore.index.rows import (
    BULK,
    CODED,
    FRAME,
    LiveBlock,
    MemoryBulk,
    Rows,
    coded,
    picked,
)
from blockstore.index.tree.gathering import gathered
from blockstore.index.tree.leaf import Leaf, Root
from blockstore.index.tree.loading import Leaves, LoadedBlocks
from blockstore.index.tree.sums import BlockSums
from blockstore.index.ulids import UlidArray
from blockstore.lazy import once

_PARTS = 4
_FEW = 16
"""The rows of so many leaves at once are kept."""


class LeafRows(Rows):
    """The rows of some leaves of a root."""

    is_whole = False

    def __init__(
        self, root: Root, leaves: Leaves, only: tuple[Leaf[BlockSums], ...] | None = None
    ) -> None:
        self.root = root
        self.root_version = root.version
        self.leaves = root.blocks if only is None else only
        """Those whose rows these are."""
        self.loader = leaves
        counts = [leaf.sums.count for leaf in self.leaves]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self._parts: dict[tuple[int, ...], LeafRows] = {}
        self._made: dict[int, LiveBlock] = {}
        self._some: pa.Table | None = None
        """Some small columns of all rows, which were asked for last."""
        self._bulk = _LeafBulk(self)
        self.derived: Derived[LiveBlock] = Derived(len(self), self._make, self.pieces)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def is_broken(self) -> bool:
        return self.loader.misses(self.root)

    @once
    def frame(self) -> pa.Table:
        """The small columns of all rows."""
        found = gathered(self._frames(FRAME.names), len(self))
        self._some = None
        return found

    def columns(self, names: Sequence[str]) -> pa.Table:
        if "frame" in self.__dict__:
            return coded(self.frame, names)
        some = self._some
        if some is None or not set(names) <= set(some.column_names):
            wanted = pa.schema([CODED.field(name) for name in names])
            self._some = some = gathered(self._frames(names), len(self), wanted)
        return some.select(names)

    @property
    def stream_of_each(self) -> pa.ChunkedArray:
        return self.columns(("stream",))["stream"]

    @once
    def ulids(self) -> UlidArray:
        chunks = self.columns(("ulid",))["ulid"].chunks
        found = [ulids.from_arrow(chunk) for chunk in chunks]
        return found[0] if len(found) == 1 else np.concatenate([ulids.EMPTY, *found])

    @property
    def sources(self) -> UlidArray:
        return self._sources_of(range(len(self.leaves)))

    def sources_to(self, floor: str) -> UlidArray:
        return self._sources_of(
            [at for at, leaf in enumerate(self.leaves) if leaf.sums.source_low <= floor]
        )

    def position(self, ulid: str) -> int | None:
        key = ulid.encode("ascii", "replace")
        at = int(self._lasts.searchsorted(key))
        if at == len(self.leaves) or self._firsts[at] > key:
            return None
        place = self.loader.blocks(self.leaves[at]).rows.position(ulid)
        return None if place is None else int(self._starts[at]) + place

    def holding(self, sources: Iterable[str]) -> list[int]:
        wanted = sorted(set(sources))
        asked = ulids.from_texts(wanted)
        low = np.array([leaf.sums.source_low.encode() for leaf in self.leaves], asked.dtype)
        high = np.array([leaf.sums.source_high.encode() for leaf in self.leaves], asked.dtype)
        may = asked.searchsorted(low) < asked.searchsorted(high, side="right")
        found: list[int] = []
        for at, one in self._each(np.flatnonzero(may).tolist()):
            found += [int(self._starts[at]) + place for place in one.rows.holding(wanted)]
        return found

    def only(self, positions: Sequence[int]) -> Rows:
        places = np.array(sorted(positions), dtype=np.int64)
        pieces = [FRAME.empty_table()], [BULK.empty_table()]
        for _, table in self.pieces(places):
            pieces[0].append(table.select(FRAME.names))
            pieces[1].append(table.select(BULK.names))
        frame, bulk = (pa.concat_tables(some).combine_chunks() for some in pieces)
        return Rows(frame, MemoryBulk(bulk))

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        at_of = self._leaf_of(positions)
        for at, one in self._each(np.unique(at_of).tolist()):
            places = positions[at_of == at]
            yield places, picked(one.table, places - self._starts[at])

    def sift(
        self, known: Callable[[BlockSums], bool], changed: Sequence[int]
    ) -> tuple[tuple[int, ...], Sequence[BlockSums]]:
        touched = frozenset(self._leaf_of(np.array(changed, dtype=np.int64)).tolist())
        out = [at not in touched and known(leaf.sums) for at, leaf in enumerate(self.leaves)]
        places = tuple(at for at, skipped in enumerate(out) if not skipped)
        return places, [
            leaf.sums for leaf, skipped in zip(self.leaves, out, strict=True) if skipped
        ]

    def part(self, leaves: tuple[int, ...]) -> LeafRows:
        found = self._parts.get(leaves)
        if found is None:
            found = LeafRows(self.root, self.loader, tuple(self.leaves[at] for at in leaves))
            kept = list(self._parts.items())[1 - _PARTS :]
            self._parts = dict([*kept, (leaves, found)])
        return found

    def within(self, leaves: tuple[int, ...], positions: Sequence[int]) -> Sequence[int]:
        places, chosen = np.array(positions, dtype=np.int64), np.array(leaves, dtype=np.int64)
        at_of, starts = self._leaf_of(places), self.part(leaves)._starts
        moved: Sequence[int] = (
            places - self._starts[at_of] + starts[chosen.searchsorted(at_of)]
        ).tolist()
        return moved

    def is_same(self, other: Rows) -> bool:
        if not isinstance(other, LeafRows):
            return False
        mine, its = ([one.sha256 for one in rows.leaves] for rows in (self, other))
        return mine == its

    def _make(self, positions: Sequence[int]) -> list[LiveBlock]:
        places = np.array(positions, dtype=np.int64)
        at_of = self._leaf_of(places)
        made: dict[int, LiveBlock] = {}
        for at, one in self._each(np.unique(at_of).tolist()):
            mine = places[at_of == at]
            blocks = one.rows.take((mine - self._starts[at]).tolist())
            made.update(zip(mine.tolist(), blocks, strict=True))
        return [made[place] for place in places.tolist()]

    def _each(self, at: Sequence[int]) -> Iterator[tuple[int, LoadedBlocks]]:
        """The rows of these leaves, in order; those of few leaves are kept."""
        if len(at) <= _FEW:
            self.loader.prefetch([self.leaves[one] for one in at])
            yield from ((one, self.loader.blocks(self.leaves[one])) for one in at)
            return
        found = self.loader.each_block_leaf([self.leaves[one] for one in at])
        yield from ((at[place], loaded) for place, loaded in found)

    def _frames(self, names: Sequence[str]) -> Iterator[pa.Table]:
        if len(self.leaves) <= _FEW:
            every = self._each(range(len(self.leaves)))
            return (one.table.select(names) for _, one in every)
        return self.loader.each_frame(self.leaves, names)

    def _leaf_of(self, positions: Places) -> Places:
        return np.searchsorted(self._starts, positions, side="right").astype(np.int64) - 1

    def _sources_of(self, at: Sequence[int]) -> UlidArray:
        return np.concatenate([ulids.EMPTY, *(one.rows.sources for _, one in self._each(at))])

    @once
    def _firsts(self) -> UlidArray:
        return ulids.from_texts(leaf.sums.first for leaf in self.leaves)

    @once
    def _lasts(self) -> UlidArray:
        return ulids.from_texts(leaf.sums.last for leaf in self.leaves)


class _LeafBulk:
    """The large columns of the rows of leaves: all of them in memory, for who asks for all."""

    def __init__(self, rows: LeafRows) -> None:
        self._rows = rows

    def take(self, positions: Sequence[int]) -> pa.Table:
        places = np.array(positions, dtype=np.int64)
        ordered, back = np.unique(places, return_inverse=True)
        found = [BULK.empty_table(), *(table for _, table in self.pieces(ordered))]
        return pa.concat_tables(found).take(numbers(back))

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        for places, table in self._rows.pieces(positions):
            yield places, table.select(BULK.names)

    def all(self) -> pa.Table:
        every = np.arange(len(self._rows), dtype=np.int64)
        return pa.concat_tables([BULK.empty_table(), *(table for _, table in self.pieces(every))])

    def sources(self) -> pa.ChunkedArray:
        return self.all()["sources"]

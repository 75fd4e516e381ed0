"""Which leaves a state has: those of the root that it was read from, but for stretches in which
something has changed.

Rules:
- The leaves are a function of the blocks and sources alone: growing from a root gives the same ones
  as cutting all of them from the start (a test compares both).
- A leaf whose content the base has too keeps the base's name, and is not sent. That is decided
  before it is.
- Only the leaves of changed stretches are loaded, and one stretch after the other. The others are
  not looked at one by one, for there are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from blockstore.index import ulids
from blockstore.index.derived import Mask
from blockstore.index.rows import BULK, FRAME, MemoryBulk, Rows
from blockstore.index.state import State
from blockstore.index.tree.blocks import LeafRows
from blockstore.index.tree.encoding import COLUMNS, encode_blocks, encode_sources, sha256_of
from blockstore.index.tree.leaf import Leaf
from blockstore.index.tree.sources import LeafSources
from blockstore.index.tree.split import BLOCKS, SOURCES, Rule, ends, nothing
from blockstore.index.tree.sums import (
    BlockSums,
    SourceSums,
    sums_of_blocks,
    sums_of_sources,
)
from blockstore.index.ulids import UlidArray

S = TypeVar("S", bound=BlockSums | SourceSums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown(Generic[S]):
    """A leaf of a state."""

    leaf: Leaf[S]
    canonical: bytes | None
    """Its content, where the base does not have it."""


def block_leaves(state: State, *, alone: bool = False) -> Iterator[Grown[BlockSums]]:
    """The leaves of a state's blocks. ``alone``: none has the name of one of the base."""
    held, overlay = state.blocks.base, state.blocks.overlay
    if not isinstance(held, LeafRows):
        whole = state.blocks.rows()
        every = (rows for _, rows in whole.pieces(np.arange(len(whole), dtype=np.int64)))
        yield from cut_blocks(every, {}, state.version)
        return
    known = {} if alone else {leaf.sha256: leaf for leaf in held.root.blocks}
    put = Rows.of(block for block in overlay.values() if block is not None)
    changed = np.array(sorted(overlay), dtype=ulids.EMPTY.dtype)
    gone = frozenset(ulid for ulid, block in overlay.items() if block is None)
    touched = _touched(held.leaves, changed, alone=alone)
    for part in _parts(held.leaves, touched, gone, BLOCKS):
        if not part.remade:
            yield from (Grown(leaf=leaf, canonical=None) for leaf in part.leaves)
            continue
        old = (one.table for _, one in held.loader.each_block_leaf(part.leaves))
        yield from cut_blocks(_with(old, changed, put, part), known, state.version)


def source_leaves(state: State, *, alone: bool = False) -> Iterator[Grown[SourceSums]]:
    """The same of its sources."""
    held = state.accounted
    if not isinstance(held, LeafSources):
        yield from cut_sources(held.array(), {}, state.version)
        return
    known = {} if alone else {leaf.sha256: leaf for leaf in held.leaves}
    added, gone = ulids.unique(ulids.from_texts(held.added)), held.gone
    gone = gone[~ulids.holds(added, gone)]
    changed = ulids.unique(added, gone)
    lost = frozenset(ulids.to_texts(gone))
    for part in _parts(held.leaves, _touched(held.leaves, changed, alone=alone), lost, SOURCES):
        if not part.remade:
            yield from (Grown(leaf=leaf, canonical=None) for leaf in part.leaves)
            continue
        old = ulids.unique(ulids.EMPTY, *held.loader.each_source_leaf(part.leaves))
        inside = added[part.holds(added)]
        yield from cut_sources(
            ulids.unique(old[~ulids.holds(gone, old)], inside), known, state.version
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(Generic[S]):
    """Leaves that follow one another, up to an end that stays one."""

    leaves: Sequence[Leaf[S]]
    remade: bool
    """Whether they are made again: something has changed in them, or all are."""
    above: bytes
    """The last ULID before them; all are above it."""
    last: bytes | None
    """Their last ULID; None for what is at the end of the set."""

    def holds(self, sought: UlidArray) -> Mask:
        """Which of these ULIDs belong here."""
        inside = sought > self.above
        return inside if self.last is None else inside & (sought <= self.last)


def _parts(
    leaves: Sequence[Leaf[S]], touched: Iterable[int], gone: frozenset[str], rule: Rule
) -> Iterator[_Part[S]]:
    """All leaves in order, in parts: the stretches of those at the places ``touched``, which are
    sorted, each with the stretches that follow it where its end is gone; and what is between
    them. The place behind the last leaf is what follows all of them."""

    def stays(place: int) -> bool:
        last = leaves[place].sums.last
        return rule.is_end(last) and last not in gone

    def part(first: int, stop: int, *, remade: bool, is_open: bool = False) -> _Part[S]:
        above = leaves[first - 1].sums.last.encode("ascii") if first else b""
        last = None if is_open else leaves[stop - 1].sums.last.encode("ascii")
        return _Part(leaves=leaves[first:stop], remade=remade, above=above, last=last)

    done = 0
    for place in touched:
        if place < done:
            continue
        first, stop = place, place
        while first > done and not stays(first - 1):
            first -= 1
        while stop < len(leaves) and not stays(stop):
            stop += 1
        if first > done:
            yield part(done, first, remade=False)
        yield part(first, stop + 1, remade=True, is_open=stop == len(leaves))
        done = stop + 1
    if done < len(leaves):
        yield part(done, len(leaves), remade=False)


def _touched(leaves: Sequence[Leaf[S]], changed: UlidArray, *, alone: bool) -> Sequence[int]:
    """The places of the leaves in which something has changed; of all, where all are made again."""
    if alone:
        return range(len(leaves) + 1)
    lasts = ulids.from_texts(leaf.sums.last for leaf in leaves)
    places: list[int] = np.unique(lasts.searchsorted(changed)).tolist()
    return places


def _with(
    old: Iterable[pa.Table], changed: UlidArray, put: Rows, part: _Part[BlockSums]
) -> Iterator[pa.Table]:
    """The rows of a part as they are now."""
    mine = ulids.to_texts(changed[part.holds(changed)])
    if not mine:
        yield from old
        return
    rows = pa.concat_tables([COLUMNS.empty_table(), *old]).combine_chunks()
    held = Rows(rows.select(FRAME.names), MemoryBulk(rows.select(BULK.names)))
    gone = [place for ulid in mine if (place := held.position(ulid)) is not None]
    yield held.merged(gone, put.only(np.flatnonzero(part.holds(put.ulids)).tolist())).stored()


def cut_blocks(
    tables: Iterable[pa.Table], known: dict[str, Leaf[BlockSums]], version: int
) -> Iterator[Grown[BlockSums]]:
    """The leaves of rows in order, which begin with a stretch and end with one; those whose content
    is ``known`` are not made again."""
    held = COLUMNS.empty_table()
    for table in tables:
        held = pa.concat_tables([held, table.select(COLUMNS.names)]).combine_chunks()
        names = held["ulid"].to_pylist()
        whole = next((at for at in range(len(names), 0, -1) if BLOCKS.is_end(names[at - 1])), 0)
        yield from _cut(held.slice(0, whole), known, version)
        held = held.slice(whole)
    yield from _cut(held, known, version)


def _cut(
    rows: pa.Table, known: dict[str, Leaf[BlockSums]], version: int
) -> Iterator[Grown[BlockSums]]:
    sizes = [len(data) for data in rows["meta"].to_pylist()]
    start = 0
    for end in ends(ulids.from_arrow(rows["ulid"]), sizes, BLOCKS):
        mine = rows.slice(start, end - start).combine_chunks()
        canonical = encode_blocks(mine)
        sha256, start = sha256_of(canonical), end
        if sha256 in known:
            yield Grown(leaf=known[sha256], canonical=None)
        else:
            leaf = Leaf(sha256=sha256, generation=version, sums=sums_of_blocks(mine))
            yield Grown(leaf=leaf, canonical=canonical)


def cut_sources(
    sources: UlidArray, known: dict[str, Leaf[SourceSums]], version: int
) -> Iterator[Grown[SourceSums]]:
    """The same of sources, in order."""
    start = 0
    for end in ends(sources, nothing(len(sources)), SOURCES):
        mine = sources[start:end]
        canonical = encode_sources(mine)
        sha256, start = sha256_of(canonical), end
        if sha256 in known:
            yield Grown(leaf=known[sha256], canonical=None)
        else:
            leaf = Leaf(sha256=sha256, generation=version, sums=sums_of_sources(mine))
            yield Grown(leaf=leaf, canonical=canonical)

"""The live blocks of a version: a large sorted base of rows under a small persistent overlay.

Invariants:
- A value never changes; ``changed`` returns a new one in O(log n) and shares everything else, so
  every version that is in use stays complete.
- The overlay is folded into the base when it outgrows an eighth of it: amortized, a fold costs the
  same at ten blocks and at a million.
- A block's object is made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TYPE_CHECKING

import immutables
import numpy as np
import pyarrow as pa

from blockstore.format.block import StreamKey
from blockstore.index.derived import Arrays, Make, Mask, Places
from blockstore.index.overlay import Gone, Made, Overlay, View
from blockstore.index.rows import KEPT, LiveBlock, Rows, stream_named
from blockstore.index.ulids import UlidArray, from_texts, holds, to_texts, unique

if TYPE_CHECKING:
    from blockstore.index.tree.sums import BlockSums

_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all blocks of a set."""

    rows: int
    bytes: int
    min_max_time: int
    """The least ``max_time``; 0 of no block."""


class Blocks:
    """An immutable set of live blocks, keyed by ULID."""

    def __init__(
        self,
        base: Rows,
        overlay: Overlay | None = None,
        size: int | None = None,
        before: Made | None = None,
        places: Gone | None = None,
    ) -> None:
        # The same set may be held in another way later; each method looks at one view.
        self._view = View(
            base,
            immutables.Map() if overlay is None else overlay,
            immutables.Map() if places is None else places,
            before,
        )
        self._size = len(base) if size is None else size
        self._parts: dict[tuple[int, ...], Blocks] = {}
        """The set without some leaves of its base, by the leaves that are left; replaced, never
        changed."""

    @classmethod
    def of(cls, blocks: Iterable[LiveBlock] = ()) -> Blocks:
        """The set of these blocks."""
        return cls(Rows.of(blocks))

    def __len__(self) -> int:
        return self._size

    def __contains__(self, ulid: object) -> bool:
        view = self._view
        if not isinstance(ulid, str):
            return False
        if ulid in view.overlay:
            return view.overlay[ulid] is not None
        return view.base.position(ulid) is not None

    def __iter__(self) -> Iterator[LiveBlock]:
        """All blocks, in the order of their ULIDs."""
        return self.each(np.arange(self._size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blocks):
            return NotImplemented
        if self._size != other._size:
            return False
        same = self.base.is_same(other.base) and self.overlay == other.overlay
        return same or all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Blocks({self._size})"

    def get(self, ulid: str) -> LiveBlock | None:
        """The live block of this ULID, or None."""
        view = self._view
        if ulid in view.overlay:
            return view.overlay[ulid]
        place = view.base.position(ulid)
        return None if place is None else view.base.take([place])[0]

    def get_all(self, ulids: Iterable[str]) -> dict[str, LiveBlock]:
        """Those of these ULIDs that are live, read together: a tenth of the cost of one after the
        other."""
        view = self._view
        found, places = view.find(ulids)
        found.update({block.ulid: block for block in view.base.take(places)})
        return found

    def only(self, ulids: Iterable[str]) -> Blocks:
        """The set of those of these ULIDs that are live; their metas are not read."""
        view = self._view
        found, places = view.find(ulids)
        base = view.base.only(places)
        return Blocks(base, immutables.Map(found), len(base) + len(found))

    def changed(self, remove: Iterable[str], put: Iterable[LiveBlock]) -> Blocks:
        """The set without ``remove``, all of which are in it, then with ``put`` (the same ULID is
        replaced)."""
        view, size = self._view, self._size
        overlay, places = view.overlay.mutate(), view.places.mutate()
        for ulid in remove:
            size -= 1
            place = view.place(ulid)
            if place is None:
                del overlay[ulid]
            else:
                overlay[ulid], places[ulid] = None, place
        for block in put:
            if block.ulid in overlay:
                held = overlay[block.ulid] is not None
            else:
                place = view.base.position(block.ulid)
                held = place is not None
                if place is not None:
                    places[block.ulid] = place
            size += not held
            overlay[block.ulid] = block
        changed = Blocks(view.base, overlay.finish(), size, view.made, places.finish())
        if changed._view.is_heavy:
            changed.rows()
        return changed

    def table(self) -> pa.Table:
        """The columns of ``rows.FRAME``, one row a block, sorted by ULID: what plans and pruning
        scan."""
        return self._view.table

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some of these and the ULIDs, as ``rows.CODED``: of leaves nothing else is read."""
        return self._view.columns(names)

    def derived(self, name: str, of: object, make: Make[LiveBlock], rows: Mask) -> Arrays:
        """What ``make`` returns, in the order of ``table()``; meaningful for ``rows``. Kept under
        ``name`` with all blocks that stay, as long as ``of`` is the same object."""
        view = self._view
        if not view.overlay:
            return view.base.derived.arrays(name, of, make, rows)
        complete = view.complete.get(name)
        if complete is not None and complete[0] is of:
            return complete[1]
        slots = view.slots
        stored, added = np.zeros(len(view.base), dtype=bool), np.zeros(len(view.new), dtype=bool)
        stored[slots[rows & (slots >= 0)]] = True
        added[-1 - slots[rows & (slots < 0)]] = True
        old = view.base.derived.arrays(name, of, make, stored)
        new = view.derived.arrays(name, of, make, added)
        kept = view.joined.get(name)
        if kept is not None and kept[0] is old and kept[1] is new:
            return kept[2]
        places = np.where(slots >= 0, slots, len(view.base) - 1 - slots)
        joined = tuple(np.concatenate(both)[places] for both in zip(old, new, strict=True))
        if self._size <= KEPT:
            view.joined[name] = old, new, joined
            if rows.all():
                view.complete[name] = of, joined
        return joined

    def take(self, indices: Iterable[int]) -> list[LiveBlock]:
        """The blocks at these rows of ``table()``, in this order."""
        view, places = self._view, list(indices)
        if not view.overlay:
            return view.base.take(places)
        slots = view.slots[places].tolist() if places else []
        stored = iter(view.base.take([slot for slot in slots if slot >= 0]))
        return [next(stored) if slot >= 0 else view.new[-slot - 1] for slot in slots]

    def each(self, indices: Places) -> Iterator[LiveBlock]:
        """The blocks at these rows of ``table()``, which are sorted. Where there are many, few of
        them are in memory at once, and none is kept."""
        view = self._view
        if len(indices) <= KEPT:
            yield from self.take(indices.tolist())
        elif not view.overlay:
            yield from view.base.each(indices)
        else:
            slots = view.slots[indices]
            stored = view.base.each(slots[slots >= 0])
            for slot in slots.tolist():
                yield next(stored) if slot >= 0 else view.new[-slot - 1]

    def ulids(self) -> list[str]:
        """All ULIDs, sorted."""
        view = self._view
        if view.base.is_whole:
            found: list[str] = view.table["ulid"].to_pylist()
            return found
        stored, new = view.base.ulids, [block.ulid for block in view.new]
        kept = np.ones(len(stored), dtype=bool)
        kept[view.gone] = False
        return to_texts(unique(stored[kept], from_texts(new)))

    def holding(self, sources: Iterable[str]) -> list[LiveBlock]:
        """The blocks that account for any of these sources, in the order of their ULIDs."""
        wanted, view = frozenset(sources), self._view
        if view.base.is_whole:
            rows = self.rows()
            return rows.take(rows.holding(wanted))
        stored = view.base.take(view.base.holding(wanted))
        new = [block for block in view.new if not wanted.isdisjoint(block.meta.sources)]
        kept = [block for block in stored if block.ulid not in view.overlay]
        return sorted([*kept, *new], key=lambda block: block.ulid)

    def sources(self, floor: str | None = None) -> UlidArray:
        """The sources of all blocks, sorted; live blocks never share one. With a ``floor`` at least
        those at or below it."""
        view = self._view
        if view.base.is_whole:
            return unique(self.rows().sources)
        stored = view.base.sources if floor is None else view.base.sources_to(floor)
        gone = from_texts(
            source for block in view.base.take(view.gone) for source in block.meta.sources
        )
        added = from_texts(source for block in view.new for source in block.meta.sources)
        return unique(stored[~holds(unique(gone), stored)], added)

    def streams(self) -> list[StreamKey]:
        """The streams of all blocks, each once."""
        rest, sums = self.summed(lambda leaf: leaf.streams is not None)
        stored = dict.fromkeys(text for leaf in sums for text in leaf.streams or ())
        return [*dict.fromkeys((*map(stream_named, stored), *rest._view.streams))]

    def summed(self, known: Callable[[BlockSums], bool]) -> tuple[Blocks, Sequence[BlockSums]]:
        """The set without the leaves for which ``known`` is true and in which nothing has changed,
        and the sums over these; where blocks are not in leaves, the set and nothing."""
        view = self._view
        if view.base.is_whole:
            return self, ()
        places, sums = view.base.sift(known, view.gone)
        if not sums:
            return self, ()
        part = self._parts.get(places)
        if part is None:
            base = view.base.part(places)
            within = view.base.within(places, view.gone)
            part = Blocks(
                base,
                view.overlay,
                len(base) - len(view.gone) + len(view.new),
                places=immutables.Map(zip(view.places, within, strict=True)),
            )
            self._parts = dict([*list(self._parts.items())[1 - _PARTS :], (places, part)])
        return part, sums

    def totals(self) -> Totals:
        """Sums over all blocks."""
        import pyarrow.compute as pc

        rest, sums = self.summed(lambda leaf: True)
        frame = rest.table()
        oldest = [pc.min(frame["max_time"]).as_py(), *(leaf.min_max_time for leaf in sums)]
        return Totals(
            rows=(pc.sum(frame["rows"]).as_py() or 0) + sum(leaf.rows for leaf in sums),
            bytes=(pc.sum(frame["bytes"]).as_py() or 0) + sum(leaf.bytes for leaf in sums),
            min_max_time=min((one for one in oldest if one is not None), default=0),
        )

    def on(self, base: Rows, at: Blocks) -> Blocks:
        """The same set on the rows of a later root, which hold what ``at`` was: an earlier one on
        the rows of this."""
        mine, before = self._view.overlay, at._view.overlay
        overlay = immutables.Map(
            {ulid: block for ulid, block in mine.items() if before.get(ulid, mine) is not block}
        ).mutate()
        for ulid, block in before.items():
            if ulid not in mine and block is not None:
                overlay[ulid] = None
        kept = overlay.finish()
        places = ((ulid, base.position(ulid)) for ulid in kept)
        gone = immutables.Map({ulid: place for ulid, place in places if place is not None})
        return Blocks(base, kept, self._size, places=gone)

    @property
    def base(self) -> Rows:
        """What is stored of the set."""
        return self._view.base

    @property
    def overlay(self) -> Overlay:
        """What has changed since."""
        return self._view.overlay

    def rows(self) -> Rows:
        """The set as rows alone, without an overlay; held so from now on."""
        view = self._view
        if view.overlay:
            rows = view.base.merged(view.gone, Rows.of(view.new))
            view = View(rows, immutables.Map(), immutables.Map())
            self._view = view
        return view.base

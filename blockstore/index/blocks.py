"""The live blocks of a version: a large sorted base of rows under a small persistent overlay.

Invariants:
- A value never changes; ``changed`` returns a new one in O(log n) and shares everything else, so
  every version that is in use stays complete.
- The overlay is folded into the base when it outgrows an eighth of it: amortized, a fold costs the
  same at ten blocks and at a million.
- A block's object is made on first use.
- What was made of the blocks of an overlay is taken over by the overlays that follow it, for the
  blocks that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TYPE_CHECKING

import immutables
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import StreamKey
from blockstore.index.arrow import numbers
from blockstore.index.derived import Arrays, Derived, Make, Mask, Places
from blockstore.index.rows import KEPT, LiveBlock, Rows, coded, stream_named
from blockstore.index.totals import Totals
from blockstore.index.ulids import UlidArray, from_texts, holds, to_texts, unique
from blockstore.lazy import once

if TYPE_CHECKING:
    from blockstore.index.tree.sums import BlockSums

_OVERLAY = 1_024
_SHARE = 8
_PARTS = 4
_FEW = 64

Overlay = immutables.Map[str, LiveBlock | None]
"""What is new or changed since the base; None where a block of the base is gone."""

Gone = immutables.Map[str, int]
"""Where in the base those of the overlay's ULIDs are that it has: these rows no longer count."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The blocks of an overlay, sorted, and what was made of them."""

    blocks: Sequence[LiveBlock]
    frame: pa.Table
    derived: Derived[LiveBlock]


class _View:
    """One way to hold a set: a base and an overlay, and what was derived from them.

    ``before`` is what was made of an overlay before this one.
    """

    def __init__(
        self, base: Rows, overlay: Overlay, places: Gone, before: _Made | None = None
    ) -> None:
        self.base = base
        self.overlay = overlay
        self.places = places
        self.joined: dict[str, tuple[Arrays, Arrays, Arrays]] = {}
        """By name: the arrays of the base, those of the overlay, and what both are together. Of
        few blocks: each version that is in use has its own."""
        self.complete: dict[str, tuple[object, Arrays]] = {}
        """By name: those that are meaningful for every block, and what they follow from."""
        self.parts: dict[tuple[int, ...], Blocks] = {}
        """The set without some leaves of its base, by the leaves that are left; replaced, never
        changed."""
        self._some: pa.Table | None = None  # what ``columns`` returned last
        self._before = before

    @property
    def is_heavy(self) -> bool:
        return self.base.is_whole and len(self.overlay) > max(_OVERLAY, len(self.base) // _SHARE)

    @once
    def gone(self) -> list[int]:
        """Rows of the base that no longer count."""
        return list(self.places.values())

    def place(self, ulid: str) -> int | None:
        """The row of the base that has a ULID, whether it counts or not."""
        known = self.places.get(ulid)
        return self.base.position(ulid) if known is None else known

    @once
    def new(self) -> list[LiveBlock]:
        """The blocks of the overlay, sorted."""
        held = [block for block in self.overlay.values() if block is not None]
        return sorted(held, key=lambda block: block.ulid)

    @property
    def made(self) -> _Made | None:
        """What an overlay that follows may take over."""
        if self.__dict__.keys().isdisjoint(("frame", "derived")):
            return self._before
        return _Made(self.new, self.frame, self.derived)

    @once
    def derived(self) -> Derived[LiveBlock]:
        """What others made of ``new``."""
        blocks = self.new
        made = Derived(len(blocks), lambda places: [blocks[place] for place in places])
        if self._before is not None:
            made.take_over(self._before.derived, self._places)
        return made

    @once
    def frame(self) -> pa.Table:
        """The frame of ``new``."""
        if self._before is None:
            return Rows.of(self.new).frame
        places = self._places.copy()
        other = np.flatnonzero(places < 0)
        places[other] = len(self._before.blocks) + np.arange(len(other))
        added = Rows.of([self.new[place] for place in other]).frame
        return pa.concat_tables([self._before.frame, added]).take(numbers(places)).combine_chunks()

    @once
    def _places(self) -> npt.NDArray[np.int64]:
        """Where each block of ``new`` is among those of ``before``; -1 where it is none of them."""
        assert self._before is not None, "there was an overlay before"
        known = {id(block): place for place, block in enumerate(self._before.blocks)}
        places = (known.get(id(block), -1) for block in self.new)
        return np.fromiter(places, np.int64, len(self.new))

    def find(self, ulids: Iterable[str]) -> tuple[dict[str, LiveBlock], list[int]]:
        """Those of these ULIDs that are live: blocks of the overlay, and rows of the base."""
        found, places = {}, []
        for ulid in dict.fromkeys(ulids):
            held = self.overlay.get(ulid)
            if held is not None:
                found[ulid] = held
            elif ulid not in self.overlay and (place := self.base.position(ulid)) is not None:
                places.append(place)
        return found, places

    @once
    def slots(self) -> npt.NDArray[np.int64]:
        """Where each row of ``table`` is: the base's row, or below zero the overlay's."""
        gone = np.sort(np.array(self.gone, dtype=np.int64))
        kept = np.delete(np.arange(len(self.base)), gone)
        at = self.base.ulids.searchsorted(from_texts(block.ulid for block in self.new))
        return np.insert(kept, at - gone.searchsorted(at), -1 - np.arange(len(self.new)))

    @once
    def table(self) -> pa.Table:
        """The frame of all, sorted."""
        return self._joined(self.base.frame, self.frame) if self.overlay else self.base.frame

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of the same, as ``rows.CODED`` has them."""
        if "table" in self.__dict__:
            return coded(self.table, names)
        if not self.overlay:
            return self.base.columns(names)
        some = self._some
        if some is None or not set(names) <= set(some.column_names):
            self._some = some = self._joined(self.base.columns(names), coded(self.frame, names))
        return some.select(names)

    def _joined(self, base: pa.Table, new: pa.Table) -> pa.Table:
        """The rows that count of both, sorted."""
        both = pa.concat_tables([base, new]).unify_dictionaries()
        slots = self.slots
        if len(slots) == len(both) and (slots[len(base) :] < 0).all():
            return both
        return both.take(numbers(np.where(slots >= 0, slots, len(base) - 1 - slots)))


class Blocks:
    """An immutable set of live blocks, keyed by ULID."""

    def __init__(
        self,
        base: Rows,
        overlay: Overlay | None = None,
        size: int | None = None,
        before: _Made | None = None,
        places: Gone | None = None,
    ) -> None:
        # The same set may be held in another way later; each method looks at one view.
        self._view = _View(
            base,
            immutables.Map() if overlay is None else overlay,
            immutables.Map() if places is None else places,
            before,
        )
        self._size = len(base) if size is None else size

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
        texts = dict.fromkeys(text for leaf in sums for text in leaf.streams or ())
        column = rest.table()["stream"]
        few = column if len(column) <= _FEW else column.unique()  # which loads Arrow's functions
        texts |= dict.fromkeys(few.to_pylist())
        return [stream_named(text) for text in texts]

    def summed(self, known: Callable[[BlockSums], bool]) -> tuple[Blocks, Sequence[BlockSums]]:
        """The set without the leaves for which ``known`` is true and in which nothing has changed,
        and the sums over these; where blocks are not in leaves, the set and nothing."""
        view = self._view
        if view.base.is_whole:
            return self, ()
        places, sums = view.base.sift(known, view.gone)
        if not sums:
            return self, ()
        if places not in view.parts:
            base = view.base.part(places)
            within = view.base.within(places, view.gone)
            part = Blocks(
                base,
                view.overlay,
                len(base) - len(view.gone) + len(view.new),
                places=immutables.Map(zip(view.places, within, strict=True)),
            )
            view.parts = dict([*list(view.parts.items())[1 - _PARTS :], (places, part)])
        return view.parts[places], sums

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
            view = _View(rows, immutables.Map(), immutables.Map())
            self._view = view
        return view.base

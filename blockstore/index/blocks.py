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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import immutables
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import StreamKey
from blockstore.index.derived import Arrays, Derived, Make, Mask, Places
from blockstore.index.rows import KEPT, LiveBlock, Rows, numbers, stream_named
from blockstore.index.ulids import UlidArray, unique

_OVERLAY = 1_024
_SHARE = 8
_SLOT = "slot"
"""A hidden column of ``table()``: the base's row, or below zero the overlay's."""

Overlay = immutables.Map[str, LiveBlock | None]
"""What is new or changed since the base; None where a block of the base is gone."""


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

    def __init__(self, base: Rows, overlay: Overlay, before: _Made | None = None) -> None:
        self.base = base
        self.overlay = overlay
        self.joined: dict[str, tuple[Arrays, Arrays, Arrays]] = {}
        """By name: the arrays of the base, those of the overlay, and what both are together. Of
        few blocks: each version that is in use has its own."""
        self.complete: dict[str, tuple[object, Arrays]] = {}
        """By name: those that are meaningful for every block, and what they follow from."""
        self._before = before

    @property
    def is_heavy(self) -> bool:
        return len(self.overlay) > max(_OVERLAY, len(self.base) // _SHARE)

    @cached_property
    def gone(self) -> list[int]:
        """Rows of the base that no longer count."""
        return [place for ulid in self.overlay if (place := self.base.position(ulid)) is not None]

    @cached_property
    def new(self) -> list[LiveBlock]:
        """The blocks of the overlay, sorted."""
        held = [block for block in self.overlay.values() if block is not None]
        return sorted(held, key=lambda block: block.ulid)

    @property
    def made(self) -> _Made | None:
        """What an overlay that follows may take over."""
        if "frame" not in self.__dict__:
            return self._before
        return _Made(self.new, self.frame, self.derived)

    @cached_property
    def derived(self) -> Derived[LiveBlock]:
        """What others made of ``new``."""
        blocks = self.new
        made = Derived(len(blocks), lambda places: [blocks[place] for place in places])
        if self._before is not None:
            made.take_over(self._before.derived, self._places)
        return made

    @cached_property
    def frame(self) -> pa.Table:
        """The frame of ``new``."""
        if self._before is None:
            return Rows.of(self.new).frame
        places = self._places.copy()
        other = np.flatnonzero(places < 0)
        places[other] = len(self._before.blocks) + np.arange(len(other))
        added = Rows.of([self.new[place] for place in other]).frame
        return pa.concat_tables([self._before.frame, added]).take(numbers(places)).combine_chunks()

    @cached_property
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

    @cached_property
    def slots(self) -> npt.NDArray[np.int64]:
        """Where each row of ``table`` is."""
        return np.asarray(self.table[_SLOT].to_numpy())

    @cached_property
    def frame_of_all(self) -> pa.Table:
        """The frame of all, sorted."""
        return self.table.drop_columns([_SLOT])

    @cached_property
    def table(self) -> pa.Table:
        """The same with ``slot``."""
        frame = self.base.frame.append_column(_SLOT, numbers(np.arange(len(self.base))))
        if not self.overlay:
            return frame
        if self.gone:
            kept = np.ones(len(self.base), dtype=bool)
            kept[self.gone] = False
            frame = frame.filter(pa.array(kept))
        added = self.frame.append_column(_SLOT, numbers(-1 - np.arange(len(self.new))))
        in_order = (
            not frame.num_rows or not self.new or frame["ulid"][-1].as_py() < self.new[0].ulid
        )
        both = pa.concat_tables([frame, added])
        return both if in_order else both.sort_by("ulid")


class Blocks:
    """An immutable set of live blocks, keyed by ULID."""

    def __init__(
        self,
        base: Rows,
        overlay: Overlay | None = None,
        size: int | None = None,
        before: _Made | None = None,
    ) -> None:
        # The same set may be held in another way once it was consolidated; each method looks at one
        # view.
        self._view = _View(base, immutables.Map() if overlay is None else overlay, before)
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
        return self._size == other._size and list(self) == list(other)

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
        overlay = view.overlay.mutate()
        for ulid in remove:
            size -= 1
            if view.base.position(ulid) is None:
                del overlay[ulid]
            else:
                overlay[ulid] = None
        for block in put:
            if block.ulid in overlay:
                held = overlay[block.ulid] is not None
            else:
                held = view.base.position(block.ulid) is not None
            size += not held
            overlay[block.ulid] = block
        changed = Blocks(view.base, overlay.finish(), size, view.made)
        if changed._view.is_heavy:
            changed.rows()
        return changed

    def table(self) -> pa.Table:
        """The columns of ``rows.FRAME``, one row a block, sorted by ULID: what plans and pruning
        scan."""
        return self._view.frame_of_all

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
        found: list[str] = self._view.table["ulid"].to_pylist()
        return found

    def holding(self, sources: Iterable[str]) -> list[LiveBlock]:
        """The blocks that account for any of these sources, in the order of their ULIDs."""
        rows = self.rows()
        return rows.take(rows.holding(sources))

    def sources(self) -> UlidArray:
        """The sources of all blocks, sorted; live blocks never share one."""
        return unique(self.rows().sources)

    def streams(self) -> list[StreamKey]:
        """The streams of all blocks, each once."""
        return [stream_named(text) for text in self.table()["stream"].unique().to_pylist()]

    def rows(self) -> Rows:
        """The set as rows alone, without an overlay; held so from now on."""
        view = self._view
        if view.overlay:
            view = _View(view.base.merged(view.gone, Rows.of(view.new)), immutables.Map())
            self._view = view
        return view.base

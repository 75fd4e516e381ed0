"""One way to hold a set of live blocks: a base of rows, an overlay of what has changed since, and
what was made of both.

Rules:
- A value never changes. What is made of it is made on first use.
- What was made of the blocks of an overlay is taken over by the overlays that follow it, for the
  blocks that stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import is_

import immutables
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import StreamKey
from blockstore.index.arrow import numbers
from blockstore.index.derived import Arrays, Derived
from blockstore.index.rows import LiveBlock, Rows, coded, counted
from blockstore.index.ulids import from_texts
from blockstore.lazy import once

_OVERLAY = 1_024
_SHARE = 8

Overlay = immutables.Map[str, LiveBlock | None]
"""What is new or changed since the base; None where a block of the base is gone."""

Gone = immutables.Map[str, int]
"""Where in the base those of the overlay's ULIDs are that it has: these rows no longer count."""


@dataclass(frozen=True, slots=True)
class Made:
    """The blocks of an overlay, sorted, and what was made of them."""

    blocks: Sequence[LiveBlock]
    frame: pa.Table
    derived: Derived[LiveBlock]


class View:
    """One way to hold a set: a base and an overlay, and what was derived from them.

    ``before`` is what was made of an overlay before this one.
    """

    def __init__(
        self, base: Rows, overlay: Overlay, places: Gone, before: Made | None = None
    ) -> None:
        self.base = base
        self.overlay = overlay
        self.places = places
        self.joined: dict[str, tuple[Arrays, Arrays, Arrays]] = {}
        """By name: the arrays of the base, those of the overlay, and what both are together. Of
        few blocks: each version that is in use has its own."""
        self.complete: dict[str, tuple[object, Arrays]] = {}
        """By name: those that are meaningful for every block, and what they follow from."""
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
    def made(self) -> Made | None:
        """What an overlay that follows may take over."""
        if self.__dict__.keys().isdisjoint(("frame", "derived")):
            return self._before
        return Made(self.new, self.frame, self.derived)

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
        before = self._before.blocks
        # Most overlays are the one before with a few blocks at the end.
        same = _same(before, self.new)
        known = {id(block): place for place, block in enumerate(before[same:], same)}
        places = [known.get(id(block), -1) for block in self.new[same:]]
        return np.concatenate([np.arange(same), np.array(places, dtype=np.int64)])

    @once
    def streams(self) -> list[StreamKey]:
        """The streams of all, each once."""
        counts = dict(self.base.streams)
        if self.gone:
            lost = self.base.stream_of_each.take(numbers(sorted(self.gone)))
            for stream, rows in counted(lost).items():
                counts[stream] -= rows
        metas = (block.meta for block in self.overlay.values() if block is not None)
        alike = {(meta.resolution, *meta.labels.items()): meta for meta in metas}
        new = {meta.stream for meta in alike.values()}
        kept = [stream for stream, rows in counts.items() if rows]
        return [*kept, *sorted(new.difference(kept))]

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


def _same(one: Sequence[LiveBlock], other: Sequence[LiveBlock]) -> int:
    """How many blocks both begin with, which are the same objects in both."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if all(map(is_, one[low:middle], other[low:middle])):
            low = middle
        else:
            high = middle - 1
    return low

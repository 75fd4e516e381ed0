"""The order between blocks in which they are removed (R7). Pure.

Rules:
- A block goes only after all listed blocks whose sources are among its own: what held its rows
  before it must not be what is left. Of two blocks with equal sources the one that the cover
  prefers goes last.
- A block hidden by its mark (chosen by the cover, and marked retention, revert or manual) goes only
  after every listed block that shares a source with it is gone or hidden likewise, and only if its
  going shows no row and hides none: what the others would then be chosen for is computed, not
  guessed.
- Where the two rules contradict each other the second wins: no block goes before one whose rows it
  keeps hidden.
- With an index, blocks that a version or a tag names are not waited for, nor are damaged ones: the
  index accounts for their sources whatever is listed, and a tag that keeps a block for years must
  not keep every later merge of its rows.
- What waits says for which block. No block waits in a circle: hidden blocks wait for others and
  never the other way round, and within each kind only those with more sources for those with fewer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from blockstore.format.block import BlockMeta
from blockstore.lifecycle.cover import cover, hide_marked, preference, restrict
from blockstore.lifecycle.list_path import Listed
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.standing import wanted_from_listing


@dataclass(slots=True)
class Arranged:
    """Which blocks go, in this order and after which others; which wait, and for what."""

    going: list[str] = field(default_factory=list)
    after: dict[str, frozenset[str]] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


class Order:
    """The order among the blocks of one sight."""

    def __init__(self, sight: Sight, listed: Listed) -> None:
        self._marks = {ulid: one.mark for ulid, one in sight.found.items() if one.mark is not None}
        self._wanted = wanted_from_listing(sight.state)
        self._hidden = {block.meta.ulid for block in listed.cover.hidden}
        self._misfits = listed.misfits.keys()
        indexed = sight.named is not None
        self._listed: dict[str, BlockMeta] = {
            ulid: one.meta
            for ulid, one in sight.found.items()
            if one.meta is not None
            and not (indexed and (one.damage is not None or sight.named_by(ulid) is not None))
        }
        self._ready = {ulid for ulid in self._listed if sight.is_ready(sight.found[ulid])}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        for ulid, meta in self._listed.items():
            for source in meta.sources:
                self._holders[source].add(ulid)

    def arrange(self, candidates: AbstractSet[str]) -> Arranged:
        """Order those that may go by themselves; one that must wait for a block that stays,
        waits."""
        arranged = Arranged()
        gone: set[str] = set()
        for ulid in self._in_turn(candidates):
            first = self._must_go_before(ulid)
            if not first <= gone:
                arranged.waiting[ulid] = f"block {min(first - gone)} must go before it (R7)"
            elif ulid in self._hidden and not self._shows_and_hides_nothing(ulid, gone):
                arranged.waiting[ulid] = (
                    "removing it would change which rows of others are read (R7)"
                )
            else:
                gone.add(ulid)
                arranged.going.append(ulid)
                arranged.after[ulid] = frozenset(first)
        return arranged

    def _in_turn(self, candidates: AbstractSet[str]) -> list[str]:
        """Directories without a meta.json, then from few sources to many, of equals the cover's
        preferred last, and hidden blocks after all others: what must go before a block comes before
        it."""
        listed = [self._listed[ulid] for ulid in candidates if ulid in self._listed]
        listed.sort(key=preference, reverse=True)
        listed.sort(key=lambda meta: (meta.ulid in self._hidden, len(meta.sources)))
        return sorted(candidates - self._listed.keys()) + [meta.ulid for meta in listed]

    def _must_go_before(self, ulid: str) -> set[str]:
        meta = self._listed.get(ulid)
        if meta is None:
            return set()
        shared = Counter(
            other for source in meta.sources for other in self._holders[source] if other != ulid
        )
        first = {other for other, held in shared.items() if self._is_within(other, held, meta)}
        if ulid in self._hidden:
            return first | (shared.keys() - self._hidden)
        return first - self._hidden

    def _is_within(self, ulid: str, shared: int, meta: BlockMeta) -> bool:
        """Whether all sources of the block are ``meta``'s, and of equals whether the cover prefers
        ``meta``."""
        other = self._listed[ulid]
        if shared < len(other.sources):
            return False
        return len(other.sources) < len(meta.sources) or preference(other) > preference(meta)

    def _shows_and_hides_nothing(self, ulid: str, gone: set[str]) -> bool:
        """Whether the rows that are read stay the same without this hidden block."""
        near = self._neighborhood(ulid) - gone
        if near == {ulid}:
            return True
        if not near.isdisjoint(self._misfits):
            # what would be read of a block that contradicts the table's schema, no cover says
            return False
        return self._read(near) == self._read(near - {ulid})

    def _neighborhood(self, ulid: str) -> set[str]:
        """The ready blocks that the cover weighs against each other because of shared sources."""
        near, reached = {ulid}, [ulid]
        while reached:
            for source in self._listed[reached.pop()].sources:
                new = (self._holders[source] & self._ready) - near
                near |= new
                reached += new
        return near

    def _read(self, ulids: Iterable[str]) -> frozenset[str]:
        """The sources that are read from these blocks."""
        shown = hide_marked(cover(self._listed[ulid] for ulid in ulids), self._marks)
        return frozenset().union(*(block.sources for block in restrict(shown, self._wanted).chosen))

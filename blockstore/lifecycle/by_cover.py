"""Which directories of a table without an index may go (R4, R6, R8): the exact cover decides.

Rules:
- R6: a block is marked superseded when the cover leaves it out because chosen blocks account for
  all of its sources, none of them marked superseded, all of them ready for ``sync_delay``.
- R8: a superseded block is removed only if a fresh, complete listing shows ready blocks that
  account for every source of it and are not marked superseded themselves: two compactors with
  different listings can each mark what the other relies on. A block that counts for another block's
  removal is never itself removed by the same reasoning, so no source loses its last copy.
- These do not count, though ready: a block marked partial (an older decision may still be removing
  it) or malformed, and one that a person marked and that hides nothing, for its mark alone decides.
  A hidden one counts for what it hides.
- A block that the cover chooses is not superseded, whatever its mark says.
- A block that contradicts the table's schema is quarantined: it counts for no other block, and goes
  by a person's mark alone. What shares a source with it stays, superseded or not: it may be what
  says that the other one contradicts, and not the table.
- Retention, revert and manual: the mark itself decides. A malformed block goes by a person's mark
  alone.
- A directory without a meta.json goes by R4's age, whatever mark is on it: it is an aborted upload,
  or a removal that was cut short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from blockstore.format.block import BlockMeta, StreamKey
from blockstore.format.marks import MarkReason
from blockstore.lifecycle.cover import HIDING, ChosenBlock, Cover
from blockstore.lifecycle.fate import READABLE, Fate, goes, quarantined, stays
from blockstore.lifecycle.list_path import Listed, list_snapshot
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.sight import OWN_MARKS, Sight


def listed_of(sight: Sight) -> Listed:
    """What every reader of this listing computes."""
    return list_snapshot(sight.found, sight.state, sight.properties, sight.now_ms)


_CLAIMED = (
    "a block that contradicts the table's schema has sources of it: a person decides which is right"
)

Holders = Mapping[tuple[StreamKey, str], set[str]]
"""By stream and source: the blocks that may be relied on to hold it."""


class ByCover:
    """The fates in one sight."""

    def __init__(self, sight: Sight, listed: Listed) -> None:
        cover = listed.cover
        self._sight = sight
        self._misfits = listed.misfits
        self._claimed = {
            (meta.stream, source)
            for ulid in listed.misfits
            if (meta := sight.found[ulid].meta) is not None
            for source in meta.sources
        }
        self._superseded = {meta.ulid for meta in cover.superseded}
        self._settled = _holders(self._settled_blocks(cover))
        self._ready = _holders(self._ready_blocks(cover))

    def to_mark(self, one: Found) -> Fate:
        """What the compactor may mark by itself."""
        if one.damage is not None:
            return self._damaged(one)
        if one.meta is None:
            return self._without_meta(one)
        if one.meta.ulid in self._misfits:
            return quarantined(self._misfits[one.meta.ulid])
        if one.meta.ulid not in self._superseded:
            malformed = self._sight.quarantined(one)
            return (
                stays("the cover reads it, or will")
                if malformed is None
                else quarantined(malformed)
            )
        if self._is_claimed(one.meta):
            return stays(_CLAIMED)
        return _accounted_by(
            one.meta, self._settled, "chosen blocks that have been ready for sync_delay"
        )

    def to_remove(self, one: Found) -> Fate:
        """What a due mark allows, looked at afresh."""
        if one.damage is not None:
            return self._damaged(one)
        if one.meta is None:
            return self._without_meta(one)
        if one.mark in HIDING:
            return goes(f"marked {one.mark}")
        if one.mark is MarkReason.MALFORMED and one.meta.ulid in self._misfits:
            return goes("a person marked it malformed, and it contradicts the table's schema")
        if one.mark is MarkReason.SUPERSEDED:
            if one.meta.ulid not in self._superseded:
                return stays("the cover does not leave it out")
            if self._is_claimed(one.meta):
                return stays(_CLAIMED)
            return _accounted_by(
                one.meta, self._ready, "ready blocks that are not marked superseded"
            )
        if one.mark is MarkReason.PARTIAL:
            return stays("complete since it was marked partial")
        return stays(READABLE)

    def is_held_elsewhere(self, meta: BlockMeta, *, but: frozenset[str]) -> Fate:
        """Whether others account for each source of a block that is not ready, except those of
        ``but``."""
        wanted = tuple(source for source in meta.sources if source not in but)
        others = "ready blocks that are not marked superseded"
        if not wanted:
            return goes(f"{others} account for its sources")
        return _accounted_by(replace(meta, sources=wanted), self._ready, others)

    def _is_claimed(self, meta: BlockMeta) -> bool:
        return any((meta.stream, source) in self._claimed for source in meta.sources)

    def _without_meta(self, one: Found) -> Fate:
        if self._sight.is_old_upload(one):
            return goes("no meta.json for longer than partial_delay", MarkReason.PARTIAL)
        return stays("an upload may still be going on: it is younger than partial_delay")

    def _damaged(self, one: Found) -> Fate:
        if one.mark is not None and one.mark not in OWN_MARKS:
            return goes(f"a person marked it {one.mark}")
        malformed = self._sight.quarantined(one)
        return (
            stays(f"too young to judge: {one.damage}")
            if malformed is None
            else quarantined(malformed)
        )

    def _settled_blocks(self, cover: Cover) -> Iterator[ChosenBlock]:
        """Chosen blocks that may be relied on when others are marked."""
        wait_ms = self._sight.properties.sync_delay_s * 1000
        for block in (*cover.chosen, *cover.hidden):
            one = self._sight.found[block.meta.ulid]
            if (one.mark is None or one.mark in HIDING) and self._sight.ready_for_ms(
                one
            ) >= wait_ms:
                yield block

    def _ready_blocks(self, cover: Cover) -> Iterator[ChosenBlock]:
        """Ready blocks that may be relied on when others are removed."""
        yield from cover.hidden
        for one in self._sight.found.values():
            fits = one.directory.ulid not in self._misfits
            if fits and one.mark is None and one.meta is not None and self._sight.is_ready(one):
                yield ChosenBlock(meta=one.meta)


def _holders(blocks: Iterable[ChosenBlock]) -> Holders:
    holders: defaultdict[tuple[StreamKey, str], set[str]] = defaultdict(set)
    for block in blocks:
        stream = block.meta.stream
        for source in block.sources:
            holders[stream, source].add(block.meta.ulid)
    return holders


def _accounted_by(meta: BlockMeta, holders: Holders, whom: str) -> Fate:
    """Whether others than the block itself account for each of its sources."""
    stream = meta.stream
    others = [holders.get((stream, source), set()) - {meta.ulid} for source in meta.sources]
    missing = next(
        (source for source, held in zip(meta.sources, others, strict=True) if not held), None
    )
    if missing is not None:
        return stays(f"source {missing} is not accounted for by {whom}")
    alone = set.intersection(*others)
    return goes(f"{whom} account for its sources", superseded_by=min(alone) if alone else None)

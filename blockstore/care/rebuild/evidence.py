"""Gather what is known of each block: from the readable part of the index, from the block itself,
and from its mark. Pure.

A block is **named** if it is live in the last state that could be folded, or a readable entry after
that adds it, and no readable entry after that removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from blockstore.care.examine import Examined
from blockstore.care.survey import Survey
from blockstore.format.block import BlockMeta
from blockstore.format.marks import MarkReason
from blockstore.index.entry import Entry
from blockstore.index.fold import derived_sources
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.names import DELETION_MARK, META

NO_META = f"it has no {META}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that is known of one block."""

    ulid: str
    meta: BlockMeta | None
    """Its meta: the index's if it is named, else its own; None if neither can be read."""
    named: LiveBlock | None = None
    problem: str | None = None
    """Why it cannot be read completely; None if it can."""
    gone: bool = False
    """Whether its directory is empty."""
    mark: MarkReason | None = None
    complete_ms: int | None = None
    """When its meta.json was written, by the store's clock."""

    @property
    def is_complete(self) -> bool:
        """Whether all of its rows can be read."""
        return self.problem is None and self.meta is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of all blocks."""

    state: State | None
    later: tuple[Entry, ...]
    blocks: Mapping[str, Known]
    accounted: frozenset[str]
    """Sources that entries after the state account for; the state has its own."""
    hidden: frozenset[str]
    """Sources whose rows an entry hides."""
    removed: frozenset[str]
    """Blocks that readable entries after the state remove, and none adds again."""

    def accounts(self, source: str) -> bool:
        """Whether the index, as far as it can be read, accounts for a write."""
        return source in self.accounted or (
            self.state is not None and source in self.state.accounted
        )


def gather(index: Survey, found: Mapping[str, Examined]) -> Evidence:
    """Combine what the index and every directory show."""
    named = {} if index.state is None else {block.ulid: block for block in index.state.blocks}
    removed: set[str] = set()
    accounted: set[str] = set()
    hidden = {source for block in named.values() for source in block.excepted}
    for entry in index.later:
        taken = {ulid: named.pop(ulid) for ulid in entry.remove if ulid in named}
        removed.update(entry.remove)
        following = entry.first_row_id or 0
        for added in entry.add:
            first_row_id = added.first_row_id
            if first_row_id is None:
                first_row_id, following = following, following + added.meta.rows
            sources = _sources(added.meta, added.sources, taken, found.get(added.ulid))
            removed.discard(added.ulid)
            if sources is not None:
                meta = replace(added.meta, sources=sources)
                named[added.ulid] = LiveBlock(
                    meta=meta, version=added.version or entry.id, first_row_id=first_row_id
                )
                accounted.update(sources)
        accounted.update(entry.account)
        hidden.update(source for sources in entry.excepts.values() for source in sources)
    blocks = {
        ulid: _known(ulid, found.get(ulid), named.get(ulid), index.state)
        for ulid in sorted({*named, *found})
    }
    return Evidence(
        state=index.state,
        later=index.later,
        blocks=blocks,
        accounted=frozenset(accounted),
        hidden=frozenset(hidden),
        removed=frozenset(removed),
    )


def _sources(
    meta: BlockMeta, stated: object, removed: Mapping[str, LiveBlock], found: Examined | None
) -> tuple[str, ...] | None:
    """Return the sources of a block that an entry adds: from the entry, the block or its
    parents."""
    if isinstance(stated, tuple):
        return stated
    if found is not None and found.meta is not None:
        return found.meta.sources
    return derived_sources(meta, removed)


def _known(
    ulid: str, found: Examined | None, named: LiveBlock | None, state: State | None
) -> Known:
    if found is None or not found.directory.objects:
        return Known(
            ulid=ulid,
            meta=None if named is None else named.meta,
            named=named,
            problem="its directory is empty",
            gone=True,
        )
    meta = found.meta if named is None else named.meta
    problem = found.meta_problem if named is None else None
    if meta is not None:
        problem = found.directory.difference(meta)
    elif problem is None:
        problem = NO_META
    written = found.directory.objects.get(META)
    return Known(
        ulid=ulid,
        meta=meta,
        named=named,
        problem=problem,
        mark=_mark(found, named, state),
        complete_ms=None if written is None else written.modified_ms,
    )


def _mark(found: Examined, named: LiveBlock | None, state: State | None) -> MarkReason | None:
    """Return the reason of a mark that counts.

    A mark on a named block that is older than the state does not count: the state brought the block
    back after it.
    """
    if found.mark is None or found.mark.reason is MarkReason.PARTIAL:
        return None
    placed_ms = found.directory.objects[DELETION_MARK].modified_ms
    if named is not None and state is not None and placed_ms <= state.time_ms:
        return None
    return found.mark.reason

"""Replace a damaged block of a table without an index, in steps that may be hours apart and run in
different processes (protocol 3.2, point 1).

Rules:
- First a no-compact mark, then a wait (``lifecycle/second_look.py``) by the store's clock, and only
  then the rows are read: a merge that ran when the mark was placed is listed by then, and no later
  one takes the block.
- After the wait the rows are written. Then the table is listed again: the repair's revision is one
  above every known block that shares a source. Its meta.json is sent while that listing is fresh,
  or not at all: a process that slept in between could bring back rows that a person has hidden
  meanwhile. After meta.json the old block is listed again: if it was hidden while meta.json was
  sent, the repair is hidden too.
- Half a ``delete_delay`` later a repair that the cover does not choose, and that no chosen block
  was made of, is uploaded again with a higher revision.
- Every step first checks whether it is done: the mark and the repair itself record the progress.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.care.marks.hiding import keep_from_merges, mark_too
from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.replacement import PRODUCER, write_in_place_of
from blockstore.care.repair.target import Target
from blockstore.format.block import BlockMeta
from blockstore.freshness import Freshness
from blockstore.lifecycle import second_look
from blockstore.lifecycle.catalog import Synced
from blockstore.lifecycle.cover import HIDING, Cover
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.undo_merge import away
from blockstore.names import META


@dataclass(frozen=True, slots=True, kw_only=True)
class ByAgeResult:
    """The result of one step."""

    ulid: str | None = None
    """The block that now has the rows, if this step uploaded one."""
    ready_ms: int | None = None
    """When the next step can run, by the store's clock."""
    held: bool = False
    """Whether other blocks have all of the rows, so that nothing had to be done."""
    hidden: bool = False
    """Whether the block was hidden or removed meanwhile, so that nothing had to be done."""
    empty: bool = False
    """Whether none of its rows is left, so that nothing can replace it."""


def replace_damaged(target: Target, files: GoodFiles, *, wait: bool) -> ByAgeResult:
    """Run the next step of replacing a damaged block; with ``wait`` all of them."""
    ulid = files.meta.ulid
    ready_ms = keep_from_merges(
        target.bucket,
        target.world,
        ulid,
        target.definition.properties,
        "a repair is going to replace it",
        wait=wait,
    )
    if ready_ms is not None:
        return ByAgeResult(ready_ms=ready_ms)
    # Checked before the rows are read and written, and again after that.
    if _is_held(target, target.catalog.sync(), files.meta):
        return ByAgeResult(held=True)
    return _replaced(target, files, unless_held=True)


def raise_revision(target: Target, files: GoodFiles) -> ByAgeResult:
    """Upload a repair that the cover does not choose again, with the highest revision.

    It is above that of every known block that shares a source.
    """
    return _replaced(target, files, unless_held=False)


def _replaced(target: Target, files: GoodFiles, *, unless_held: bool) -> ByAgeResult:
    replacement = write_in_place_of(target, files)
    if replacement is None:
        return ByAgeResult(empty=True)
    fresh = Freshness(target.world.clock, second_look.LASTS_S)
    synced = target.catalog.sync()
    old = synced.found.get(files.meta.ulid)
    if old is None or old.mark in HIDING:
        return ByAgeResult(hidden=True)
    if unless_held and _is_held(target, synced, files.meta):
        return ByAgeResult(held=True)
    made = replacement.finish(revision=1 + _highest_revision(synced, files.meta), fresh=fresh)
    properties = target.definition.properties
    found = away(target.catalog, target.bucket, target.world, properties, made, [files.meta])
    if found.hidden.issuperset(made.sources):
        mark_too(target.bucket, target.world, made.ulid, files.meta.ulid)
        return ByAgeResult(hidden=True)
    again_ms = target.bucket.now_ms() + int(properties.delete_delay_s * 500)
    return ByAgeResult(ulid=made.ulid, ready_ms=again_ms)


def unchosen(target: Target, synced: Synced) -> list[BlockMeta]:
    """Return repairs, half a ``delete_delay`` old, that the cover does not choose.

    Those of which a chosen block was made are left out.
    """
    found = _cover(target, synced)
    chosen = {block.meta.ulid: block.meta for block in (*found.chosen, *found.hidden)}
    made_of = {parent.ulid for meta in chosen.values() for parent in meta.parents}
    old_ms = synced.listing.now_ms - int(target.definition.properties.delete_delay_s * 500)
    return [
        one.meta
        for ulid, one in sorted(synced.found.items())
        if one.meta is not None
        and one.damage is None
        and one.mark is None
        and one.meta.producer == PRODUCER
        and one.directory.objects[META].modified_ms <= old_ms
        and ulid not in chosen
        and ulid not in made_of
    ]


def _is_held(target: Target, synced: Synced, meta: BlockMeta) -> bool:
    found = _cover(target, synced)
    sources = (
        block.sources for block in (*found.chosen, *found.hidden) if block.meta.ulid != meta.ulid
    )
    return frozenset().union(*sources).issuperset(meta.sources)


def _highest_revision(synced: Synced, meta: BlockMeta) -> int:
    wanted = set(meta.sources)
    shared = (
        one.meta.revision
        for one in synced.found.values()
        if one.meta is not None and not wanted.isdisjoint(one.meta.sources)
    )
    return max(meta.revision, *shared)


def _cover(target: Target, synced: Synced) -> Cover:
    return list_snapshot(
        synced.found, None, target.definition.properties, synced.listing.now_ms
    ).cover

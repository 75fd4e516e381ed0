"""Hiding a block of a table without an index, so that no merge shows its rows again (protocol 3.2).

Rules:
- First a no-compact mark of one's own, which no repair takes away (``quarantine.py``), then a wait
  (``second_look.py``) by the store's clock: a merge that had begun with the block is listed by then
  or was dropped, and none begins any more. What is left is remembered by the mark alone, so whoever
  comes back, or died, goes on where it was.
- A mark hides what readers read out of the marked block. Where they read some of its rows out of
  another one that is not hidden, now or once what is fresh has aged, hiding this one would hide
  nothing of these.
- Only a block that readers can see is waited for; what is no whole block is in no merge.
- Once the deletion mark lies there the table is looked at again, at once and until the mark is
  ``sync_delay`` old, so often that a merge which had stood still is found before anybody counts it.
  It is taken away (``undo_merge.py``), or named. A block that holds nothing but hidden rows, as a
  repair's, is marked too. A mark that is not there any more is said: the withdrawal of an older one
  may have met it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.care.quarantine import take_over
from blockstore.errors import Conflict, ObjectMissing
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.cover import HIDING
from blockstore.lifecycle.listing import Directory, Found
from blockstore.lifecycle.mark import place_deletion
from blockstore.lifecycle.schemas import fitting_cover
from blockstore.lifecycle.second_look import merges_settle_s
from blockstore.lifecycle.undo_merge import take_away
from blockstore.names import NO_COMPACT_MARK, deletion_mark_key, no_compact_mark_key
from blockstore.world import World

__all__ = [
    "Waiting",
    "Waits",
    "can_be_merged",
    "keep_from_merges",
    "look_again",
    "mark_too",
    "merges_known_ms",
    "shown_by",
    "still_shown",
]

_LOOKS = 2
"""So many looks follow the first one, evenly: what one of them finds has come since the last, and
is not old enough to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """That somebody waits now, and why."""

    what: str
    """What will be known then, as a clause."""
    until_ms: int
    """By the store's clock."""
    seconds: float


Waits = Callable[[Waiting], None]
"""Hears of each wait before it begins."""


def keep_from_merges(
    bucket: Bucket,
    world: World,
    ulid: str,
    properties: Properties,
    why: str,
    *,
    wait: bool,
    waits: Waits = lambda _: None,
) -> int | None:
    """Keep a block from merges; None once every merge of it is listed, else from when on it is, by
    the store's clock.

    ``wait`` sleeps until then.
    """
    delay_ms = round(merges_settle_s(properties) * 1000)
    told_ms: int | None = None
    while True:
        # Every time: somebody may have withdrawn it meanwhile, and then all begins anew.
        take_over(bucket, world, ulid, why)
        known_ms = bucket.head(no_compact_mark_key(ulid)).modified_ms + delay_ms
        left_ms = known_ms - bucket.now_ms()
        if left_ms <= 0:
            return None
        if not wait:
            return known_ms
        if known_ms != told_ms:
            # The store's clock may go slower than ours: then some of the same wait is left.
            what = (
                "it is kept from merges now, and one that had begun is listed by then, or dropped"
            )
            waits(Waiting(what=what, until_ms=known_ms, seconds=left_ms / 1000))
            told_ms = known_ms
        world.clock.sleep(left_ms / 1000)


def look_again(
    catalog: Catalog,
    bucket: Bucket,
    world: World,
    meta: BlockMeta,
    properties: Properties,
    waits: Waits = lambda _: None,
) -> None:
    """Look after a block that was just hidden, until its mark is ``sync_delay`` old. Raises
    Conflict where its rows can be read all the same."""
    delay_ms = round(properties.sync_delay_s * 1000)
    told = False
    while True:
        until_ms = _marked_ms(bucket, meta.ulid) + delay_ms
        _take_away_merges(catalog, bucket, world, meta, properties)
        left_ms = until_ms - bucket.now_ms()
        if left_ms <= 0:
            return
        if not told:
            what = "it is hidden now, and a merge of it that comes late is looked for until then"
            waits(Waiting(what=what, until_ms=until_ms, seconds=left_ms / 1000))
            told = True
        world.clock.sleep(min(left_ms, delay_ms / _LOOKS) / 1000)


def merges_known_ms(directory: Directory, properties: Properties) -> int | None:
    """From when on every merge of a block is listed, by the store's clock;

    None if it is not kept from merges.
    """
    kept = directory.objects.get(NO_COMPACT_MARK)
    return None if kept is None else kept.modified_ms + round(merges_settle_s(properties) * 1000)


def can_be_merged(one: Found) -> bool:
    """Whether a merge may have taken the block: readers see it by its age, now or soon."""
    return one.damage is None and one.meta is not None and one.meta.visible_by is VisibleBy.AGE


def shown_by(found: Mapping[str, Found], meta: BlockMeta) -> str | None:
    """A block that is not hidden and out of which some of a block's rows are read, once what is
    fresh has aged; None if there is none. Pure."""
    metas = (one.meta for one in found.values() if one.meta is not None and can_be_merged(one))
    marks = {ulid: one.mark for ulid, one in found.items() if one.mark is not None}
    chosen = fitting_cover(metas, marks)[0].chosen
    own = next((block.sources for block in chosen if block.meta.ulid == meta.ulid), frozenset())
    elsewhere = frozenset(meta.sources) - own
    return next(
        (
            block.meta.ulid
            for block in chosen
            if found[block.meta.ulid].mark not in HIDING and not elsewhere.isdisjoint(block.sources)
        ),
        None,
    )


def still_shown(bucket: Bucket, ulid: str, other: str, why: str = "") -> Conflict:
    """That rows of a block are read out of another."""
    return Conflict(
        f"block {ulid} is not hidden: block {other} was merged with some of its rows, which would "
        f"be read all the same{why}; "
        f"hide that one, with all that it holds: 'blockstore mark {bucket.url} {other} --deletion'"
    )


def _marked_ms(bucket: Bucket, ulid: str) -> int:
    """When the deletion mark was placed. Raises Conflict where none lies there."""
    try:
        return bucket.head(deletion_mark_key(ulid)).modified_ms
    except ObjectMissing:
        raise Conflict(
            f"block {ulid} is not hidden: its mark is not there any more; somebody withdrew it, "
            "or the withdrawal of an older mark came "
            "late: mark it again"
        ) from None


def _take_away_merges(
    catalog: Catalog, bucket: Bucket, world: World, meta: BlockMeta, properties: Properties
) -> None:
    """Take away the merges out of which rows of the block would be read, and mark what holds no
    others. Raises Conflict where one stays."""
    taken: set[str] = set()
    while True:
        found = {ulid: one for ulid, one in catalog.sync().found.items() if ulid not in taken}
        other = shown_by(found, meta)
        if other is None:
            return
        merge = found[other].meta
        assert merge is not None, "the cover chooses what can be read"
        if set(merge.sources) <= set(meta.sources):
            why = (
                "another mark lies on it" if not mark_too(bucket, world, other, meta.ulid) else None
            )
        elif merge.level > 1:
            why = take_away(catalog, bucket, world, properties, merge, meta.sources)
        else:
            why = "it is no merge"
        if why is not None:
            raise still_shown(bucket, meta.ulid, other, f" ({why})")
        taken.add(other)


def mark_too(bucket: Bucket, world: World, other: str, ulid: str) -> bool:
    """Hide a block that holds no rows but those of a hidden one;

    False if a mark lies there already.
    """
    details = f"it holds rows of block {ulid}, which is hidden"
    return place_deletion(bucket, world, other, MarkReason.MANUAL, details)

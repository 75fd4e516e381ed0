"""Hiding a block of a table without an index, so that no merge shows its rows again (protocol 3.2).

Rules:
- First comes a no-compact mark that no repair removes (``quarantine.py``), then a wait
  (``second_look.py``) by the store's clock: a merge that had begun with the block is listed by then
  or was dropped, and no other begins. Only the mark records the progress, so a process that was
  interrupted, or another one, continues from there.
- A mark hides the rows that readers read from the marked block. If they read some of its rows from
  another block that is not hidden, now or after fresh blocks have aged, hiding this one would not
  hide those rows.
- Only a block that readers can see needs the wait; an incomplete block is in no merge.
- After the deletion mark is placed the table is listed again, at once and until the mark is
  ``sync_delay`` old, often enough to find a stalled merge before any reader counts it. The merge is
  removed (``undo_merge.py``), or reported. A block that holds nothing but hidden rows, such as a
  repair's, is marked too. If the mark has disappeared, that is reported: a late withdrawal of an
  older mark may have deleted it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.care.marks.quarantine import take_over
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

_LOOKS = 2
"""This many listings follow the first one, evenly spaced: what one of them finds is newer than the
last, and not old enough to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait that begins now, and its reason."""

    what: str
    """What is known after the wait, as a clause."""
    until_ms: int
    """By the store's clock."""
    seconds: float


OnWait = Callable[[Wait], None]
"""Called with each wait before it begins."""


def keep_from_merges(
    bucket: Bucket,
    world: World,
    ulid: str,
    properties: Properties,
    why: str,
    *,
    wait: bool,
    on_wait: OnWait = lambda _: None,
) -> int | None:
    """Keep a block out of merges, by a mark.

    Returns None when every merge of it is listed, else the time at which it will be, by the store's
    clock. With ``wait`` it sleeps until then.
    """
    delay_ms = round(merges_settle_s(properties) * 1000)
    reported_ms: int | None = None
    while True:
        # Each time: if the mark was withdrawn meanwhile, the wait starts again.
        take_over(bucket, world, ulid, why)
        known_ms = bucket.head(no_compact_mark_key(ulid)).modified_ms + delay_ms
        left_ms = known_ms - bucket.now_ms()
        if left_ms <= 0:
            return None
        if not wait:
            return known_ms
        if known_ms != reported_ms:
            # The store's clock may be slower than ours: then part of the same wait is left.
            what = "it is kept out of merges; a merge that had begun is listed or dropped by then"
            on_wait(Wait(what=what, until_ms=known_ms, seconds=left_ms / 1000))
            reported_ms = known_ms
        world.clock.sleep(left_ms / 1000)


def look_again(
    catalog: Catalog,
    bucket: Bucket,
    world: World,
    meta: BlockMeta,
    properties: Properties,
    on_wait: OnWait = lambda _: None,
) -> None:
    """Watch a block that was just hidden, until its mark is ``sync_delay`` old.

    Raises Conflict if its rows can still be read.
    """
    delay_ms = round(properties.sync_delay_s * 1000)
    reported = False
    while True:
        until_ms = _marked_ms(bucket, meta.ulid) + delay_ms
        _take_away_merges(catalog, bucket, world, meta, properties)
        left_ms = until_ms - bucket.now_ms()
        if left_ms <= 0:
            return
        if not reported:
            what = "it is hidden; until then the table is watched for a late merge of it"
            on_wait(Wait(what=what, until_ms=until_ms, seconds=left_ms / 1000))
            reported = True
        world.clock.sleep(min(left_ms, delay_ms / _LOOKS) / 1000)


def merges_known_ms(directory: Directory, properties: Properties) -> int | None:
    """Return when every merge of a block is listed, by the store's clock.

    None if the block is not kept out of merges.
    """
    kept = directory.objects.get(NO_COMPACT_MARK)
    return None if kept is None else kept.modified_ms + round(merges_settle_s(properties) * 1000)


def can_be_merged(one: Found) -> bool:
    """Return whether a merge may have taken the block: readers see it by its age, now or soon."""
    return one.damage is None and one.meta is not None and one.meta.visible_by is VisibleBy.AGE


def shown_by(found: Mapping[str, Found], meta: BlockMeta) -> str | None:
    """Return a visible block from which readers read some of a block's rows, or None. Pure.

    Fresh blocks count as if they had aged.
    """
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
    """Return the error that rows of a block are read from another one."""
    return Conflict(
        f"block {ulid} is not hidden: block {other} has some of its rows by a merge, and they "
        f"would still be read{why}; hide that block, with all of its rows: 'blockstore mark "
        f"{bucket.url} {other} --deletion'"
    )


def _marked_ms(bucket: Bucket, ulid: str) -> int:
    """Return when the deletion mark was placed. Raises Conflict if there is none."""
    try:
        return bucket.head(deletion_mark_key(ulid)).modified_ms
    except ObjectMissing:
        raise Conflict(
            f"block {ulid} is not hidden: its mark is gone; a person withdrew it, or the "
            "withdrawal of an older mark arrived late: mark it again"
        ) from None


def _take_away_merges(
    catalog: Catalog, bucket: Bucket, world: World, meta: BlockMeta, properties: Properties
) -> None:
    """Remove the merges from which rows of the block would be read.

    A block that holds no other rows is marked. Raises Conflict if one remains.
    """
    taken: set[str] = set()
    while True:
        found = {ulid: one for ulid, one in catalog.sync().found.items() if ulid not in taken}
        other = shown_by(found, meta)
        if other is None:
            return
        merge = found[other].meta
        assert merge is not None, "the cover chooses what can be read"
        if set(merge.sources) <= set(meta.sources):
            why = "it has another mark" if not mark_too(bucket, world, other, meta.ulid) else None
        elif merge.level > 1:
            why = take_away(catalog, bucket, world, properties, merge, meta.sources)
        else:
            why = "it is not a merge"
        if why is not None:
            raise still_shown(bucket, meta.ulid, other, f" ({why})")
        taken.add(other)


def mark_too(bucket: Bucket, world: World, other: str, ulid: str) -> bool:
    """Hide a block that only holds rows of a hidden one; False if it has a mark already."""
    details = f"it holds rows of block {ulid}, which is hidden"
    return place_deletion(bucket, world, other, MarkReason.MANUAL, details)

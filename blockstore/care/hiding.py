"""Hiding a block of a table without an index, so that no merge shows its rows again (protocol 3.2).

Rules:
- First a no-compact mark of one's own, which no repair takes away (``quarantine.py``), then a wait (``second_look.py``) by the store's clock: a merge that had begun with the block is
  listed by then or was dropped, and none begins any more. What is left is remembered by the mark alone, so whoever comes
  back, or died, goes on where it was.
- A mark hides what readers read out of the marked block. Where they read some of its rows out of another one that is not
  hidden, now or once what is fresh has aged, hiding this one would hide nothing of these.
- Only a block that readers can see is waited for; what is no whole block is in no merge.
"""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.bucket.api import Bucket
from blockstore.care.quarantine import take_over
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.properties import Properties
from blockstore.lifecycle.cover import HIDING
from blockstore.lifecycle.listing import Directory, Found
from blockstore.lifecycle.schemas import fitting_cover
from blockstore.lifecycle.second_look import merges_settle_s
from blockstore.names import NO_COMPACT_MARK, no_compact_mark_key
from blockstore.world import World

__all__ = ["can_be_merged", "keep_from_merges", "merges_known_ms", "shown_by"]


def keep_from_merges(
    bucket: Bucket, world: World, ulid: str, properties: Properties, why: str, *, wait: bool
) -> int | None:
    """Keep a block from merges; None once every merge of it is listed, else from when on it is, by the store's clock.

    ``wait`` sleeps until then.
    """
    delay_ms = round(merges_settle_s(properties) * 1000)
    while True:
        # Every time: somebody may have withdrawn it meanwhile, and then all begins anew.
        take_over(bucket, world, ulid, why)
        known_ms = bucket.head(no_compact_mark_key(ulid)).modified_ms + delay_ms
        left_ms = known_ms - bucket.now_ms()
        if left_ms <= 0:
            return None
        if not wait:
            return known_ms
        world.clock.sleep(left_ms / 1000)


def merges_known_ms(directory: Directory, properties: Properties) -> int | None:
    """From when on every merge of a block is listed, by the store's clock; None if it is not kept from merges."""
    kept = directory.objects.get(NO_COMPACT_MARK)
    return None if kept is None else kept.modified_ms + round(merges_settle_s(properties) * 1000)


def can_be_merged(one: Found) -> bool:
    """Whether a merge may have taken the block: readers see it by its age, now or soon."""
    return one.damage is None and one.meta is not None and one.meta.visible_by is VisibleBy.AGE


def shown_by(found: Mapping[str, Found], meta: BlockMeta) -> str | None:
    """A block that is not hidden and out of which some of a block's rows are read, once what is fresh has aged; None if
    there is none. Pure."""
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

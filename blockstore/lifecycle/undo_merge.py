"""Taking away a merge that shows again what was hidden, on a table without an index (protocol 3.2):
its meta.json is deleted.

Rules (``specs/listpath.pml``):
- Only while no process counts the merge: in a current listing it is not ready (R2), so no process
  reads it, and nothing was marked because of it.
- Only if ready blocks that are not marked superseded, or hidden ones, account for each of its
  sources but those that were hidden: what holds a row at the look and has no mark is there for
  another ``delete_delay``.
- The DELETE is sent within ``LASTS_S`` of that look, and within ``sync_delay``, or not at all:
  later the merge may be all that is left of its inputs, or may be hidden itself by a process that
  has looked for the last time.
- What is left is an aborted upload, and goes as one (R4). A process that merged it meanwhile finds
  it gone at its own last look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import Corrupt, NoSpace, ObjectMissing, Unavailable
from blockstore.format.block import BlockMeta
from blockstore.format.marks import decode_deletion_mark
from blockstore.format.properties import Consistency, Properties
from blockstore.freshness import Freshness
from blockstore.lifecycle.by_cover import ByCover, listed_of
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.cover import HIDING
from blockstore.lifecycle.second_look import LASTS_S
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.states import Evidence, aged
from blockstore.names import META, deletion_mark_key, meta_key
from blockstore.world import World

_PAUSE_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Sources of a block whose rows should no longer be read out of it."""

    hidden: frozenset[str]
    """Those of other blocks that a mark hides, if no ready block that the cover reads has them
    too."""
    gone: frozenset[str]
    """Those of inputs without a meta.json: hidden and removed, or merged and removed."""


def away(
    catalog: Catalog,
    bucket: ReadBucket,
    world: World,
    properties: Properties,
    block: BlockMeta,
    inputs: Sequence[BlockMeta],
) -> Away:
    """Which sources of a block just made of ``inputs`` are hidden or gone by now. Where listings
    lag, the inputs are requested by name too.

    Raises Unavailable where the store does not respond for long.
    """
    synced = _answered(world, catalog.sync)
    found = synced.found
    marked = [
        one.meta
        for ulid, one in found.items()
        if one.mark in HIDING and one.meta is not None and ulid != block.ulid
    ]
    # A hidden block that the cover does not choose hides nothing: its rows are read out of another
    # one, and may be merged. But this merge, or another upload of it, is not that other one, also
    # where it counts already.
    others = {
        ulid: one
        for ulid, one in found.items()
        if one.meta is None or one.mark in HIDING or one.meta.parents != block.parents
    }
    read = listed_of(
        Sight(listing=synced.listing, found=others, properties=properties)
    ).cover.chosen
    hidden = {source for meta in marked for source in meta.sources}.difference(
        *(one.sources for one in read)
    )
    here = {ulid for ulid, one in found.items() if META in one.directory.objects}
    if properties.consistency is Consistency.EVENTUAL:

        def ask(meta: BlockMeta) -> tuple[bool, bool]:
            return _answered(
                world,
                lambda: (_is_hidden(bucket, meta.ulid), is_there(bucket, meta_key(meta.ulid))),
            )

        for meta, (is_hidden, is_whole) in zip(inputs, world.pool.map(ask, inputs), strict=True):
            hidden.update(meta.sources if is_hidden else ())
            (here.add if is_whole else here.discard)(meta.ulid)
    sources = frozenset(block.sources)
    return Away(
        hidden=sources & hidden,
        gone=sources.intersection(
            source for meta in inputs if meta.ulid not in here for source in meta.sources
        ),
    )


def take_away(
    catalog: Catalog,
    bucket: Bucket,
    world: World,
    properties: Properties,
    merge: BlockMeta,
    hidden: Iterable[str],
) -> str | None:
    """Delete the meta.json of a merge, for the sake of the ``hidden`` sources; None once it is
    gone, else why it stays, as a clause.

    Raises Unavailable where the store does not respond for long.
    """
    fresh = Freshness(world.clock, min(LASTS_S, properties.sync_delay_s))
    modified_ms = _answered(world, lambda: _modified_ms(bucket, merge.ulid))
    if modified_ms is None:
        return None
    synced = _answered(world, catalog.sync)
    now_ms = synced.listing.now_ms
    if aged(
        Evidence(ulid=merge.ulid, newest_ms=0, meta=merge, meta_modified_ms=modified_ms),
        now_ms,
        properties,
    ):
        return "it is already read, and others may be removed because of it"
    sight = Sight(listing=synced.listing, found=synced.found, properties=properties)
    held = ByCover(sight, listed_of(sight)).is_held_elsewhere(merge, but=frozenset(hidden))
    if not held.goes:
        return held.why
    while not fresh.is_over:
        try:
            bucket.delete_once(meta_key(merge.ulid))
            return None
        except NoSpace:
            raise
        except Unavailable:
            world.clock.sleep(world.ids.uniform(0, _PAUSE_S))
        if _answered(world, lambda: _modified_ms(bucket, merge.ulid)) is None:
            return None
    return f"it was to be removed more than {fresh.lasts_s:g} s after the look at the table"


def _is_hidden(bucket: ReadBucket, ulid: str) -> bool:
    try:
        return (
            decode_deletion_mark(bucket.get(deletion_mark_key(ulid)).data, ulid=ulid).reason
            in HIDING
        )
    except (ObjectMissing, Corrupt):
        return False


def _modified_ms(bucket: ReadBucket, ulid: str) -> int | None:
    """When meta.json was written, by the store's clock; None if there is none."""
    try:
        return bucket.head(meta_key(ulid)).modified_ms
    except ObjectMissing:
        return None


def _answered(world: World, ask: Callable[[], T]) -> T:
    """The store's response; the request is repeated while there is none, for ``LASTS_S`` at
    most."""
    fresh = Freshness(world.clock, LASTS_S)
    while True:
        try:
            return ask()
        except Unavailable:
            if fresh.is_over:
                raise
            world.clock.sleep(world.ids.uniform(0, _PAUSE_S))

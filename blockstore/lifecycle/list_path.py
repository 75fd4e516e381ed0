"""The list path: the snapshot that follows from a listing of the bucket, joined with an index where
there is one.

Rules:
- LIST first, *then* the index's state (3.2): a block that moves from the listing into the index in
  between is then known to the state and counted there, never missed and never twice.
- A snapshot is the live blocks of the state, and the exact cover of listed, complete, aged
  ``visible_by: age`` blocks, read for the sources that are above the floor and that the state does
  not account for. Blocks that cannot be read under the table's schema are left out before
  (``schemas.py``).
- A malformed block is left out and, where nothing that is read accounts for its sources, named
  (R4). On a table without an index so is a block that only an index could show: a table that lost
  its index is not read as a smaller one.
- The index decides on what it knows: the meta.json of such a block is not fetched.
- All of it is read while what the listing shows is still there (``Catalog.in_time``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index.state import State
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.cover import Cover, hide_marked, restrict
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.schemas import Agreement, derived, fitting_cover
from blockstore.lifecycle.standing import is_known, wanted_from_listing
from blockstore.lifecycle.states import Evidence, aged
from blockstore.names import META
from blockstore.world import World

_NO_INDEX = "it is visible only by an index, and the table has none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What the list path adds to the live blocks of a state."""

    cover: Cover
    malformed: Mapping[str, str]
    """Blocks left out whose sources nothing that is read accounts for: ULID to the damage."""
    now_ms: int = 0
    """The store's clock at the listing."""
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Blocks that cannot be read under the table's schema: ULID to why."""
    definition: Definition | None = None
    """What the blocks of a table without an index say that it is;

    None where they say nothing, or there is an index.
    """
    labels: frozenset[str] = frozenset()
    """The labels of the blocks that say so."""


def list_snapshot(
    found: Mapping[str, Found], state: State | None, properties: Properties, now_ms: int
) -> Listed:
    """What the list path adds to the live blocks of ``state``, which was read after the listing.

    Pure.
    """
    standing = {ulid: one for ulid, one in found.items() if not is_known(ulid, state)}
    old = {ulid: one for ulid, one in standing.items() if _is_aged(one, now_ms, properties)}
    ready = [one for one in old.values() if one.damage is None and one.meta is not None]
    metas = [
        one.meta for one in ready if one.meta is not None and one.meta.visible_by is VisibleBy.AGE
    ]
    below = (lambda ulid: False) if state is None else state.below_floor
    marks = {ulid: one.mark for ulid, one in standing.items() if one.mark is not None}
    chosen, agreed = fitting_cover(
        (meta for meta in metas if not below(meta.ulid)),
        marks,
        None if state is None else state.definition,
    )
    shown = hide_marked(chosen, marks)
    kept = shown if state is None else restrict(shown, wanted_from_listing(state))
    damaged = {
        ulid: damage for ulid, one in old.items() if (damage := _damage(one, state)) is not None
    }
    definition, labels = (
        (None, frozenset()) if state is not None else _described(found, kept, agreed, properties)
    )
    return Listed(
        cover=kept,
        malformed=_unaccounted({**damaged, **agreed.misfits}, found, kept, state),
        now_ms=now_ms,
        misfits=agreed.misfits,
        definition=definition,
        labels=labels,
    )


def discover_snapshot(
    bucket: ReadBucket,
    world: World,
    read_state: Callable[[], State | None],
    *,
    properties: Properties | None = None,
    catalog: Catalog | None = None,
) -> tuple[State | None, Listed]:
    """The list path in its one right order: LIST, then the state (``read_state``; None without an
    index), then what the state does not decide on.

    ``properties`` are those of a table without an index. A ``catalog`` of the same bucket spares
    what it has read before.
    """
    known = catalog or Catalog(bucket, world)

    def read() -> tuple[tuple[State | None, Listed], Properties]:
        listing = known.listing()
        state = read_state()
        delays = properties or (Properties() if state is None else state.definition.properties)
        synced = known.look(listing, skip=lambda ulid: is_known(ulid, state))
        return (state, list_snapshot(synced.found, state, delays, listing.now_ms)), delays

    return known.in_time(read)


def _described(
    found: Mapping[str, Found], kept: Cover, agreed: Agreement, properties: Properties
) -> tuple[Definition | None, frozenset[str]]:
    """What a table without an index is, and its labels: by the blocks that are read, and where none
    is, by all that are complete."""
    read = [block.meta for block in kept.chosen]
    definition = agreed.definition(read, properties)
    if definition is None:
        whole = (one.meta for one in found.values() if one.meta is not None and one.damage is None)
        read = [meta for meta in whole if meta.visible_by is VisibleBy.AGE]
        definition = derived(read, properties)
    return definition, frozenset(name for meta in read for name in meta.labels)


def _is_aged(one: Found, now_ms: int, properties: Properties) -> bool:
    info = one.directory.objects.get(META)
    modified_ms = None if info is None else info.modified_ms
    evidence = Evidence(
        ulid=one.directory.ulid, newest_ms=0, meta=one.meta, meta_modified_ms=modified_ms
    )
    return aged(evidence, now_ms, properties)


def _damage(one: Found, state: State | None) -> str | None:
    """Why a block cannot be read off this listing although it should be;

    None for one that can, or need not.
    """
    by_index = one.meta is not None and one.meta.visible_by is VisibleBy.INDEX
    if state is None and by_index and one.damage is None:
        return _NO_INDEX
    return None if state is not None and by_index else one.damage


def _unaccounted(
    damaged: Mapping[str, str], found: Mapping[str, Found], kept: Cover, state: State | None
) -> dict[str, str]:
    """The damaged blocks that may hold rows which no other block holds."""
    read = kept.sources
    wanted = wanted_from_listing(state)
    named = {}
    for ulid, damage in damaged.items():
        meta = found[ulid].meta
        sources: Iterable[str] = (ulid,) if meta is None else meta.sources
        if any(wanted(source) and source not in read for source in sources):
            named[ulid] = damage
    return named

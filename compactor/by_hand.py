"""The compactor's care, once and by hand: what the verbs ``cleanup`` and ``retention`` and a forced
removal do.

Rules:
- On a table with an index each of them claims the role ``compactor`` first (protocol 3.7): a
  compactor that runs meanwhile is fenced at its next step, and claims again or ends.
- They read no configuration, so they skip no stream: whoever types them means all of the table.
- ``clean_once`` collects the index before it cleans, so that what no version needs any more is seen
  as such.
- A forced removal is R7's order without R8's wait: marked first, so that one cut short is found
  again. It is refused for a block that a version above the boundary or a tag names, unless
  ``force`` is said: then readers of those versions fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.compactor.clean import OBJECTS_PER_S, Cleaner
from blockstore.compactor.cleaned import Cleaned
from blockstore.compactor.retention import Retained, retain
from blockstore.errors import Conflict, NotFound
from blockstore.format.marks import MarkReason
from blockstore.freshness import Freshness
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import Collected, collect
from blockstore.index.reachable import Kept
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.mark import place_deletion
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.remove import Removed, Remover
from blockstore.table import Table

__all__ = ["CleanedOnce", "clean_once", "remove_now", "retain_once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedOnce:
    """What a cleaning by hand did."""

    cleaned: Cleaned
    collected: Collected | None = None
    """What became of the index; None for a table without one."""


def clean_once(table: Table, *, objects_per_s: float = OBJECTS_PER_S) -> CleanedOnce:
    """Collect the index and run one cleaning pass."""
    held = _held(table)
    collected = None if held is None else collect(table.log, table.world, held=held)
    cleaned = Cleaner(table, held, objects_per_s=objects_per_s).run()
    return CleanedOnce(cleaned=cleaned, collected=collected)


def retain_once(table: Table, *, objects_per_s: float = OBJECTS_PER_S) -> Retained:
    """Take out of the table what is older than its retention."""
    return retain(table, _held(table), objects_per_s=objects_per_s)


def remove_now(table: Table, ulid: str, details: str = "", *, force: bool = False) -> Removed:
    """Remove a block at once, for one that blocks everybody and cannot wait.

    Raises NotFound where nothing lies in its directory, Conflict where a version or a tag names it
    and ``force`` was not said. On a table without an index every reader stops seeing its rows,
    unless another block holds them.
    """
    held = _held(table)
    fresh = Freshness(table.world.clock)
    if held is not None and not force:
        why = Kept(table.log).look().why(ulid)
        if why is not None:
            raise Conflict(
                f"block {ulid} is not removed: {why} names it, and whoever reads that would fail; "
                "expire it with a deletion "
                "mark, or say --force"
            )
    place_deletion(table.bucket, table.world, ulid, MarkReason.MANUAL, details or "removed at once")
    listing = table.catalog.listing()
    directory = listing.directories.get(ulid)
    if directory is None:
        raise NotFound(
            f"there is no block {ulid} in {table.url} any more: another process removed it"
        )
    fresh.lasts_s = table.definition.properties.delete_delay_s / 2
    decision = Decision(
        action=Action.REMOVE, ulid=ulid, reason=MarkReason.MANUAL, why="a person forced it"
    )
    rate = Rate(table.world.clock, OBJECTS_PER_S)
    return Remover(table.bucket, table.world, {ulid: directory}, rate=rate, fresh=fresh).remove(
        [decision]
    )


def _held(table: Table) -> Held | None:
    return claim(table.log, table.world, COMPACTOR) if table.indexed else None

"""Cleaning, retention and forced removal, once and by hand.

Rules:
- On a table with an index each of them claims the role ``compactor`` first (protocol 3.7): a
  running compactor is fenced at its next step, and claims the role again or ends.
- They read no configuration, so they skip no stream: they apply to all of the table.
- ``clean_once`` collects the index before it cleans, so that blocks no version needs any more are
  recognized.
- A forced removal is R7's order without R8's wait: the block is marked first, so that an
  interrupted removal is found again. It is refused for a block that a version above the boundary or
  a tag names, unless ``force`` is given: then readers of those versions fail.
"""

from __future__ import annotations

from blockstore.compactor.clean.cleaner import OBJECTS_PER_S, Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.clean.retention import RetentionReport, retain
from blockstore.errors import Conflict, NotFound
from blockstore.format.marks import MarkReason
from blockstore.freshness import Freshness
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import collect
from blockstore.index.reachable import Kept
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.mark import place_deletion
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.remove import Removed, Remover
from blockstore.table import Table


def clean_once(table: Table, *, objects_per_s: float = OBJECTS_PER_S) -> CleaningReport:
    """Collect the index and run one cleaning pass."""
    held = _held(table)
    if held is not None:
        collect(table.log, table.world, held=held)
    return Cleaner(table, held, objects_per_s=objects_per_s).run()


def retain_once(table: Table, *, objects_per_s: float = OBJECTS_PER_S) -> RetentionReport:
    """Expire what is older than the table's retention."""
    return retain(table, _held(table), objects_per_s=objects_per_s)


def remove_now(table: Table, ulid: str, details: str = "", *, force: bool = False) -> Removed:
    """Remove a block at once, without the usual wait.

    On a table without an index readers no longer see its rows, unless another block holds them.

    Args:
        table: The table of the block.
        ulid: The block.
        details: Why, for the deletion mark.
        force: Remove the block even if a version or a tag names it.

    Raises:
        NotFound: The block's directory is empty.
        Conflict: A version or a tag names the block, and ``force`` is false.
    """
    held = _held(table)
    fresh = Freshness(table.world.clock)
    if held is not None and not force:
        why = Kept(table.log).look().why(ulid)
        if why is not None:
            raise Conflict(
                f"block {ulid} is not removed: {why} names it, and its readers would fail; place a "
                "deletion mark and let it expire, or pass --force"
            )
    place_deletion(table.bucket, table.world, ulid, MarkReason.MANUAL, details or "removed at once")
    listing = table.catalog.listing()
    directory = listing.directories.get(ulid)
    if directory is None:
        raise NotFound(f"block {ulid} of {table.url} no longer exists: another process removed it")
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

"""What a transaction looks at before it decides: a listing, *then* the index's state.

Rules (protocol 3.3 step 3):
- LIST first. A block that moves from the listing into the index in between is then known to the
  state; one uploaded after the listing is an append in between, and follows the transaction.
- Every complete ``visible_by: age`` block that the index does not account for counts, however
  young: its write was acknowledged, and discovery would bring its rows back after the transaction.
  Hidden by a mark, or at or below the floor, no process reads it, and it counts for nothing.
- All of it is read while what the listing shows is still there (``Catalog.in_time``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.errors import Conflict, Invalid, VersionExpired
from blockstore.format.properties import Properties
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.catalog import Synced
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.standing import is_known
from blockstore.operations.access import Access
from blockstore.scan.snapshot import Snapshot

_EVER = 2**62
"""A time, in milliseconds, at which every wait is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A table as a transaction sees it."""

    state: State
    unpublished: tuple[ChosenBlock, ...] = ()
    """Blocks that the index does not know, each with the sources that count."""
    marked: frozenset[str] = frozenset()
    """Those of them that a mark is on."""

    @property
    def snapshot(self) -> Snapshot:
        """All of it, as a scan takes it."""
        return replace(Snapshot.of(self.state), listed=self.unpublished)

    @property
    def waiting(self) -> frozenset[str]:
        """The writes that the index does not know."""
        return frozenset().union(*(block.sources for block in self.unpublished))


def look_first(access: Access) -> View:
    """One listing, then the newest state; a GET for each directory that neither the index nor the
    catalog knows."""

    def read() -> tuple[tuple[State, Synced], Properties]:
        listing = access.catalog.listing()
        state = access.log.poll()
        synced = access.catalog.look(listing, skip=lambda ulid: is_known(ulid, state))
        return (state, synced), state.definition.properties

    state, synced = access.catalog.in_time(read)
    listed = list_snapshot(synced.found, state, state.definition.properties, _EVER)
    unpublished = Snapshot.of(state, listed).listed
    marked = frozenset(ulid for ulid, found in synced.found.items() if found.mark is not None)
    return View(
        state=state,
        unpublished=unpublished,
        marked=marked.intersection(block.meta.ulid for block in unpublished),
    )


def read_at(access: Access, version: int, what: str) -> State:
    """The state at the version that the caller of ``what`` has read. Raises NotFound for a version
    that never was, and Conflict for one that was collected: what came since can no longer be
    judged."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Invalid(
            f"read_version is {version!r}, expected an integer from 1: the version that was read"
        )
    try:
        return access.log.at(version)
    except VersionExpired as error:
        raise Conflict(
            f"this {what} has read version {version}, and what changed since is no longer known "
            f"({error}): read the table again and decide again"
        ) from error


def snapshot_of(state: State, block: LiveBlock | ChosenBlock) -> Snapshot:
    """A snapshot of one block of a view alone."""
    if isinstance(block, LiveBlock):
        return replace(Snapshot.of(state), blocks=state.blocks.of([block]))
    return replace(Snapshot.of(state), blocks=state.blocks.of(), listed=(block,))

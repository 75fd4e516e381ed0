"""One cleaning pass over one table: publish, raise the watermarks, look again, mark, remove.

With an index (3.6, R6, R8), in this order and no other:
- a listing, then the boundary, then the state: what is discoverable is committed;
- where it would condemn anything the horizon is committed, and then everything is decided
  **again**, from a listing and a state that are newer than that entry; the floor follows in an
  entry of its own, with what that later listing still shows;
- marks are withdrawn and placed, and what is due and may go by this same look is removed.
Without an index a fresh listing and its cover decide alone.

Rules:
- The pass holds the role ``compactor``: a process that claims it later fences this one at its next
  look or commit.
- A listing that fails decides nothing: the caller gets the error, and what was done stays.
- Of a table that was dropped nothing is discovered; it is cleared once it cannot be brought back.
- Tags left by dead restores are removed first.
- A pass that died anywhere is finished by the next one: every step checks the bucket first, and
  nothing is remembered.
- One bad block stops no other. The report names what a person must look at, and rights that are
  missing (``denied``).
- Files that no row names go by the same look, before blocks do (``files.py``).
- A stream that the configuration skips is left alone (``skip.py``).
- A dry run changes nothing and claims nothing; it decides as if the horizon had been raised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from blockstore.compactor.clean.carry_out import CarriedOut, carry_out
from blockstore.compactor.clean.clear import clear
from blockstore.compactor.clean.discovery import Published, publish
from blockstore.compactor.clean.due import cleaning_due_s
from blockstore.compactor.clean.files import FileCleaner, FilesCleaned
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.plan.skip import Labels, skipped_blocks
from blockstore.errors import Invalid
from blockstore.format.properties import Consistency
from blockstore.freshness import Freshness
from blockstore.index.change import RaiseWatermarks
from blockstore.index.epochs import Held, check_held
from blockstore.index.reachable import Kept
from blockstore.index.state import State
from blockstore.index.tags import untag_abandoned
from blockstore.lifecycle.decide import (
    Action,
    Decision,
    Removals,
    decide_marks,
    decide_removals,
    quarantined,
)
from blockstore.lifecycle.discoverable import Discoverable, discoverable
from blockstore.lifecycle.listing import Directory
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.remove import Removed, Remover
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.watermarks import floor_to_raise, highest_horizon, horizon_to_raise
from blockstore.names import DELETION_MARK
from blockstore.table import Table

_logger = logging.getLogger(__name__)

OBJECTS_PER_S = 500.0
"""Requests, and objects in batched deletes, that a pass sends a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A sight, how long it may be acted on, and the horizon from before its listing."""

    sight: Sight
    fresh: Freshness
    horizon: str | None


class Cleaner:
    """Cleans one table, pass by pass.

    ``held`` is the role ``compactor``; None for a table without an index.
    """

    def __init__(
        self,
        table: Table,
        held: Held | None,
        *,
        skip: Labels = (),
        objects_per_s: float = OBJECTS_PER_S,
    ) -> None:
        if table.indexed != (held is not None):
            raise Invalid(
                f"{table.url} is cleaned in the role compactor if it has an index, and in no role "
                "otherwise: claim it first"
            )
        self._table = table
        self._held = held
        self._skip = skip
        self._kept = Kept(table.log) if table.indexed else None
        self._rate = Rate(table.world.clock, objects_per_s)
        self._files = FileCleaner(table.bucket, table.world, self._rate)
        self._warned: set[str] = set()

    def run(self) -> CleaningReport:
        """One pass. What was done before an error stays, and the next pass continues.

        Raises:
            Fenced: Another process holds the role.
            Unavailable: The store does not respond; other store errors likewise.
            Corrupt: The index cannot be read.
        """
        self._untag()
        look = _look(self._table, self._kept, self._held)
        published, horizon, floor = Published(), None, None
        if look.sight.state is not None:
            if look.sight.state.dropped is None:
                published = self._publish(look.sight, look.sight.state)
            elif self._clear(look.sight, look.sight.state) is not None:
                look = _look(self._table, self._kept, self._held)
            horizon = horizon_to_raise(look.sight)
            if horizon is not None:
                self._raise(horizon=horizon)
                look = _look(self._table, self._kept, self._held)
            floor = self._raise_floor(look)
        left_alone = skipped_blocks(look.sight.found, self._skip)
        marks = decide_marks(look.sight, left_alone)
        carried = self._mark(look, marks)
        files = self._clean_files(look)
        removals = decide_removals(look.sight, left_alone)
        withdrawn = self._mark(
            look, [one for one in removals.decisions if one.action is Action.WITHDRAW]
        )
        going = [one for one in removals.decisions if one.action is Action.REMOVE]
        if going:
            _logger.info("removing %s blocks", len(going))
        removed = self._remove(look, going)
        if going:
            _logger.info("removed %s blocks", len(removed.blocks))
        cleaned = _cleaned(
            self._table,
            look.sight,
            discovered=published,
            horizon=horizon,
            floor=floor,
            done=(*carried.done, *withdrawn.done),
            removed=[one for one in going if one.ulid in set(removed.blocks)],
            removals=removals,
            files=files,
        )
        self._log(cleaned)
        return replace(
            cleaned,
            due_s=cleaning_due_s(look.sight),
            objects=removed.objects,
            bytes=removed.bytes,
            dropped={**carried.dropped, **withdrawn.dropped, **removed.dropped},
            failed={**carried.failed, **withdrawn.failed, **removed.failed},
            denied=carried.denied or withdrawn.denied or removed.denied,
        )

    def _untag(self) -> None:
        """Remove the tags of dead restores: their version may be collected, and then nothing shows
        what it names."""
        table = self._table
        for name in untag_abandoned(table.log, table.world) if table.indexed else ():
            _logger.warning("removed tag %r of %s: its restore died", name, table.url)

    def _publish(self, sight: Sight, state: State) -> Published:
        assert self._held is not None, "a table with an index is cleaned in a role"
        found = discoverable(sight, state)
        published = publish(self._table.log, self._table.world, self._held, found.blocks)
        published.quarantined.update(found.quarantined)
        return published

    def _clean_files(self, look: _Look) -> FilesCleaned:
        """Mark and remove files, and raise the horizon where some wait for that alone."""
        sight = look.sight
        files, needed = self._files.run(sight, look.horizon, look.fresh)
        highest = highest_horizon(sight)
        if sight.state is None or needed is None or needed > highest:
            return files
        if sight.state.horizon is None or sight.state.horizon < needed:
            self._raise(horizon=highest)
        return files

    def _clear(self, sight: Sight, state: State) -> int | None:
        assert self._held is not None, "a table with an index is cleaned in a role"
        version = clear(self._table.log, self._table.world, self._held, sight, state)
        if version is not None:
            _logger.info(
                "cleared the dropped table %s", self._table.url, extra={"version": version}
            )
        return version

    def _raise_floor(self, look: _Look) -> str | None:
        raised = floor_to_raise(look.sight, look.horizon)
        if raised is None:
            return None
        self._raise(floor=raised.floor, keep=raised.keep)
        return raised.floor

    def _raise(
        self, *, horizon: str | None = None, floor: str | None = None, keep: tuple[str, ...] = ()
    ) -> None:
        assert self._held is not None, "a table with an index is cleaned in a role"
        commit, epoch = self._table.world.ids.ulid(), self._held.epoch
        self._table.log.commit(
            RaiseWatermarks(commit=commit, epoch=epoch, horizon=horizon, floor=floor, keep=keep)
        )

    def _mark(self, look: _Look, decisions: list[Decision] | tuple[Decision, ...]) -> CarriedOut:
        table = self._table
        return carry_out(
            table.bucket,
            table.world,
            decisions,
            _directories(look.sight),
            rate=self._rate,
            fresh=look.fresh,
            go_on=True,
        )

    def _remove(self, look: _Look, decisions: list[Decision]) -> Removed:
        table = self._table
        directories = _directories(look.sight)
        remover = Remover(
            table.bucket,
            table.world,
            directories,
            rate=self._rate,
            fresh=look.fresh,
            listings_lag=look.sight.properties.consistency is Consistency.EVENTUAL,
        )
        return remover.remove(decisions)

    def _log(self, cleaned: CleaningReport) -> None:
        """Log what a person must look at, once per process, and every withdrawn mark."""
        for ulid, why in cleaned.quarantined.items():
            if ulid not in self._warned:
                _logger.warning("block %s of %s is quarantined: %s", ulid, cleaned.url, why)
        self._warned |= cleaned.quarantined.keys()
        for one in cleaned.withdrawn:
            _logger.warning(
                "the mark of block %s of %s was withdrawn: %s", one.ulid, cleaned.url, one.why
            )


def plan_cleaning(table: Table) -> CleaningReport:
    """What a pass would do now; changes nothing."""
    look = _look(table, Kept(table.log) if table.indexed else None, None)
    sight = look.sight
    found, horizon, floor = Discoverable(), None, None
    if sight.state is not None and sight.named is not None:
        if sight.state.dropped is None:
            found = discoverable(sight, sight.state)
        raised = floor_to_raise(sight, sight.state.horizon)
        floor = None if raised is None else raised.floor
        horizon = horizon_to_raise(sight)
        if horizon is not None:
            state = replace(sight.state, horizon=horizon)
            sight = replace(sight, named=replace(sight.named, state=state))
    rate = Rate(table.world.clock, OBJECTS_PER_S)
    files, _ = FileCleaner(table.bucket, table.world, rate).run(
        sight, None if sight.state is None else sight.state.horizon, look.fresh, dry_run=True
    )
    removals = decide_removals(sight)
    going = [one for one in removals.decisions if one.action is Action.REMOVE]
    sizes = [
        info.size for one in going for info in sight.found[one.ulid].directory.objects.values()
    ]
    cleaned = _cleaned(
        table,
        sight,
        discovered=Published([meta.ulid for meta in found.blocks], dict(found.quarantined)),
        horizon=horizon,
        floor=floor,
        done=(
            *decide_marks(sight),
            *(one for one in removals.decisions if one.action is Action.WITHDRAW),
        ),
        removed=going,
        removals=removals,
        files=files,
    )
    return replace(cleaned, dry_run=True, objects=len(sizes), bytes=sum(sizes))


def _look(table: Table, kept: Kept | None, held: Held | None) -> _Look:
    """The listing, then the boundary and the state, then the blocks that the state does not
    cover."""
    fresh = Freshness(table.world.clock)
    horizon = None if kept is None else table.log.state.horizon
    listing = table.catalog.listing()
    named = None if kept is None else kept.look()
    if named is not None:
        check_held(named.state, held)
    live = None if named is None else named.state.blocks

    def known_by_index(ulid: str) -> bool:
        return (
            live is not None
            and ulid in live
            and DELETION_MARK not in listing.directories[ulid].objects
        )

    synced = table.catalog.look(listing, skip=known_by_index)
    properties = table.definition.properties if named is None else named.state.definition.properties
    fresh.lasts_s = properties.delete_delay_s / 2
    sight = Sight(listing=listing, found=synced.found, properties=properties, named=named)
    return _Look(sight=sight, fresh=fresh, horizon=horizon)


def _directories(sight: Sight) -> dict[str, Directory]:
    return {ulid: one.directory for ulid, one in sight.found.items()}


def _cleaned(
    table: Table,
    sight: Sight,
    *,
    discovered: Published,
    horizon: str | None,
    floor: str | None,
    done: tuple[Decision, ...],
    removed: list[Decision],
    removals: Removals,
    files: FilesCleaned,
) -> CleaningReport:
    """The report of a pass."""
    live = () if sight.state is None else sight.state.blocks
    named = {
        ulid: why
        for ulid in sight.found
        if ulid not in live and (why := sight.named_by(ulid)) is not None
    }
    sizes = [info.size for ulid in named for info in sight.found[ulid].directory.objects.values()]
    return CleaningReport(
        url=table.url,
        version=None if sight.state is None else sight.state.version,
        discovered=tuple(discovered.blocks),
        horizon=horizon,
        floor=floor,
        marked=tuple(one for one in done if one.action is Action.MARK),
        withdrawn=tuple(one for one in done if one.action is Action.WITHDRAW),
        removed=tuple(removed),
        quarantined={**quarantined(sight), **discovered.quarantined},
        refused=frozenset(discovered.quarantined),
        kept=named,
        kept_bytes=sum(sizes),
        waiting=removals.waiting,
        files=files,
    )

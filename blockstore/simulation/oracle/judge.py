"""Gets every change of the store and every result of a caller, and calls the parts that know what
must be true.

Promises of its own:
- An acknowledged write is durable from its result on: in the index, or in a complete block that
  will be discovered.
- A write that was reported as "published" is in the index at the version named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.names import (
    BOUNDARY,
    DELETION_MARK,
    NO_COMPACT_MARK,
    parse_checkpoint,
    parse_entry,
    parse_leaf,
    split_block_key,
)
from blockstore.operations.append import AppendedBlock
from blockstore.simulation.ground import Ground
from blockstore.simulation.ledger import Fate, Write
from blockstore.simulation.oracle.directories import Directories, Directory
from blockstore.simulation.oracle.history import History
from blockstore.simulation.oracle.meaning import Version
from blockstore.simulation.report import Section
from blockstore.simulation.store import Changed
from blockstore.simulation.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A history that a disaster ended, as it was then."""

    versions: Mapping[int, Version]
    entered: frozenset[int]
    """The writes that the index named."""
    stored: frozenset[int]
    """The writes of which there was a complete block."""
    intents: Mapping[str, tuple[int, ...]]
    """The entries that intents had become."""


class Judge:
    """The oracle of one run."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.directories = Directories(ground, lambda: self.waiting)
        self.history = History(ground, self.directories) if ground.kind.has_index else None
        self.waiting: set[int] = set()
        """Acknowledged writes that no entry has named yet, and that no process wants to be
        deleted."""
        self.replaced: list[Replaced] = []
        """The histories that were replaced, one for each era that is over."""
        self._condemned: set[int] = set()
        """Writes of blocks that a person marked, where the mark itself hides them."""

    def changed(self, change: Changed) -> None:
        """A request was applied."""
        place = split_block_key(change.key)
        if place is not None:
            self._block_changed(*place, change)
        elif self.history is None:
            raise Violation(f"{change.key} was written, and the table has no index")
        elif change.key == BOUNDARY:
            self.history.boundary_changed(change)
        elif parse_entry(change.key) is not None:
            self.history.entry_changed(change)
            if self.waiting:
                self.waiting -= self._entered(self.waiting)
        elif parse_checkpoint(change.key) is not None:
            self.history.checkpoint_changed(change)
        elif parse_leaf(change.key) is not None:
            self.history.leaf_changed(change)

    def acknowledge(self, write: Write, answer: AppendedBlock, since: int) -> None:
        """The caller of a write, which called in the era ``since``, got the result that it
        succeeded."""
        self._ground.report.count(
            Section.EVENTS, "write acknowledged" if answer.published else "write left to its age"
        )
        if self._went_down(write, since, published=answer.published):
            return
        if write.fate is Fate.OPEN:
            write.fate = Fate.ACKNOWLEDGED
            write.acknowledged_ms = self._ground.scheduler.now_ms
            if self._is_of_another_schema(write.number):
                self._event("acknowledged with the schema of a table that was replaced")
            elif write.number not in self._condemned:
                self.waiting.add(write.number)
        entered = self._entered({write.number})
        self.waiting -= entered
        if answer.published and not entered:
            raise Violation(
                f"write {write.number} was reported as published, and no entry holds it"
            )
        if not entered and not self._is_stored(write.number) and not self._may_be_gone(write):
            raise Violation(
                f"write {write.number} was acknowledged, and no complete block holds it"
            )
        fresh = since == self._ground.era and not answer.already
        if answer.published and answer.version is not None and fresh:
            self._check_version(write, answer.version)

    def acknowledge_rows(self, write: Write, since: int) -> None:
        """The caller of an overwrite, which called in the era ``since``, got the result that it
        succeeded."""
        if self._went_down(write, since, published=True):
            return
        if not self._entered({write.number}):
            raise Violation(f"write {write.number} has returned, and no entry holds it")
        write.fate = Fate.ACKNOWLEDGED

    def _went_down(self, write: Write, since: int, *, published: bool) -> bool:
        """Whether the write was there when a history ended that has been replaced since, and is no
        longer there: then the result was right when it was returned."""
        ended = self.replaced[since:]
        if not any(
            write.number in one.entered or (not published and write.number in one.stored)
            for one in ended
        ):
            return False
        if self._entered({write.number}) or (not published and self._is_stored(write.number)):
            return False
        self._event("acknowledged, and gone with its history")
        return True

    def _event(self, name: str) -> None:
        self._ground.report.count(Section.EVENTS, name)

    def _may_be_gone(self, write: Write) -> bool:
        """Whether a person, or retention, may have had the write removed, where the mark itself
        decides."""
        return write.number in self._condemned or (
            self.history is None and self._ground.expired(write.at_ms)
        )

    def refuse(self, write: Write, error: Exception) -> None:
        """The caller of a write got the certain result that it is not there and never will be."""
        if write.fate is Fate.ACKNOWLEDGED:
            return
        if self._entered({write.number}):
            raise Violation(f"write {write.number} was refused ({error}), and it is in the index")
        write.fate = Fate.REFUSED

    def condemn(self, ulid: str) -> None:
        """A person is about to mark a block for deletion."""
        self._ground.ledger.condemned.add(ulid)
        if self.history is None:
            sources = self.directories.known(ulid).meta.sources
            self._condemned |= {self.directories.write_of[source] for source in sources}
            self.waiting -= self._condemned

    def is_foreign(self, directory: Directory) -> bool:
        """Whether no version names the block, and the table has no schema with its columns: it can
        never enter."""
        if self.history is None or self.history.needed(directory.ulid) is not None:
            return False
        schemas = self.history.latest.state.definition.schemas.values()
        columns = self.directories.known(directory.ulid).columns
        return all(schema.names != columns for schema in schemas)

    def _is_of_another_schema(self, write: int) -> bool:
        """Whether a write is only in blocks that cannot enter the table: its handle was of a table
        that was replaced."""
        directories = self.directories
        holders = [
            directories.by_ulid[holder]
            for source, one in directories.write_of.items()
            if one == write
            for holder in directories.holders.get(source, ())
        ]
        return bool(holders) and all(one.complete and self.is_foreign(one) for one in holders)

    def _check_version(self, write: Write, version: int) -> None:
        assert self.history is not None
        entered = self.history.meaning.applied.get(write.number)
        if entered is not None and entered > version:
            raise Violation(
                f"write {write.number} was returned as version {version}, and entered in {entered}"
            )

    def _entered(self, writes: set[int]) -> set[int]:
        """Those of the writes that the index has named."""
        if self.history is None:
            return set()
        meaning = self.history.meaning
        return {write for write in writes if write in meaning.applied or write in meaning.accounted}

    def _is_stored(self, write: int) -> bool:
        directories = self.directories
        return any(
            directories.holders.get(source)
            for source, one in directories.write_of.items()
            if one == write
        )

    def _block_changed(self, ulid: str, path: str, change: Changed) -> None:
        before = self.directories.by_ulid.get(ulid)
        was_complete = before is not None and before.complete
        directory = self.directories.changed(ulid, path, change)
        if change.after is not None or path in (DELETION_MARK, NO_COMPACT_MARK):
            return
        if self.history is not None:
            self.history.directory_lost(directory, path)
        if was_complete and not directory.complete:
            self._check_rows_left(ulid, path)

    def _check_rows_left(self, ulid: str, path: str) -> None:
        """No acknowledged write was in that block alone."""
        directories = self.directories
        if ulid in self._ground.ledger.condemned:
            return
        for source in directories.known(ulid).meta.sources:
            write = directories.write_of.get(source)
            if write not in self.waiting or self._ground.expired(
                self._ground.ledger.writes[write].at_ms
            ):
                continue
            if not directories.holders.get(source):
                raise Violation(
                    f"block {ulid} lost {path}, and it alone held write {write}, which was "
                    "acknowledged and that no entry has named"
                )

"""The index as it really is: every entry that became history, its state, and what may still be asked for.

Promises (protocol 3.4, 3.5):
- Entries above the boundary are contiguous; one created at or below it is void.
- The boundary never moves back, and never reaches the latest entry; before entry i goes it is at i or above.
- A version stays above the boundary for ``history_retention`` after the next one replaced it.
- Every checkpoint equals the fold. The one at the boundary stays, and those that a tag pins.
- Every block of every version above the boundary, and of every version that a tag keeps, stays whole.
- Entries do to the rows what their operations mean (``meaning.py``), and the blocks hold exactly those rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blockstore.errors import BlockstoreError
from blockstore.format.sources import decode_sources
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.boundary import parse_boundary
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.entry import Entry, decode_entry
from blockstore.index.fold import fold
from blockstore.index.state import State
from blockstore.names import BOUNDARY, checkpoint_key, object_key, parse_checkpoint, parse_entry, sources_path
from blockstore.simulation.oracle.directories import Directories, Directory
from blockstore.simulation.oracle.meaning import Delta, Meaning, Rows
from blockstore.simulation.report import Section
from blockstore.simulation.store import Changed
from blockstore.simulation.violation import Violation

if TYPE_CHECKING:
    from blockstore.simulation.stage import Stage

__all__ = ["History", "Version"]

_REMEMBERED = 400
"""So many versions below the boundary are remembered, for readers that still hold one."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version: its state, and the rows that it shows."""

    state: State
    rows: Rows


class History:
    """What the index has ever said."""

    def __init__(self, stage: Stage, directories: Directories) -> None:
        self._stage = stage
        self._directories = directories
        self.meaning = Meaning(stage, directories)
        self.boundary = -1
        """-1 until it is written."""
        self.latest = Version(State.EMPTY, Rows())
        self.versions: dict[int, Version] = {0: self.latest}
        self.kept: dict[str, int] = {}
        """The versions that tags keep: those that were readable when their tag was committed."""
        self._removed_at: dict[str, int] = {}
        self._created_ms: dict[int, int] = {}
        """When each entry was created, by true time."""
        self._least_retention_s = math.inf
        """The shortest history_retention that the table ever had."""

    def entry_changed(self, change: Changed) -> None:
        """An entry was created, or deleted."""
        number = parse_entry(change.key)
        assert number is not None
        if change.after is None:
            if number > self.boundary:
                raise Violation(f"entry {number} was deleted above the boundary {self.boundary}")
            self._event("entry collected")
        elif change.before is not None:
            raise Violation(f"entry {number} was written twice")
        elif number <= self.boundary:
            self._event("entry created at or below the boundary")
        else:
            self._append(number, change.after)

    def boundary_changed(self, change: Changed) -> None:
        """The boundary was written."""
        if change.after is None:
            raise Violation(f"{BOUNDARY} was deleted")
        value = parse_boundary(change.after, self._stage.store.url)
        latest = self.latest.state.version
        if value < self.boundary:
            raise Violation(f"the boundary fell from {self.boundary} to {value}")
        if value and value >= latest:
            raise Violation(f"the boundary moved to {value}, and the latest entry is {latest}")
        if value and self._stage.store.data(checkpoint_key(value)) is None:
            raise Violation(f"the boundary moved to {value}, where no checkpoint lies")
        if value > self.boundary > -1:
            self._event("boundary advanced")
            age_s = (self._stage.scheduler.now_ms - self._created_ms[value + 1]) / 1000
            if age_s < self._least_retention_s:
                raise Violation(
                    f"the boundary moved to {value}, which was the newest version {age_s:.0f} s ago, and history_retention has "
                    f"been {self._least_retention_s:.0f} s or more"
                )
        self.boundary = value
        for old in [number for number in self.versions if number < value - _REMEMBERED]:
            if old not in self.kept.values():
                del self.versions[old]

    def checkpoint_changed(self, change: Changed) -> None:
        """A checkpoint was written, or deleted."""
        version = parse_checkpoint(change.key)
        assert version is not None
        if change.after is None:
            if version >= self.boundary or version in self.kept.values():
                raise Violation(
                    f"checkpoint {version} was deleted, boundary {self.boundary}, tags {self.kept}"
                )
            self._event("checkpoint collected")
            return
        self._event("checkpoint written")
        known = self.versions.get(version)
        try:
            found = decode_checkpoint(change.after, version=version)
        except BlockstoreError as error:
            raise Violation(f"checkpoint {version} cannot be read: {error}") from error
        if known is None and version > self.boundary:
            raise Violation(f"checkpoint {version} was written, and there is no such version")
        if known is not None and found != known.state:
            raise Violation(f"checkpoint {version} is not the fold of its entries")

    def keep(self, tag: str, version: int) -> None:
        """A caller was told that the tag keeps the version: from now on it must."""
        if self.kept.get(tag) == version:
            return
        found = self.versions.get(version)
        if found is None or self.latest.state.tags.get(tag) != version:
            raise Violation(f"tag {tag!r} was answered to keep version {version}, and does not stand for it")
        if self._stage.store.data(checkpoint_key(version)) is None:
            raise Violation(f"tag {tag!r} was answered to keep version {version}, whose checkpoint is gone")
        for block in found.state.blocks:
            directory = self._directories.by_ulid.get(block.ulid)
            if directory is None or not directory.complete or directory.is_marked:
                raise Violation(
                    f"tag {tag!r} was answered to keep version {version}, and block {block.ulid} is not whole"
                )
        self.kept[tag] = version

    def directory_lost(self, directory: Directory, path: str) -> None:
        """An object of a block is gone: nobody may need it."""
        why = self.needed(directory.ulid)
        if why is not None:
            raise Violation(f"block {directory.ulid} lost {path}, and {why} names it")

    def needed(self, ulid: str) -> str | None:
        """The version that can be asked for and has this block, in words; None if there is none."""
        if ulid in self.latest.state.blocks:
            return f"version {self.latest.state.version}"
        until = self._removed_at.get(ulid, 0)
        if until > self.boundary + 1:
            return f"version {until - 1} (boundary {self.boundary})"
        for tag, version in self.kept.items():
            if ulid in self.versions[version].state.blocks:
                return f"tag {tag!r} of version {version}"
        return None

    def _append(self, number: int, data: bytes) -> None:
        before = self.latest
        if number != before.state.version + 1:
            raise Violation(f"entry {number} was created after version {before.state.version}")
        try:
            entry = self._load(decode_entry(data, entry_id=number))
            state = fold(before.state, entry)
        except BlockstoreError as error:
            raise Violation(f"entry {number} is no history: {error}") from error
        delta = self._delta(before, entry, state)
        self.meaning.check(before.state, before.rows, entry, delta, self.versions)
        self._created_ms[number] = self._stage.scheduler.now_ms
        self._least_retention_s = min(
            self._least_retention_s, state.definition.properties.history_retention_s
        )
        self.latest = self.versions[number] = Version(state, _changed(before.rows, delta))
        self._event(f"entry: {entry.operation}")
        for ulid in entry.remove:
            if ulid not in state.blocks:
                self._removed_at[ulid] = number
        self._follow_tags(before.state, entry)

    def _load(self, entry: Entry) -> Entry:
        """The entry with long lists of sources read from their files."""
        return replace(entry, add=tuple(self._with_sources(block) for block in entry.add))

    def _with_sources(self, block: AddedBlock) -> AddedBlock:
        if not isinstance(block.sources, SourcesFile):
            return block
        data = self._stage.store.get(object_key(block.ulid, sources_path())).data
        return block.with_sources(decode_sources(data, block.ulid))

    def _delta(self, before: Version, entry: Entry, state: State) -> Delta:
        """What the entry does to the rows, by its blocks: those that it does not touch are as before."""
        lost: Delta = {}
        won: Delta = {}
        for ulid in sorted({*entry.remove, *entry.excepts, *(block.ulid for block in entry.add)}):
            old, new = before.state.blocks.get(ulid), state.blocks.get(ulid)
            if new is not None:
                directory = self._directories.by_ulid.get(ulid)
                if directory is None or not directory.complete:
                    raise Violation(f"entry {entry.id} names block {ulid}, which is not complete")
            content = self._directories.content(ulid)
            if old is not None:
                _gather(lost, content.rows(old.excepted), entry)
            if new is not None:
                _gather(won, content.rows(new.excepted), entry)
        delta: Delta = {}
        for write in sorted({*lost, *won}):
            held = before.rows.get(write, 0)
            left = held & ~lost.get(write, 0)
            if held & lost.get(write, 0) != lost.get(write, 0):
                raise Violation(
                    f"entry {entry.id} takes away rows of write {write} that version {entry.id - 1} did not show"
                )
            if left & won.get(write, 0):
                raise Violation(f"after entry {entry.id} rows of write {write} stand in two blocks")
            after = left | won.get(write, 0)
            if after != held:
                delta[write] = after
        return delta

    def _follow_tags(self, before: State, entry: Entry) -> None:
        for tag, version in entry.tags.items():
            if version is None:
                self.kept.pop(tag, None)
            elif version > self.boundary or version in self.kept.values():
                self.kept[tag] = version
            else:
                self._event("tag came too late")

    def _event(self, name: str) -> None:
        self._stage.report.count(Section.EVENTS, name)


def _gather(into: Delta, rows: Delta, entry: Entry) -> None:
    for write, mask in rows.items():
        if into.get(write, 0) & mask:
            raise Violation(f"rows of write {write} stand in two blocks of entry {entry.id}")
        into[write] = into.get(write, 0) | mask


def _changed(rows: Rows, delta: Delta) -> Rows:
    changed = rows.mutate()
    for write, mask in delta.items():
        if mask:
            changed[write] = mask
        else:
            del changed[write]
    return changed.finish()

"""The index as it really is: every entry that became history, its state, and what may still be
requested.

Promises (protocol 3.4, 3.5):
- Entries above the boundary are contiguous; one created at or below it is void, and so is one that
  names another entry than the one below it: it changes nothing but the version (``chain.py``).
- No process creates an entry above a gap, or a false checkpoint, except by a request that was on
  its way when the history was replaced, or that was decided by an earlier look.
- An entry that was on its way then may name blocks that are gone: a person brings them back.
- The boundary never moves back, and never reaches the latest entry; before entry i goes it is at i
  or above.
- A version stays above the boundary for ``history_retention`` after the next one replaced it.
- Every checkpoint equals the fold. The one at the boundary stays, and those that a tag pins.
- Every block of every version above the boundary, and of every version that a tag keeps, stays
  complete.
- Entries do to the rows what their operations mean (``masks.py``, ``row_versions.py``), and the
  blocks hold exactly those rows.
"""

from __future__ import annotations

import math
from dataclasses import replace

from blockstore.errors import BlockstoreError
from blockstore.format.sources import decode_sources
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.boundary import Boundary, parse_boundary
from blockstore.index.checkpoint import decode_checkpoint, holds_state
from blockstore.index.entry import Entry
from blockstore.index.read import IndexReader
from blockstore.index.state import State
from blockstore.index.tree.loading import leaves_of
from blockstore.names import (
    BOUNDARY,
    checkpoint_key,
    object_key,
    parse_checkpoint,
    parse_entry,
    sources_path,
)
from blockstore.simulation.ground import Ground
from blockstore.simulation.oracle.chain import Chain
from blockstore.simulation.oracle.directories import Directories, Directory
from blockstore.simulation.oracle.leaves import check_gone, check_whole
from blockstore.simulation.oracle.masks import MaskMeaning
from blockstore.simulation.oracle.meaning import Meaning, Rows, Version
from blockstore.simulation.oracle.row_versions import VersionMeaning
from blockstore.simulation.report import Section
from blockstore.simulation.store import Changed
from blockstore.simulation.violation import Violation

_REMEMBERED = 400
"""So many versions below the boundary are remembered, for readers that still hold one."""


class History:
    """What the index has ever said."""

    def __init__(self, ground: Ground, directories: Directories) -> None:
        self._ground = ground
        self._directories = directories
        self.meaning: Meaning = (
            VersionMeaning(ground, directories)
            if ground.kind.has_identity
            else MaskMeaning(ground, directories)
        )
        self.boundary = -1
        """-1 until it is written."""
        self.latest = Version(State.EMPTY, Rows())
        self.versions: dict[int, Version] = {0: self.latest}
        self.chain = Chain()
        """What the next entry must name."""
        self.strays: dict[int, tuple[int, bytes]] = {}
        """Entries of a replaced history that are above a gap, each with the time at which it
        came."""
        self.mended_step = -1
        """The step in which the last of them went, or became void."""
        self.false_checkpoints: set[int] = set()
        """Versions under whose names there are checkpoints of a replaced history."""
        world = ground.world()
        self._reader = IndexReader(ground.store, world, Boundary(ground.store, world))
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
            if self.strays.pop(number, None) is not None:
                self.mended_step = self._ground.scheduler.steps
                return
            if number > self.boundary:
                raise Violation(f"entry {number} was deleted above the boundary {self.boundary}")
            self._event("entry collected")
        elif change.before is not None:
            raise Violation(f"entry {number} was written twice")
        elif number <= self.boundary:
            self._event("entry created at or below the boundary")
        elif number > self.latest.state.version + 1:
            self._stray(number, change.after)
        else:
            self._append(number, change.after)
            while (following := self.strays.pop(self.latest.state.version + 1, None)) is not None:
                self.mended_step = self._ground.scheduler.steps
                self._append(self.latest.state.version + 1, following[1], following[0])

    def boundary_changed(self, change: Changed) -> None:
        """The boundary was written."""
        if change.after is None:
            raise Violation(f"{BOUNDARY} was deleted")
        value = parse_boundary(change.after, self._ground.store.url)
        latest = self.latest.state.version
        if value < self.boundary:
            raise Violation(f"the boundary fell from {self.boundary} to {value}")
        if value and value >= latest:
            raise Violation(f"the boundary moved to {value}, and the latest entry is {latest}")
        if value and self._ground.store.data(checkpoint_key(value)) is None:
            raise Violation(f"the boundary moved to {value}, where there is no checkpoint")
        if value > self.boundary > -1:
            self._event("boundary advanced")
            check_whole(self._ground.store, value)
            age_s = (self._ground.scheduler.now_ms - self._created_ms[value + 1]) / 1000
            if age_s < self._least_retention_s:
                raise Violation(
                    f"the boundary moved to {value}, which was the newest version {age_s:.0f} s "
                    f"ago, and history_retention has been {self._least_retention_s:.0f} s or more"
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
            if version in self.false_checkpoints:
                self.false_checkpoints.discard(version)
                return
            if version >= self.boundary or version in self.kept.values():
                raise Violation(
                    f"checkpoint {version} was deleted, boundary {self.boundary}, tags {self.kept}"
                )
            self._event("checkpoint collected")
            return
        self._event("checkpoint written")
        known = self.versions.get(version)
        # A commit whose entry went with its history just before the look after it: its committer
        # could not know, and readers miss the entry.
        lost = known is None and version > self.latest.state.version and self._ground.era > 0
        if lost or (self._ground.stale and not self._is_right(known, change.after, version)):
            self.false_checkpoints.add(version)
            self._event("checkpoint of a replaced history")
            return
        try:
            found = self._decoded(change.after, version)
        except BlockstoreError as error:
            raise Violation(f"checkpoint {version} cannot be read: {error}") from error
        if known is None and version > self.boundary:
            raise Violation(f"checkpoint {version} was written, and there is no such version")
        if known is not None and not holds_state(found, known.state):
            raise Violation(f"checkpoint {version} is not the fold of its entries")

    def keep(self, tag: str, version: int) -> None:
        """A caller got the result that the tag keeps the version: from now on it must."""
        if self.kept.get(tag) == version:
            return
        found = self.versions.get(version)
        if found is None or self.latest.state.tags.get(tag) != version:
            raise Violation(
                f"tag {tag!r} was reported to keep version {version}, and is not set on it"
            )
        if self._ground.store.data(checkpoint_key(version)) is None:
            raise Violation(
                f"tag {tag!r} was reported to keep version {version}, whose checkpoint is gone"
            )
        for block in found.state.blocks:
            directory = self._directories.by_ulid.get(block.ulid)
            if directory is None or not directory.complete or directory.is_marked:
                raise Violation(
                    f"tag {tag!r} was reported to keep version {version}, and block {block.ulid} "
                    "is not complete"
                )
        self.kept[tag] = version

    def directory_lost(self, directory: Directory, path: str) -> None:
        """An object of a block is gone: no version may need it."""
        why = self.needed(directory.ulid)
        if why is not None:
            raise Violation(f"block {directory.ulid} lost {path}, and {why} names it")

    def needed(self, ulid: str) -> str | None:
        """The version that can be requested and has this block, in words; None if there is none."""
        if ulid in self.latest.state.blocks:
            return f"version {self.latest.state.version}"
        until = self._removed_at.get(ulid, 0)
        if until > self.boundary + 1:
            return f"version {until - 1} (boundary {self.boundary})"
        for tag, version in self.kept.items():
            if ulid in self.versions[version].state.blocks:
                return f"tag {tag!r} of version {version}"
        return None

    def _append(self, number: int, data: bytes, came_ms: int | None = None) -> None:
        before = self.latest
        fits = self.chain.fits(data)
        self.chain = self.chain.after(data)
        self._created_ms[number] = self._ground.scheduler.now_ms if came_ms is None else came_ms
        try:
            state = self._reader.follow(before.state, data)
            entry = self._load(self._reader.decode(data, number)) if fits else None
        except BlockstoreError as error:
            raise Violation(f"entry {number} is no history: {error}") from error
        if entry is None:
            self._void(before, number, state)
            return
        if self._ground.crossing and self._ground.replacements is not None:
            self._ground.replacements.bring_back(block.ulid for block in entry.add)
        self._check_blocks(entry, state)
        rows = self.meaning.follow(before, entry, state, self.versions)
        self._least_retention_s = min(
            self._least_retention_s, state.definition.properties.history_retention_s
        )
        if any(
            not self.is_pinned_whole(before.state.tags[name])
            for name in before.state.tags.keys() - state.tags
        ):
            self.mended_step = self._ground.scheduler.steps
        self.latest = self.versions[number] = Version(state, rows)
        self._event(f"entry: {entry.operation}")
        for ulid in entry.remove:
            if ulid not in state.blocks:
                self._removed_at[ulid] = number
        self._follow_tags(before.state, entry)

    def _void(self, before: Version, number: int, state: State) -> None:
        """An entry that names another one than that below it: the product must say so too."""
        kept = (
            "blocks",
            "accounted",
            "epochs",
            "batches",
            "tags",
            "horizon",
            "floor",
            "next_row_id",
            "table",
        )
        changed = [name for name in kept if getattr(state, name) != getattr(before.state, name)]
        if changed:
            raise Violation(
                f"entry {number} names another entry than the one below it, and changes "
                f"{', '.join(changed)}"
            )
        self.latest = self.versions[number] = Version(state, before.rows)
        self._event("entry void")

    def is_pinned_whole(self, version: int) -> bool:
        """Whether a tag of that version can be read: not where the version was collected before the
        tag came."""
        return version > self.boundary or bool(
            list(self._ground.store.list(checkpoint_key(version)))
        )

    def _stray(self, number: int, data: bytes) -> None:
        if not self._ground.stale:
            raise Violation(f"entry {number} was created after version {self.latest.state.version}")
        self.strays[number] = self._ground.scheduler.now_ms, data
        self._event("entry above a gap")

    def _is_right(self, known: Version | None, data: bytes, version: int) -> bool:
        """Whether the bytes are the checkpoint of a version that there is."""
        return known is not None and holds_state(self._decoded(data, version), known.state)

    def _decoded(self, data: bytes, version: int) -> State:
        return decode_checkpoint(
            data, version=version, leaves=lambda: leaves_of(self._ground.store)
        )

    def leaf_changed(self, change: Changed) -> None:
        """A leaf of checkpoints was written, or deleted."""
        if change.after is None:
            self._event("leaf collected")
            check_gone(
                self._ground.store,
                change.key,
                self.boundary,
                self.kept.values(),
                self.false_checkpoints,
            )

    def _load(self, entry: Entry) -> Entry:
        """The entry with long lists of sources read from their files."""
        return replace(entry, add=tuple(self._with_sources(block) for block in entry.add))

    def _with_sources(self, block: AddedBlock) -> AddedBlock:
        if not isinstance(block.sources, SourcesFile):
            return block
        data = self._ground.store.get(object_key(block.ulid, sources_path())).data
        return block.with_sources(decode_sources(data, block.ulid))

    def _check_blocks(self, entry: Entry, state: State) -> None:
        """The blocks that it leaves live are complete, and have the columns of their schemas."""
        for ulid in sorted({*entry.remove, *entry.excepts, *(block.ulid for block in entry.add)}):
            new = state.blocks.get(ulid)
            if new is not None:
                directory = self._directories.by_ulid.get(ulid)
                if directory is None or not directory.complete:
                    raise Violation(f"entry {entry.id} names block {ulid}, which is not complete")
                columns = self._directories.known(ulid).columns
                if columns != state.definition.schemas[new.meta.schema_id].names:
                    raise Violation(
                        f"entry {entry.id} names block {ulid}, whose columns {columns} are not "
                        "those of its schema"
                    )

    def _follow_tags(self, before: State, entry: Entry) -> None:
        for tag, version in entry.tags.items():
            if version is None:
                self.kept.pop(tag, None)
            elif version > self.boundary or version in self.kept.values():
                self.kept[tag] = version
            else:
                self._event("tag came too late")

    def _event(self, name: str) -> None:
        self._ground.report.count(Section.EVENTS, name)

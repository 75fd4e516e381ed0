"""The blocks' directories as they really are.

Promises:
- R1: what was uploaded is never edited: a PUT over an object of a block puts the same bytes, or the
  meta.json of another attempt at the same write, which arrived late and names the same rows.
- R8: nothing of a block goes but its marks, unless a deletion mark is on it and is ``delete_delay``
  old. On a table without an index the meta.json of a young merge may go: its rows are in other
  blocks, or a person hid them (3.2).
- A complete block holds each of its rows once, and its chunks are what its meta.json says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from blockstore.errors import BlockstoreError
from blockstore.format.block import BlockMeta
from blockstore.format.marks import decode_deletion_mark
from blockstore.format.meta import decode
from blockstore.names import DELETION_MARK, META, NO_COMPACT_MARK, object_key, sources_path
from blockstore.simulation.ground import Ground
from blockstore.simulation.report import Section
from blockstore.simulation.rows import Content, read_content
from blockstore.simulation.store import Changed
from blockstore.simulation.versions import VersionContent, read_versions
from blockstore.simulation.violation import Violation

_MARKS = (DELETION_MARK, NO_COMPACT_MARK)


@dataclass(slots=True)
class Directory:
    """One block's directory."""

    ulid: str
    objects: dict[str, int] = field(default_factory=dict)
    """Sizes by path."""
    meta: BlockMeta | None = None
    complete: bool = False
    meta_ms: int = 0
    """When meta.json was last written, by a copy of its PUT that came late as well."""
    marked_ms: int = 0
    reason: str = ""

    @property
    def is_marked(self) -> bool:
        """Whether a deletion mark is on it."""
        return DELETION_MARK in self.objects


class Directories:
    """All of them, kept up to date with every change."""

    def __init__(self, ground: Ground, waiting: Callable[[], AbstractSet[int]]) -> None:
        self._ground = ground
        self._waiting = waiting
        self._delete_delay_ms = ground.properties.delete_delay_s * 1000
        self.by_ulid: dict[str, Directory] = {}
        self.holders: dict[str, set[str]] = {}
        """Complete blocks by the sources that they account for."""
        self.write_of: dict[str, int] = {}
        """The write that a source is."""
        self.forced: set[str] = set()
        """Blocks that a person had removed at once."""
        self._contents: dict[str, Content | VersionContent] = {}

    def known(self, ulid: str) -> Content | VersionContent:
        """What the block holds, or held when it was complete."""
        found = self._contents.get(ulid)
        if found is None:
            raise Violation(f"block {ulid} is named, and was never complete")
        return found

    def content(self, ulid: str) -> Content:
        """The same of rows without an identity."""
        found = self.known(ulid)
        assert isinstance(found, Content)
        return found

    def versions(self, ulid: str) -> VersionContent:
        """The same of rows with an identity."""
        found = self.known(ulid)
        assert isinstance(found, VersionContent)
        return found

    def lain_since_ms(self, write: int) -> int:
        """Since when a complete block of the write has lain there as it is; 0 if none does."""
        held = [
            self.by_ulid[ulid].meta_ms
            for source, one in self.write_of.items()
            if one == write
            for ulid in self.holders.get(source, ())
        ]
        return min(held, default=0)

    def written_anew(self) -> None:
        """Every object counts as written now."""
        now_ms = self._ground.scheduler.now_ms
        for directory in self.by_ulid.values():
            directory.meta_ms = now_ms if directory.meta_ms else 0
            directory.marked_ms = now_ms if directory.marked_ms else 0

    def changed(self, ulid: str, path: str, change: Changed) -> Directory:
        """Record a change; returns the directory, and its completeness as it is now."""
        directory = self.by_ulid.setdefault(ulid, Directory(ulid))
        if change.after is None:
            self._deleted(directory, path)
        else:
            self._put(directory, path, change)
        self._complete(directory)
        if not directory.objects:
            del self.by_ulid[ulid]
            self._event("removed")
        return directory

    def _put(self, directory: Directory, path: str, change: Changed) -> None:
        assert change.after is not None
        if path == META:
            directory.meta_ms = self._ground.scheduler.now_ms
        edited = change.before is not None and change.before != change.after
        if edited and directory.complete and path not in (*_MARKS, META):
            raise Violation(f"{change.key} was edited (R1)")
        if edited and path == META:
            self._meta_replaced(directory, change)
            return
        directory.objects[path] = len(change.after)
        if path == META:
            directory.meta = self._meta(directory.ulid, change.after)
        if path == DELETION_MARK and change.before is None:
            directory.marked_ms = self._ground.scheduler.now_ms
            directory.reason = str(decode_deletion_mark(change.after, ulid=directory.ulid).reason)
            self._event(f"marked {directory.reason}")

    def _meta_replaced(self, directory: Directory, change: Changed) -> None:
        """A resumed write has two meta.json on the way: the later one must say the same."""
        assert change.after is not None
        directory.objects[META] = len(change.after)
        directory.meta = meta = self._meta(directory.ulid, change.after)
        if directory.complete:
            if (
                not self._is_complete(directory)
                or self._read(meta).by_source != self._contents[meta.ulid].by_source
            ):
                raise Violation(f"{change.key} was edited (R1)")
            self._contents[meta.ulid] = self._read(meta)
        self._event("meta.json of an earlier attempt arrived")

    def _deleted(self, directory: Directory, path: str) -> None:
        if path not in _MARKS:
            self._check_age(directory, path)
        del directory.objects[path]
        if path == META:
            directory.meta = None
        if path == DELETION_MARK and any(left not in _MARKS for left in directory.objects):
            self._event(f"withdrawn {directory.reason}")

    def _check_age(self, directory: Directory, path: str) -> None:
        key = object_key(directory.ulid, path)
        if directory.ulid in self.forced:
            return
        if path == META and self._is_taken_away(directory):
            self._event("merge taken away")
            return
        if not directory.is_marked:
            raise Violation(f"{key} was deleted and the block has no deletion mark (R8)")
        age_ms = self._ground.scheduler.now_ms - directory.marked_ms
        if age_ms < self._delete_delay_ms:
            raise Violation(
                f"{key} was deleted {age_ms / 1000:.0f} s after the mark, before delete_delay (R8)"
            )

    def _is_taken_away(self, directory: Directory) -> bool:
        """Whether it is a merge that came late, and no process misses it."""
        ground, meta = self._ground, directory.meta
        young = ground.scheduler.now_ms - directory.meta_ms < self._delete_delay_ms
        if ground.kind.has_index or meta is None or meta.level == 1 or not young:
            return False
        waiting = self._waiting()
        alone = [
            source
            for source in meta.sources
            if not self.holders.get(source, set()) - {directory.ulid}
        ]
        writes = {self.write_of[source] for source in alone}
        return all(
            write not in waiting or ground.expired(ground.ledger.writes[write].at_ms)
            for write in writes
        )

    def _meta(self, ulid: str, data: bytes) -> BlockMeta:
        store = self._ground.store
        try:
            return decode(
                data,
                ulid=ulid,
                load_sources=lambda: store.get(object_key(ulid, sources_path())).data,
            )
        except BlockstoreError as error:
            raise Violation(f"block {ulid} has a meta.json that cannot be read: {error}") from error

    def _complete(self, directory: Directory) -> None:
        meta = directory.meta
        complete = self._is_complete(directory)
        if complete == directory.complete:
            return
        directory.complete = complete
        if not complete:
            for source in self._contents[directory.ulid].meta.sources:
                self.holders[source].discard(directory.ulid)
            return
        assert meta is not None
        known = self._contents.get(directory.ulid)
        if known is None or known.meta != meta:
            self._contents[directory.ulid] = self._read(meta)
        for source in meta.sources:
            self.holders.setdefault(source, set()).add(directory.ulid)

    def _is_complete(self, directory: Directory) -> bool:
        meta, objects = directory.meta, directory.objects
        return meta is not None and all(objects.get(file.path) == file.bytes for file in meta.files)

    def _read(self, meta: BlockMeta) -> Content | VersionContent:
        for file in meta.files:
            data = self._ground.store.get(object_key(meta.ulid, file.path)).data
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise Violation(
                    f"block {meta.ulid}: {file.path} has another SHA-256 than its meta.json says"
                )
        read = read_versions if self._ground.kind.has_identity else read_content
        content: Content | VersionContent = read(self._ground.store, meta)
        for source in content.by_source:
            if source not in meta.sources:
                raise Violation(
                    f"block {meta.ulid} holds rows of {source}, which it does not account for"
                )
        for source, writes in content.writes.items():
            for write in writes:
                if self.write_of.setdefault(source, write) != write:
                    raise Violation(
                        f"block {meta.ulid} holds rows of write {write} under another write's "
                        f"source {source}"
                    )
        return content

    def _event(self, name: str) -> None:
        self._ground.report.count(Section.EVENTS, name)

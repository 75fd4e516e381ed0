"""The blocks of a replica: copied completely, under their own names, the oldest first.

Invariants:
- Files first, also those that its rows name, then the marks, then meta.json: a listing of the
  replica shows a block complete and marked as at the source, or not at all. After meta.json the
  listing must have every file, as in R3.
- Every byte is hashed while it is copied. A file that exists already is read back before it is
  trusted.
- A replica's block keeps its name. Where R3 would continue under a new ULID, this raises an error:
  some other process cleans the replica.
- Marks are mirrored: placed where the source has one, withdrawn where the source has withdrawn it.
  A block that the source has removed stays: only a compactor removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.replicate.files import FileCopier
from blockstore.care.transfer import Advance, holds, send_file, send_segments, sizes_in
from blockstore.errors import Conflict, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.meta import decode
from blockstore.lifecycle.listing import Directory, Listing
from blockstore.lifecycle.mark import withdraw_deletion, withdraw_no_compact
from blockstore.names import (
    DELETION_MARK,
    META,
    NO_COMPACT_MARK,
    meta_key,
    object_key,
    sources_path,
)
from blockstore.world import World

_GROUP = 64
"""This many blocks are copied at the same time, and held in memory."""
_MARKS = {DELETION_MARK: withdraw_deletion, NO_COMPACT_MARK: withdraw_no_compact}


class Gone(Exception):
    """A block is no longer in the source; the text is its ULID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMeta:
    """A block of the source: the bytes of its meta.json, and the decoded value."""

    data: bytes
    meta: BlockMeta


class BlockCopier:
    """Copies blocks between one listing of the source and one of the target; counts what it did."""

    def __init__(
        self,
        source: ReadBucket,
        target: Bucket,
        world: World,
        here: Listing,
        there: Listing,
        advance: Advance,
    ) -> None:
        self._source = source
        self._target = target
        self._world = world
        self._here = here.directories
        self._there = there.directories
        self._advance = advance
        self._complete = {ulid for ulid, one in self._there.items() if META in one.objects}
        self._files = FileCopier(source, target, world)
        self.copied: list[str] = []
        self.bytes = 0
        self.marked = 0
        self.withdrawn = 0

    def complete(self, ulids: Iterable[str]) -> None:
        """Make each of these blocks complete in the target.

        Raises Gone if the source no longer has it, and Corrupt, with the block's name, if it is
        damaged.
        """
        wanted = iter(sorted(set(ulids) - self._complete))
        while group := list(islice(wanted, _GROUP)):
            read = self._world.pool.map(self.read, group)
            self._world.pool.map(
                self._send, [(one.meta, file) for one in read for file in one.meta.files]
            )
            self._world.pool.map(self._send_segments, [one.meta for one in read])
            for one in read:
                if not self._files.complete(one.meta):
                    raise Gone(one.meta.ulid)
                self._finish(one)

    def mirror_marks(self) -> None:
        """Give the blocks that both have the marks of the source."""
        for ulid in sorted(self._complete):
            directory = self._here.get(ulid)
            if directory is None or META not in directory.objects:
                continue  # being removed at the source, or gone: its marks have no meaning
            there = self._there.get(ulid, Directory(ulid=ulid, objects={}))
            for path, withdraw in _MARKS.items():
                if path in directory.objects:
                    self._mirror(directory, there, path)
                elif path in there.objects:
                    withdraw(self._target, self._world, ulid)
                    self.withdrawn += 1

    @property
    def there(self) -> frozenset[str]:
        """Return the blocks that are complete in the target."""
        return frozenset(self._complete)

    def left_behind(self) -> int:
        """Count the complete blocks of the target that the source no longer lists."""
        return sum(ulid not in self._here for ulid in self._complete)

    def read(self, ulid: str) -> ReadMeta:
        """Read a block's meta.json from the source. Raises Gone or Corrupt."""
        try:
            data = self._source.get(meta_key(ulid)).data
            meta = decode(
                data,
                ulid=ulid,
                load_sources=lambda: self._source.get(object_key(ulid, sources_path())).data,
            )
        except ObjectMissing:
            raise Gone(ulid) from None
        return ReadMeta(data=data, meta=meta)

    def _send(self, wanted: tuple[BlockMeta, ChunkFile]) -> None:
        meta, file = wanted
        there = self._there.get(meta.ulid)
        found = None if there is None else there.objects.get(file.path)
        if holds(self._target, meta.ulid, file, None if found is None else found.size):
            self._advance(file.bytes)
            return
        try:
            send_file(
                self._source,
                self._target,
                meta.ulid,
                file,
                stored_ulid=meta.ulid,
                advance=self._advance,
            )
        except ObjectMissing:
            raise Gone(meta.ulid) from None

    def _send_segments(self, meta: BlockMeta) -> None:
        there = self._there.get(meta.ulid)
        if there is None or not set(meta.paths) <= there.objects.keys():
            send_segments(self._source, self._target, meta, origin=meta.ulid)

    def _finish(self, read: ReadMeta) -> None:
        """Copy the block's marks and its meta.json, and check the listing."""
        ulid = read.meta.ulid
        directory = self._here.get(ulid, Directory(ulid=ulid, objects={}))
        nothing = self._there.get(ulid, Directory(ulid=ulid, objects={}))
        for path in _MARKS:
            if path in directory.objects:
                self._mirror(directory, nothing, path)
        self._target.put(meta_key(ulid), read.data)
        _check_listed(read.meta, sizes_in(self._target, ulid), self._target)
        self._complete.add(ulid)
        self.copied.append(ulid)
        self.bytes += sum(file.bytes for file in read.meta.files)

    def _mirror(self, here: Directory, there: Directory, path: str) -> None:
        """Copy a mark, unless the target has the same one."""
        key = object_key(here.ulid, path)
        mine, other = here.objects[path], there.objects.get(path)
        if other is not None and other.size == mine.size and other.modified_ms >= mine.modified_ms:
            return
        try:
            data = self._source.get(key).data
        except ObjectMissing:
            return  # withdrawn since it was listed
        if other is not None and self._target.get(key).data == data:
            return
        self._target.put(key, data)
        self.marked += 1


def _check_listed(meta: BlockMeta, sizes: Mapping[str, int], target: ReadBucket) -> None:
    for file in meta.files:
        if sizes.get(file.path) != file.bytes:
            raise Conflict(
                f"block {meta.ulid}: {file.path} was copied to {target.url} and is now missing or "
                "changed: another process writes or cleans there; stop it, because only replicate "
                "may change a replica, and replicate again"
            )

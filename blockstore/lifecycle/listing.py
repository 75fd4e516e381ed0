"""One look at a table's directories: what a listing shows of them, and what their meta.json and
marks say.

Rules:
- One LIST is one look. If it fails midway, nothing is decided: the error goes to the caller (R4).
  In whatever order a store lists, the look is the same.
- A meta.json that does not parse, has an unknown version or contradicts the listing is damage,
  reported with its kind and its reason; so is a mark that cannot be read. Damage of one block is
  not an error of the look.
- What was listed and is gone by now is a block being removed: its directory is returned as the
  listing without it.
- What was read is good for as long as the listing shows the object with the same size and
  LastModified (or ETag): an uploaded block is never edited (R1), and the listing is never trusted
  less than what was read before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from blockstore.bucket.api import ObjectInfo, ReadBucket, is_there
from blockstore.errors import Corrupt, NewerFormat, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.marks import MarkReason, decode_deletion_mark
from blockstore.format.meta import load_meta
from blockstore.index.state import State
from blockstore.lifecycle.standing import standing_of
from blockstore.lifecycle.states import Evidence
from blockstore.names import (
    DELETION_MARK,
    META,
    NO_COMPACT_MARK,
    deletion_mark_key,
    meta_key,
    object_key,
    split_block_key,
)
from blockstore.world import World

T = TypeVar("T")

Stamp = tuple[int, int, str | None]
"""What distinguishes two objects of one name: size, LastModified and, where listings give it,
ETag."""


class Damage(StrEnum):
    """Why a block is malformed."""

    UNREADABLE = "unreadable"
    """Its meta.json does not parse or contradicts the format."""
    NEWER = "newer"
    """Its meta.json has a version that this release does not know."""
    MISSING = "missing"
    """A file that it lists is not there."""
    SIZE = "size"
    """A file that it lists has another size."""
    MARK = "mark"
    """Its deletion mark cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A block's directory as one listing shows it."""

    ulid: str
    objects: Mapping[str, ObjectInfo]
    """By path inside the directory."""

    @property
    def newest_ms(self) -> int:
        """LastModified of its newest object."""
        return max((found.modified_ms for found in self.objects.values()), default=0)

    @property
    def no_compact(self) -> bool:
        """Whether a mark keeps the compactor away; its bytes do not matter."""
        return NO_COMPACT_MARK in self.objects

    def difference(self, meta: BlockMeta) -> str | None:
        """How the listing contradicts ``meta``, as a clause;

        None if it holds every file with its size.
        """
        found = self._contradiction(meta)
        return None if found is None else found[1]

    def _contradiction(self, meta: BlockMeta) -> tuple[Damage, str] | None:
        for file in meta.files:
            found = self.objects.get(file.path)
            if found is None:
                return Damage.MISSING, f"{file.path} is missing"
            if found.size != file.bytes:
                return Damage.SIZE, f"{file.path} has {found.size:,} bytes, expected {file.bytes:,}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One complete look at a table's directories."""

    directories: Mapping[str, Directory]
    now_ms: int
    """The store's clock, read before the look: ages are never overstated."""
    objects: int = 0
    """All that was listed, also what belongs to no block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A directory with what its meta.json and its mark say."""

    directory: Directory
    meta: BlockMeta | None = None
    damage: str | None = None
    kind: Damage | None = None
    """Of which kind the damage is."""
    mark: MarkReason | None = None

    def evidence(self, state: State | None, *, covered: bool = False) -> Evidence:
        """What decides the block's state."""
        objects = self.directory.objects
        return Evidence(
            ulid=self.directory.ulid,
            newest_ms=self.directory.newest_ms,
            meta=self.meta,
            meta_modified_ms=objects[META].modified_ms if META in objects else None,
            damage=self.damage,
            mark=self.mark,
            mark_modified_ms=objects[DELETION_MARK].modified_ms if DELETION_MARK in objects else 0,
            standing=standing_of(self.directory.ulid, self.meta, state),
            covered=covered,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of one object that the listing showed under ``stamp``: a value, or why it has
    none."""

    stamp: Stamp
    value: BlockMeta | MarkReason | None
    kind: Damage | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was read of a directory."""

    listed: Directory
    """As the listing showed it."""
    found: Found | None
    """What followed from it;

    None where something vanished during the look, so that the next one looks again.
    """
    meta: Reading | None = None
    mark: Reading | None = None


def list_directories(bucket: ReadBucket) -> Listing:
    """One LIST of the table, by directory; what belongs to no block is left to other listings."""
    now_ms = bucket.now_ms()
    objects: dict[str, dict[str, ObjectInfo]] = {}
    count = 0
    for count, found in enumerate(bucket.list(), start=1):  # noqa: B007
        place = split_block_key(found.key)
        if place is not None:
            objects.setdefault(place[0], {})[place[1]] = found
    return gathered(objects, now_ms=now_ms, count=count)


def gathered(
    objects: Mapping[str, Mapping[str, ObjectInfo]], *, now_ms: int, count: int
) -> Listing:
    """The listing of these objects, by directory and path."""
    directories = {
        ulid: Directory(ulid=ulid, objects=inside) for ulid, inside in sorted(objects.items())
    }
    return Listing(directories=directories, now_ms=now_ms, objects=count)


def look(
    bucket: ReadBucket,
    world: World,
    listing: Listing,
    *,
    skip: Callable[[str], bool] = lambda ulid: False,
    loaded: Mapping[str, BlockMeta] | None = None,
) -> dict[str, Found]:
    """Read what the directories of a listing say, side by side; those to ``skip`` are left out.

    ``loaded`` are metas that were read before: an uploaded block is never edited (R1).
    """
    known = loaded or {}

    def one(directory: Directory) -> Found:
        meta = known.get(directory.ulid)
        info = directory.objects.get(META)
        before = None if meta is None or info is None else Reading(stamp_of(info), meta)
        return look_at(bucket, directory, Seen(directory, None, meta=before))[0]

    wanted = [directory for ulid, directory in listing.directories.items() if not skip(ulid)]
    return {found.directory.ulid: found for found in world.pool.map(one, wanted)}


def look_at(bucket: ReadBucket, directory: Directory, before: Seen | None) -> tuple[Found, Seen]:
    """What a directory says, and what to remember of it;

    ``before`` is what was remembered of an earlier look.
    """
    if before is not None and before.found is not None and before.listed == directory:
        return before.found, before
    listed, known = directory, before or Seen(directory, None)
    mark = _reading(bucket, directory, DELETION_MARK, known.mark, _read_mark)
    known_meta = known.meta
    if mark is None and DELETION_MARK in directory.objects:
        # Withdrawn, or the last of a block that was removed meanwhile (R7): its meta.json, read
        # again, shows which.
        directory, known_meta = _without(directory, DELETION_MARK), None
    meta = _reading(bucket, directory, META, known_meta, _read_meta)
    if meta is None and META in directory.objects:
        directory = _without(directory, META)
    found = _found(bucket, directory, meta, mark)
    # A second look may lag behind the first: what it showed holds for this time only.
    settled = found.directory == listed
    return found, Seen(listed, found if settled else None, meta, mark)


def is_read(directory: Directory, before: Seen | None) -> bool:
    """Whether all that a directory says was read before, so that looking at it costs no request."""
    if before is not None and before.found is not None and before.listed == directory:
        return True
    known = before or Seen(directory, None)
    return all(
        path not in directory.objects or _is_same(directory.objects[path], reading)
        for path, reading in ((META, known.meta), (DELETION_MARK, known.mark))
    )


def stamp_of(info: ObjectInfo) -> Stamp:
    """What a listing says of an object's identity."""
    return info.size, info.modified_ms, info.etag


def _found(
    bucket: ReadBucket, directory: Directory, meta: Reading | None, mark: Reading | None
) -> Found:
    reason = mark.value if mark is not None and isinstance(mark.value, MarkReason) else None
    parsed = meta.value if meta is not None and isinstance(meta.value, BlockMeta) else None
    bad = next((reading for reading in (mark, meta) if reading is not None and reading.kind), None)
    if bad is not None:
        return Found(
            directory=directory, meta=parsed, damage=bad.damage, kind=bad.kind, mark=reason
        )
    contradiction = None if parsed is None else directory._contradiction(parsed)
    if contradiction is not None:
        # A listing of many pages may pass a chunk's name before it is written and show a meta.json
        # written later.
        again = _list_one(bucket, directory.ulid)
        if again is None or META not in again.objects or parsed is None:
            return Found(directory=_without(directory, META), mark=reason)
        directory, contradiction = again, again._contradiction(parsed)
    if contradiction is not None:
        return Found(
            directory=directory,
            meta=parsed,
            damage=contradiction[1],
            kind=contradiction[0],
            mark=reason,
        )
    return Found(directory=directory, meta=parsed, mark=reason)


def _reading(
    bucket: ReadBucket,
    directory: Directory,
    path: str,
    before: Reading | None,
    read: Callable[[ReadBucket, str, Stamp], Reading | None],
) -> Reading | None:
    """What the object of this path says; None if it is not there, by the listing or by now.

    Damage is not remembered on its own: what repairs it may be another object than the one that was
    read.
    """
    info = directory.objects.get(path)
    if info is None:
        return None
    return before if _is_same(info, before) else read(bucket, directory.ulid, stamp_of(info))


def _is_same(info: ObjectInfo, before: Reading | None) -> bool:
    return before is not None and before.stamp == stamp_of(info) and before.kind is None


def _read_mark(bucket: ReadBucket, ulid: str, stamp: Stamp) -> Reading | None:
    try:
        data = bucket.get(deletion_mark_key(ulid)).data
        return Reading(stamp, decode_deletion_mark(data, ulid=ulid).reason)
    except ObjectMissing:
        return None
    except Corrupt as error:
        return Reading(stamp, None, Damage.MARK, str(error))


def _read_meta(bucket: ReadBucket, ulid: str, stamp: Stamp) -> Reading | None:
    try:
        return Reading(stamp, load_meta(bucket, ulid))
    except ObjectMissing as error:
        # Its list of sources may be what is missing.
        return (
            Reading(stamp, None, Damage.MISSING, str(error))
            if is_there(bucket, meta_key(ulid))
            else None
        )
    except NewerFormat as error:
        return Reading(stamp, None, Damage.NEWER, str(error))
    except Corrupt as error:
        return Reading(stamp, None, Damage.UNREADABLE, str(error))


def _list_one(bucket: ReadBucket, ulid: str) -> Directory | None:
    prefix = object_key(ulid, "")
    objects = {found.key.removeprefix(prefix): found for found in bucket.list(prefix)}
    return Directory(ulid=ulid, objects=objects) if objects else None


def _without(directory: Directory, path: str) -> Directory:
    return replace(
        directory, objects={name: info for name, info in directory.objects.items() if name != path}
    )

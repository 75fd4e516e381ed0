"""The list path: what a listing of the bucket shows, and the snapshot that follows from it.

Rules:
- One LIST is one look. If it fails midway, nothing is decided: the error goes to the caller (R4).
- LIST first, *then* the index's state (3.2): a block that moves from the listing into the index in between is then
  known to the state and counted there, never missed and never twice.
- A snapshot is the live blocks of the state, and the exact cover of listed, complete, aged ``visible_by: age`` blocks,
  read for the sources that lie above the floor and that the state does not account for.
- A malformed block is left out and, where nothing that is read accounts for its sources, named (R4).
- The index answers for what it knows: the meta.json of such a block is not fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from blockstore.bucket.api import ObjectInfo, ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.loading import load_meta
from blockstore.format.marks import MarkReason, decode_deletion_mark
from blockstore.format.properties import Properties
from blockstore.index.state import State
from blockstore.lifecycle.cover import Cover, cover, hide_marked, restrict
from blockstore.lifecycle.standing import is_known, standing_of, wanted_from_listing
from blockstore.lifecycle.states import Evidence, aged
from blockstore.names import DELETION_MARK, META, deletion_mark_key, meta_key, object_key, split_block_key
from blockstore.world import World

__all__ = [
    "Directory",
    "Found",
    "Listed",
    "Listing",
    "discover_snapshot",
    "list_directories",
    "list_snapshot",
    "look",
]


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

    def difference(self, meta: BlockMeta) -> str | None:
        """How the listing contradicts ``meta``, as a clause; None if it holds every file with its size."""
        for file in meta.files:
            found = self.objects.get(file.path)
            if found is None:
                return f"{file.path} is missing"
            if found.size != file.bytes:
                return f"{file.path} has {found.size:,} bytes, expected {file.bytes:,}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One complete look at a table's directories."""

    directories: Mapping[str, Directory]
    now_ms: int
    """The store's clock, read before the look: ages are never overstated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A directory with what its meta.json and its mark say."""

    directory: Directory
    meta: BlockMeta | None = None
    damage: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What the list path adds to the live blocks of a state."""

    cover: Cover
    malformed: Mapping[str, str]
    """Blocks left out whose sources nothing that is read accounts for: ULID to the damage."""


def list_directories(bucket: ReadBucket) -> Listing:
    """One LIST of the table, by directory; what is no block's is left to those who list for it."""
    now_ms = bucket.now_ms()
    objects: dict[str, dict[str, ObjectInfo]] = {}
    for found in bucket.list():
        place = split_block_key(found.key)
        if place is not None:
            objects.setdefault(place[0], {})[place[1]] = found
    directories = {ulid: Directory(ulid=ulid, objects=inside) for ulid, inside in sorted(objects.items())}
    return Listing(directories=directories, now_ms=now_ms)


def look(
    bucket: ReadBucket,
    world: World,
    listing: Listing,
    *,
    skip: Callable[[str], bool] = lambda ulid: False,
    loaded: Mapping[str, BlockMeta] | None = None,
) -> dict[str, Found]:
    """Read what the directories of a listing say, side by side; those to ``skip`` are left out.

    ``loaded`` are metas that were read before: an uploaded block is never edited (R1). A meta.json or a mark that is
    gone by now is a block being removed: its directory is then answered as the listing without it.
    """
    known = loaded or {}
    wanted = [directory for ulid, directory in listing.directories.items() if not skip(ulid)]
    found = world.pool.map(lambda directory: _look_at(bucket, directory, known.get(directory.ulid)), wanted)
    return {one.directory.ulid: one for one in found}


def list_snapshot(
    found: Mapping[str, Found], state: State | None, properties: Properties, now_ms: int
) -> Listed:
    """What the list path adds to the live blocks of ``state``, which was read after the listing. Pure."""
    standing = {ulid: one for ulid, one in found.items() if not is_known(ulid, state)}
    old = {ulid: one for ulid, one in standing.items() if aged(one.evidence(None), now_ms, properties)}
    ready = [one for one in old.values() if one.damage is None and one.meta is not None]
    metas = [one.meta for one in ready if one.meta is not None and one.meta.visible_by is VisibleBy.AGE]
    below = (lambda ulid: False) if state is None else state.below_floor
    chosen = cover(meta for meta in metas if not below(meta.ulid))
    marks = {ulid: one.mark for ulid, one in standing.items() if one.mark is not None}
    kept = restrict(hide_marked(chosen, marks), wanted_from_listing(state))
    damaged = {ulid: one for ulid, one in old.items() if one.damage is not None}
    return Listed(cover=kept, malformed=_unaccounted(damaged, kept, state))


def discover_snapshot(
    bucket: ReadBucket,
    world: World,
    read_state: Callable[[], State | None],
    *,
    properties: Properties | None = None,
) -> tuple[State | None, Listed]:
    """The list path in its one right order: LIST, then the state (``read_state``; None without an index), then what
    the state does not answer for. ``properties`` are those of a table without an index."""
    listing = list_directories(bucket)
    state = read_state()
    delays = properties or (Properties() if state is None else state.definition.properties)
    found = look(bucket, world, listing, skip=lambda ulid: is_known(ulid, state))
    return state, list_snapshot(found, state, delays, listing.now_ms)


def _unaccounted(damaged: Mapping[str, Found], kept: Cover, state: State | None) -> dict[str, str]:
    """The damaged blocks that may hold rows which nobody else holds."""
    read = kept.sources
    wanted = wanted_from_listing(state)
    named = {}
    for ulid, one in damaged.items():
        sources: Iterable[str] = (ulid,) if one.meta is None else one.meta.sources
        if one.meta is not None and one.meta.visible_by is VisibleBy.INDEX:
            continue
        if any(wanted(source) and source not in read for source in sources):
            named[ulid] = one.damage or ""
    return named


def _look_at(bucket: ReadBucket, directory: Directory, loaded: BlockMeta | None) -> Found:
    mark = None
    try:
        if DELETION_MARK in directory.objects:
            mark = _mark_reason(bucket, directory.ulid)
    except ObjectMissing:
        directory = _without(directory, DELETION_MARK)
    except Corrupt as error:
        return Found(directory=directory, damage=str(error))
    if META not in directory.objects:
        return Found(directory=directory, mark=mark)
    try:
        meta = loaded if loaded is not None else load_meta(bucket, directory.ulid)
    except ObjectMissing as error:
        if _exists(bucket, meta_key(directory.ulid)):
            return Found(directory=directory, mark=mark, damage=str(error))
        return Found(directory=_without(directory, META), mark=mark)
    except Corrupt as error:
        return Found(directory=directory, mark=mark, damage=str(error))
    damage = directory.difference(meta)
    if damage is not None:
        # A listing of many pages may pass a chunk's name before it is written and show a meta.json written later.
        again = _list_one(bucket, directory.ulid)
        if again is None or META not in again.objects:
            return Found(directory=_without(directory, META), mark=mark)
        directory, damage = again, again.difference(meta)
    return Found(directory=directory, mark=mark, meta=meta, damage=damage)


def _mark_reason(bucket: ReadBucket, ulid: str) -> MarkReason:
    return decode_deletion_mark(bucket.get(deletion_mark_key(ulid)).data, ulid=ulid).reason


def _exists(bucket: ReadBucket, key: str) -> bool:
    try:
        bucket.head(key)
    except ObjectMissing:
        return False
    return True


def _list_one(bucket: ReadBucket, ulid: str) -> Directory | None:
    prefix = object_key(ulid, "")
    objects = {found.key.removeprefix(prefix): found for found in bucket.list(prefix)}
    return Directory(ulid=ulid, objects=objects) if objects else None


def _without(directory: Directory, path: str) -> Directory:
    return replace(
        directory, objects={name: info for name, info in directory.objects.items() if name != path}
    )

"""Removing files that no row names: by mark and delay, after a look at what blocks name.

Rules:
- A file is named as long as a complete block in the table's folder names it, whether it is live, is
  kept for a version or a tag, holds history, or waits for its own removal. Which files a block
  names is read from its file columns, once a process.
- A block whose file columns cannot be read decides nothing: no file is marked or removed until it
  is repaired or removed. So does one that a version or a tag names, and that is not complete.
- A file without a name is marked once its id and its newest object are both ``partial_delay`` old.
  A mark on a file that has a name is withdrawn at once.
- A marked file goes once the mark is ``delete_delay`` old, the file still has no name, and the
  **horizon** that was known before the blocks were listed is an hour above the mark's time. The
  pass raises the horizon for it; the next pass removes.
- ``file.json`` goes first, then the bytes, the mark last. A pass that died anywhere is finished by
  a later one.
- A table that never had a column of files costs nothing. One that has, or that was created where a
  table was dropped that may have had one, costs a LIST of ``files/`` a pass; blocks are read only
  while some file is old enough to be marked.

Why no row loses its file. Let a block B name a file that a pass removes, and let the pass know the
horizon H, list the blocks, and find no name. H is above the mark's time.
- B was committed before the pass knew H: its directory was complete then, so the listing shows it,
  unless it was removed already. Its rows may live on in a merge of it; that merge, or what followed
  it, is complete in the listing, and names the file.
- B was committed later: then B's ULID is above H, or the commit was refused (3.3 step 2). So B's
  ULID was drawn after the mark was placed, and B's writer looked at the file after that: it found
  the mark, or no ``file.json``, and refused the row. The hour is for clocks that differ. A writer
  looks at no mark where the file's id is at most 24 hours older than B's ULID; then the mark, which
  comes 48 hours after the id, is above B's ULID, and so is H: the commit is refused.
- B's writer copied the handle from the row that it replaces: nothing touched that row since it was
  read, so the row's block named the file all the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import orjson

from blockstore.bucket.api import Bucket, ObjectInfo, ReadBucket
from blockstore.errors import BlockstoreError, Corrupt, ObjectMissing
from blockstore.files.named import ever_had_files, named_by_block
from blockstore.format.block import BlockMeta
from blockstore.format.features import FORMAT_VERSION
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize
from blockstore.freshness import Freshness
from blockstore.ids import ulid_at, ulid_time_ms
from blockstore.index import ulids
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.sight import Sight
from blockstore.names import (
    DELETION_MARK,
    FILE_RECORD,
    FILES,
    META,
    file_key,
    is_ulid,
    split_file_key,
)
from blockstore.world import World

CLOCKS_MS = 3_600_000
"""The clocks of writers differ from the store's by less."""

_READ_AT_ONCE = 64

Folder = Mapping[str, ObjectInfo]
"""What a listing shows of a file, by path inside its folder."""


class Fate(StrEnum):
    """What to do with a file."""

    STAY = "stay"
    MARK = "mark"
    WITHDRAW = "withdraw"
    WAIT = "wait"
    """It may go once the horizon is above its mark."""
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCleaned:
    """What a pass did, or would do, with files; ids."""

    marked: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """They go once the horizon is above their marks."""
    objects: int = 0
    bytes: int = 0
    undecided: str | None = None
    """Why nothing was marked or removed: a block whose file columns cannot be read."""
    failed: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """For machines: what there is to say."""
        found = {
            "marked": list(self.marked),
            "withdrawn": list(self.withdrawn),
            "removed": list(self.removed),
            "waiting": list(self.waiting),
            "objects": self.objects,
            "bytes": self.bytes,
            "undecided": self.undecided,
            "failed": dict(self.failed),
        }
        return {name: value for name, value in found.items() if value}


def fate_of(
    file: str,
    folder: Folder,
    *,
    named: bool,
    now_ms: int,
    properties: Properties,
    horizon: str | None,
) -> Fate:
    """Decide about one file. Pure."""
    mark = folder.get(DELETION_MARK)
    if named:
        return Fate.STAY if mark is None else Fate.WITHDRAW
    if mark is None:
        newest = max((info.modified_ms for info in folder.values()), default=0)
        age_ms = now_ms - max(newest, ulid_time_ms(file))
        return Fate.MARK if age_ms >= properties.partial_delay_s * 1000 else Fate.STAY
    if not properties.is_due(mark.modified_ms, now_ms):
        return Fate.STAY
    above = ulid_at(mark.modified_ms + CLOCKS_MS)
    return Fate.REMOVE if horizon is not None and horizon >= above else Fate.WAIT


def highest_needed(folders: Mapping[str, Folder], files: Iterable[str]) -> str | None:
    """The horizon above which all of these files may go; None where there is none."""
    times = [folders[file][DELETION_MARK].modified_ms for file in files]
    return ulid_at(max(times) + CLOCKS_MS) if times else None


class FileCleaner:
    """Cleans the files of one table, pass by pass; remembers which files each block names."""

    def __init__(self, bucket: Bucket, world: World, rate: Rate) -> None:
        self._bucket = bucket
        self._world = world
        self._rate = rate
        self._named: dict[str, ulids.UlidArray] = {}

    def run(
        self, sight: Sight, horizon: str | None, fresh: Freshness, *, dry_run: bool = False
    ) -> tuple[FilesCleaned, str | None]:
        """One pass over the files; returns what was done, and the horizon that is needed to remove
        more, if any.

        Args:
            sight: The blocks, by a complete listing.
            horizon: The one that was known before that listing was requested.
            fresh: How long decisions may be acted on.
            dry_run: Change nothing.

        Raises:
            Unavailable: The store does not respond; other store errors likewise.
        """
        state = sight.state
        if state is None or not ever_had_files(state.definition, state.required_before):
            return FilesCleaned(), None
        folders = _folders(self._bucket)
        partial_ms = sight.properties.partial_delay_s * 1000
        if not any(
            DELETION_MARK in folder or sight.now_ms - ulid_time_ms(file) >= partial_ms
            for file, folder in folders.items()
        ):
            return FilesCleaned(), None
        try:
            named = self._all_named(sight)
        except (Corrupt, ObjectMissing) as error:
            return FilesCleaned(undecided=str(error)), None
        fates: dict[Fate, list[str]] = {fate: [] for fate in Fate}
        for file, folder in folders.items():
            fate = fate_of(
                file,
                folder,
                named=ulids.position(named, file) is not None,
                now_ms=sight.now_ms,
                properties=sight.properties,
                horizon=horizon,
            )
            fates[fate].append(file)
        cleaned = self._carry_out(folders, fates, fresh, dry_run=dry_run)
        return cleaned, highest_needed(folders, fates[Fate.WAIT])

    def _all_named(self, sight: Sight) -> ulids.UlidArray:
        """The ids that complete and named blocks name, sorted. Raises Corrupt and ObjectMissing."""
        assert sight.named is not None, "files are in tables with an index"
        named = sight.named
        blocks = {*named.state.blocks.ulids(), *named.others(), *_complete(sight)}
        self._named = {ulid: ids for ulid, ids in self._named.items() if ulid in blocks}
        new = _metas(sight, blocks - self._named.keys())
        for start in range(0, len(new), _READ_AT_ONCE):
            some = new[start : start + _READ_AT_ONCE]
            read = self._world.pool.map(lambda meta: named_ids(self._bucket, sight, meta), some)
            self._named.update({meta.ulid: ids for meta, ids in zip(some, read, strict=True)})
        return ulids.unique(ulids.EMPTY, *self._named.values())

    def _carry_out(
        self,
        folders: Mapping[str, Folder],
        fates: Mapping[Fate, list[str]],
        fresh: Freshness,
        *,
        dry_run: bool,
    ) -> FilesCleaned:
        failed: dict[str, str] = {}

        def done(fate: Fate) -> tuple[str, ...]:
            return tuple(
                file
                for file in fates[fate]
                if dry_run or self._one(fate, file, folders[file], fresh, failed)
            )

        withdrawn, marked = done(Fate.WITHDRAW), done(Fate.MARK)
        removed = done(Fate.REMOVE)
        gone = [info for file in removed for info in folders[file].values()]
        return FilesCleaned(
            marked=marked,
            withdrawn=withdrawn,
            removed=removed,
            waiting=tuple(fates[Fate.WAIT]),
            objects=len(gone),
            bytes=sum(info.size for info in gone),
            failed=failed,
        )

    def _one(
        self, fate: Fate, file: str, folder: Folder, fresh: Freshness, failed: dict[str, str]
    ) -> bool:
        """Carry out one decision; returns whether it was done. A failure is reported and stops no
        other."""
        self._rate.take(len(folder) if fate is Fate.REMOVE else 1)
        if fresh.is_over:
            return False
        mark = file_key(file, DELETION_MARK)
        try:
            if fate is Fate.MARK:
                self._bucket.put(mark, _mark(file, self._world.clock.now_ms()))
            elif fate is Fate.WITHDRAW:
                self._bucket.delete([mark])
            else:
                for step in removal_steps(file, folder):
                    self._bucket.delete(step)
        except BlockstoreError as error:
            failed[file] = str(error)
            return False
        return True


def removal_steps(file: str, folder: Iterable[str]) -> list[list[str]]:
    """The keys of a file in the order of its removal; each step must get its response before the
    next is sent."""
    steps: list[list[str]] = [[], [], []]
    for path in sorted(folder):
        steps[{FILE_RECORD: 0, DELETION_MARK: 2}.get(path, 1)].append(file_key(file, path))
    return [step for step in steps if step]


def named_ids(bucket: ReadBucket, sight: Sight, meta: BlockMeta) -> ulids.UlidArray:
    """The ids of the files that a block names, sorted."""
    state = sight.state
    known = None if state is None else state.definition.schemas.get(meta.schema_id)
    schema = deserialize(meta.schema) if meta.schema or known is None else known
    ids = {str(one.handle["id"]) for one in named_by_block(bucket, meta, schema)}
    return np.sort(ulids.from_texts(one for one in ids if is_ulid(one)))


def _complete(sight: Sight) -> Iterator[str]:
    """The blocks that the listing shows with a meta.json."""
    for ulid, directory in sight.listing.directories.items():
        if META in directory.objects:
            yield ulid


def _metas(sight: Sight, wanted: Iterable[str]) -> list[BlockMeta]:
    """The metas of these blocks. Raises Corrupt for one that cannot be read."""
    assert sight.state is not None, "files are in tables with an index"
    wanted = sorted(wanted)
    live = sight.state.blocks.get_all(wanted)
    metas = []
    for ulid in wanted:
        one = sight.found.get(ulid)
        meta = live[ulid].meta if ulid in live else None if one is None else one.meta
        if meta is None:
            raise Corrupt(_unknown(sight, ulid))
        metas.append(meta)
    return metas


def _unknown(sight: Sight, ulid: str) -> str:
    """What is to be said of a block without a meta."""
    one, who = sight.found.get(ulid), sight.named_by(ulid)
    if who is None:
        why = "it was not read" if one is None else one.damage or "it is being removed"
        return f"block {ulid} may name files, and its meta.json says nothing: {why}"
    why = "it is missing" if one is None else one.damage or "it is missing"
    return (
        f"block {ulid}, which {who} names, may name files, and its meta.json says nothing: {why}; "
        "restore it from a copy; without one it is so until no version and no tag names it"
    )


def _folders(bucket: ReadBucket) -> dict[str, Folder]:
    folders: dict[str, dict[str, ObjectInfo]] = {}
    for info in bucket.list(FILES):
        place = split_file_key(info.key)
        if place is not None:
            folders.setdefault(place[0], {})[place[1]] = info
    return dict(sorted(folders.items()))


def _mark(file: str, now_ms: int) -> bytes:
    return orjson.dumps(
        {
            "version": FORMAT_VERSION,
            "id": file,
            "deletion_time": now_ms // 1000,
            "reason": "unnamed",
        }
    )

"""Read one block's directory, each small object by itself, so that a damaged one hides no other.

Rules:
- If a listed object is gone when it is read, the directory is listed again: a block may be
  uploaded, marked or removed meanwhile.
- Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.marks import (
    DeletionMark,
    NoCompactMark,
    decode_deletion_mark,
    decode_no_compact_mark,
)
from blockstore.format.meta import load_meta
from blockstore.lifecycle.listing import Directory, Found
from blockstore.names import (
    DELETION_MARK,
    META,
    NO_COMPACT_MARK,
    deletion_mark_key,
    no_compact_mark_key,
    object_key,
)

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The content of a block's directory. A problem is the reason why an object cannot be read."""

    directory: Directory
    meta: BlockMeta | None = None
    meta_problem: str | None = None
    mark: DeletionMark | None = None
    no_compact: NoCompactMark | None = None
    mark_problems: tuple[tuple[str, str], ...] = ()
    """Marks that cannot be read: key and problem."""

    @property
    def ulid(self) -> str:
        """The directory's name."""
        return self.directory.ulid

    @property
    def is_complete(self) -> bool:
        """Whether meta.json can be read and every file is listed with its size."""
        return self.meta is not None and self.directory.difference(self.meta) is None

    @property
    def found(self) -> Found:
        """The same as the list path sees it, for ``classify``."""
        damage = self.meta_problem or (
            None if self.meta is None else self.directory.difference(self.meta)
        )
        mark = None if self.mark is None else self.mark.reason
        return Found(directory=self.directory, meta=self.meta, damage=damage, mark=mark)

    def debris(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return the paths in the directory that are not in ``files`` and not the format's own."""
        known = {META, DELETION_MARK, NO_COMPACT_MARK, *files}
        return tuple(sorted(path for path in self.directory.objects if path not in known))


def examine(bucket: ReadBucket, directory: Directory) -> Examined:
    """Read the objects of a listed directory; list it again if they do not match the listing."""
    found = _read(bucket, directory)
    if found.is_complete or (META not in directory.objects and found.mark is None):
        return found
    return _read(bucket, list_directory(bucket, directory.ulid))


def list_directory(bucket: ReadBucket, ulid: str) -> Directory:
    """List one directory; empty if it is gone."""
    prefix = object_key(ulid, "")
    return Directory(
        ulid=ulid, objects={info.key.removeprefix(prefix): info for info in bucket.list(prefix)}
    )


def _read(bucket: ReadBucket, directory: Directory) -> Examined:
    ulid, objects = directory.ulid, directory.objects
    meta, meta_problem = _try(lambda: load_meta(bucket, ulid)) if META in objects else (None, None)
    mark, no_compact = None, None
    problems = []
    if DELETION_MARK in objects:
        key = deletion_mark_key(ulid)
        mark, problem = _try(lambda: decode_deletion_mark(bucket.get(key).data, ulid=ulid))
        problems += [(key, problem)] if problem else []
    if NO_COMPACT_MARK in objects:
        key = no_compact_mark_key(ulid)
        no_compact, problem = _try(lambda: decode_no_compact_mark(bucket.get(key).data, ulid=ulid))
        problems += [(key, problem)] if problem else []
    return Examined(
        directory=directory,
        meta=meta,
        meta_problem=meta_problem,
        mark=mark,
        no_compact=no_compact,
        mark_problems=tuple(problems),
    )


def _try(read: Callable[[], A]) -> tuple[A | None, str | None]:
    try:
        return read(), None
    except (Corrupt, ObjectMissing) as error:
        return None, str(error)

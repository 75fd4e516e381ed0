"""Restore lost objects of a block that only a tag or an older version names, or that holds
versions of rows.

No entry can replace such a block, because a version never changes, and its rows are versions. But
its objects never change either, so the same bytes may be stored under their names again. Rule: only
files with the SHA-256, and only a meta.json with the content, that the index has.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.repair.copies import is_good
from blockstore.care.survey import slim
from blockstore.care.transfer import send_file
from blockstore.care.verify.live import differing
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.definition import Definition
from blockstore.format.meta import load_meta
from blockstore.names import META, meta_key


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """What one block lacks, and the replica that has it."""

    ulid: str
    replica: ReadBucket | None
    files: tuple[ChunkFile, ...]
    """The files to copy from the replica."""
    meta: bool
    """Whether meta.json is copied too."""
    lost: tuple[str, ...]
    """What has no good copy."""

    def carry_out(self, bucket: Bucket) -> int:
        """Copy the objects, meta.json last, and return how many.

        Raises Corrupt, and creates no object, if one of the replica's has changed since.
        """
        assert self.replica is not None or not (self.files or self.meta), (
            "copied objects have an origin"
        )
        if self.replica is not None:
            for file in self.files:
                send_file(
                    self.replica,
                    bucket,
                    self.ulid,
                    file,
                    stored_ulid=self.ulid,
                    advance=lambda _: None,
                )
            if self.meta:
                bucket.put(meta_key(self.ulid), self.replica.get(meta_key(self.ulid)).data)
        return len(self.files) + self.meta


def look_for(
    meta: BlockMeta, definition: Definition, bucket: ReadBucket, replica: ReadBucket | None
) -> PutBack:
    """Check every object of a block, byte by byte.

    ``meta`` is the index's, without statistics.
    """
    bad = [file for file in meta.files if not is_good(bucket, meta.ulid, file)]
    there = [file for file in bad if replica is not None and is_good(replica, meta.ulid, file)]
    lost = [file.path for file in bad if file not in there]
    needs_meta = not _is_same(bucket, meta, definition)
    if needs_meta and (replica is None or not _is_same(replica, meta, definition)):
        needs_meta = False
        lost.append(META)
    return PutBack(
        ulid=meta.ulid, replica=replica, files=tuple(there), meta=needs_meta, lost=tuple(lost)
    )


def _is_same(bucket: ReadBucket, meta: BlockMeta, definition: Definition) -> bool:
    try:
        return not differing(meta, slim(load_meta(bucket, meta.ulid)), definition)
    except (Corrupt, ObjectMissing):
        return False

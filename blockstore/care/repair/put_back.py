"""Putting back what was lost of a block that only a tag or an older version names.

No entry can replace such a block: its version is what it is. But its objects never change, so the
very bytes may be put back under their names. Rule: only those with the SHA-256, and a meta.json
that says, what the index says.
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
    """What the table lacks of one block, and who has it."""

    ulid: str
    replica: ReadBucket | None
    files: tuple[ChunkFile, ...]
    """To be copied from the replica."""
    meta: bool
    """Whether meta.json is to be copied as well."""
    lost: tuple[str, ...]
    """What nobody has whole."""

    def carry_out(self, bucket: Bucket) -> int:
        """Copy the objects, meta.json last.

        Raises Corrupt where the replica's have changed since; they stay away then.
        """
        assert self.replica is not None or not (self.files or self.meta), (
            "what is copied has an origin"
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
    """Look at every object of a block, byte by byte;

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

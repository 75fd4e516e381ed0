"""Make the hashes of a block's segments again, from its chunks.

An uploaded block is never edited (R1), and is not here: the object is stored again with the bytes
that it had, or not at all. Rule: only chunks with the SHA-256 that the block lists are taken, and
only an object with the SHA-256 that the block names is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.care.transfer import pieces
from blockstore.errors import Conflict, Corrupt
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.segments import (
    FileHashes,
    FileSegments,
    described,
    encode_segments,
    segments_in,
)
from blockstore.names import meta_key, object_key, segments_path


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSegments:
    """A block whose hashes of segments are missing or damaged."""

    meta: BlockMeta

    def carry_out(self, bucket: Bucket) -> int:
        """Store them again, and return how many there are.

        Raises Corrupt if a chunk is damaged or the object would differ from the one that the block
        names, and Conflict if the block was removed meanwhile; then nothing is stored.
        """
        meta = self.meta
        hashed = [_hashed(bucket, meta.ulid, file) for file in meta.chunks]
        data = encode_segments(hashed)
        ref = described(data)
        if ref != meta.segments:
            raise Corrupt(
                f"block {meta.ulid}: the hashes made from its chunks are not those that it names: "
                "another program wrote them; the block is complete without them"
            )
        if not is_there(bucket, meta_key(meta.ulid)):
            raise Conflict(f"block {meta.ulid} was removed meanwhile")
        bucket.put(object_key(meta.ulid, segments_path(ref.sha256)), data)
        return sum(segments_in(file.bytes) for file in hashed)


def _hashed(bucket: ReadBucket, ulid: str, file: ChunkFile) -> FileSegments:
    hashes = FileHashes()
    for piece in pieces(bucket, object_key(ulid, file.path), file.bytes):
        hashes.update(piece)
    if hashes.sha256 != file.sha256:
        raise Corrupt(
            f"block {ulid}: {file.path} is corrupt: its SHA-256 is not the one in meta.json; run "
            "the repair with --deep"
        )
    return hashes.segments(file.path)

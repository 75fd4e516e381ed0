"""Files of blocks from one bucket into another: verified on the way, taken up again after a death.

Rules:
- The bytes that are sent are hashed while they are sent. A file with other bytes than its meta.json
  says is visible nowhere: its object is only made once the last byte has agreed.
- What lies in the target with the right size is read back and hashed before it is believed, and
  then not sent again.
- Pieces of some megabytes: memory does not grow with a file.
- A file that does not agree with its meta.json is ``Corrupt`` and names the block; whatever else a
  bucket raises passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import ChunkFile
from blockstore.names import object_key
from blockstore.world import World

PIECE_BYTES = 8 * 1024 * 1024

Advance = Callable[[int], None]
"""Told how many bytes are done, for a progress bar."""


def patient(bucket: Bucket, world: World) -> Bucket:
    """The bucket, sending again what may be sent again; itself where it does so already."""
    inner = bucket
    while isinstance(inner, Wrapper) and not isinstance(inner, Retrying):
        inner = inner.inner
    return bucket if isinstance(inner, Retrying) else Retrying(bucket, world)


def place(bucket: ReadBucket) -> str:
    """Where a bucket lies, whatever client opened it."""
    return bucket.url.partition("?")[0]


def sizes_in(bucket: ReadBucket, ulid: str) -> Mapping[str, int]:
    """The objects of a block's directory: path inside it to size."""
    prefix = object_key(ulid, "")
    return {found.key.removeprefix(prefix): found.size for found in bucket.list(prefix)}


def verify_file(source: ReadBucket, ulid: str, file: ChunkFile) -> None:
    """Raise Corrupt unless a block's file has the bytes that its meta.json says."""
    for _ in _checked(source, ulid, file):
        pass


def holds(target: ReadBucket, ulid: str, file: ChunkFile, size: int | None) -> bool:
    """Whether a file that the target lists with ``size`` (None: not at all) is this one, by reading
    it back."""
    if size != file.bytes:
        return False
    digest = hashlib.sha256()
    try:
        for piece in pieces(target, object_key(ulid, file.path), file.bytes):
            digest.update(piece)
    except ObjectMissing:
        return False
    return digest.hexdigest() == file.sha256


def send_file(
    source: ReadBucket,
    target: Bucket,
    ulid: str,
    file: ChunkFile,
    *,
    stored_ulid: str,
    advance: Advance,
) -> None:
    """Copy a file of block ``ulid`` into the target's directory of block ``stored_ulid``.

    Raises Corrupt, naming the block, where it holds other bytes than its meta.json says; then
    nothing is visible.
    """
    writer = target.writer(object_key(stored_ulid, file.path))
    try:
        for piece in _checked(source, ulid, file):
            writer.write(piece)
            advance(len(piece))
        writer.close()
    except BaseException:
        writer.abort()
        raise


def pieces(bucket: ReadBucket, key: str, size: int) -> Iterator[bytes]:
    """An object of ``size`` bytes, piece by piece; fewer where it is shorter."""
    for start in range(0, size, PIECE_BYTES):
        yield bucket.get_range(key, start, min(PIECE_BYTES, size - start))


def _checked(source: ReadBucket, ulid: str, file: ChunkFile) -> Iterator[bytes]:
    """The file's pieces; after the last one Corrupt is raised if they were not those that meta.json
    says."""
    digest = hashlib.sha256()
    key = object_key(ulid, file.path)
    found = 0
    for piece in pieces(source, key, file.bytes):
        digest.update(piece)
        found += len(piece)
        yield piece
    if found != file.bytes:
        raise Corrupt(
            f"block {ulid}: {file.path} ends after {found:,} bytes, expected {file.bytes:,}: "
            "restore it from a copy"
        )
    if digest.hexdigest() != file.sha256:
        raise Corrupt(
            f"block {ulid}: {file.path} has another SHA-256 than its meta.json says: restore it "
            "from a copy"
        )

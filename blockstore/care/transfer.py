"""Copy files of blocks between buckets: verified while they are sent, continued after a crash.

Rules:
- Bytes are hashed while they are sent. A file with other bytes than its meta.json says is never
  visible: its object is created only after the last byte was checked.
- A file that the target has with the right size is read back and hashed before it is trusted; then
  it is not sent again.
- Files are sent in pieces of some megabytes: memory does not grow with a file.
- The hashes of segments are copied where they are right, and otherwise left out.
- A file that does not match its meta.json raises ``Corrupt`` with the block's name. All other
  errors of a bucket are passed on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.names import object_key, segments_path
from blockstore.world import World

PIECE_BYTES = 8 * 1024 * 1024

Advance = Callable[[int], None]
"""Called with the number of bytes done, for a progress bar."""


def patient(bucket: Bucket, world: World) -> Bucket:
    """Return the bucket with retries; the bucket itself if it has them already."""
    inner = bucket
    while isinstance(inner, Wrapper) and not isinstance(inner, Retrying):
        inner = inner.inner
    return bucket if isinstance(inner, Retrying) else Retrying(bucket, world)


def place(bucket: ReadBucket) -> str:
    """Return the place of a bucket, without the options of its client."""
    return bucket.url.partition("?")[0]


def sizes_in(bucket: ReadBucket, ulid: str) -> Mapping[str, int]:
    """Return the sizes of the objects in a block's directory, by path inside it."""
    prefix = object_key(ulid, "")
    return {found.key.removeprefix(prefix): found.size for found in bucket.list(prefix)}


def verify_file(source: ReadBucket, ulid: str, file: ChunkFile) -> None:
    """Raise Corrupt unless a block's file has the bytes that its meta.json says."""
    for _ in _checked(source, ulid, file):
        pass


def holds(target: ReadBucket, ulid: str, file: ChunkFile, size: int | None) -> bool:
    """Read a file back from the target, and return whether it is this one.

    ``size`` is the listed size, None if the file is not listed.
    """
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

    Raises Corrupt, with the block's name, for other bytes than its meta.json says; then nothing is
    visible.
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


def send_missing(
    source: ReadBucket,
    target: Bucket,
    world: World,
    meta: BlockMeta,
    there: Mapping[str, int],
    origin: str,
    advance: Advance,
) -> None:
    """Copy what the target does not have of block ``origin`` into its directory of ``meta``.

    Args:
        source: Where the block is.
        target: The table.
        world: The threads.
        meta: The block, perhaps under another ULID.
        there: The sizes of the objects in the target's directory.
        origin: The block's ULID in the source.
        advance: Called with the bytes that are done.
    """

    def send(file: ChunkFile) -> None:
        if holds(target, meta.ulid, file, there.get(file.path)):
            advance(file.bytes)
            return
        send_file(source, target, origin, file, stored_ulid=meta.ulid, advance=advance)

    world.pool.map(send, meta.files)
    send_segments(source, target, meta, origin=origin)


def send_segments(source: ReadBucket, target: Bucket, meta: BlockMeta, *, origin: str) -> None:
    """Copy the hashes of the segments of block ``origin`` into the target's directory of ``meta``.

    Where the source does not have them as they were written, nothing is sent: the block is complete
    without them, ``verify`` reports it and ``repair`` makes them again.
    """
    ref = meta.segments
    if ref is None:
        return
    path = segments_path(ref.sha256)
    try:
        data = source.get(object_key(origin, path)).data
    except (Corrupt, ObjectMissing):
        return
    if hashlib.sha256(data).hexdigest() == ref.sha256:
        target.put(object_key(meta.ulid, path), data)


def pieces(bucket: ReadBucket, key: str, size: int) -> Iterator[bytes]:
    """Yield an object of ``size`` bytes piece by piece; fewer bytes if it is shorter."""
    for start in range(0, size, PIECE_BYTES):
        yield bucket.get_range(key, start, min(PIECE_BYTES, size - start))


def _checked(source: ReadBucket, ulid: str, file: ChunkFile) -> Iterator[bytes]:
    """Yield the file's pieces; after the last one raise Corrupt if they do not match meta.json."""
    digest = hashlib.sha256()
    key = object_key(ulid, file.path)
    found = 0
    for piece in pieces(source, key, file.bytes):
        digest.update(piece)
        found += len(piece)
        yield piece
    if found != file.bytes:
        raise Corrupt(
            f"block {ulid}: {file.path} has {found:,} bytes, expected {file.bytes:,}: restore it "
            "from a copy"
        )
    if digest.hexdigest() != file.sha256:
        raise Corrupt(
            f"block {ulid}: {file.path} is corrupt: its SHA-256 is not the one in meta.json; "
            "restore it from a copy"
        )

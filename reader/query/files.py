"""Where DuckDB finds the chunks of a plan: in the bucket's own folder, or in the cache.

R11: a chunk that is missing, or is not what its block says, fails the query with the block's name;
a query never returns fewer rows because of it. A damaged copy in the cache is not a damaged chunk:
it is dropped, and the query can be repeated.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockstore.bucket import ReadBucket
from blockstore.errors import AccessDenied, BlockstoreError, Corrupt, ObjectMissing, Unavailable
from blockstore.names import META
from blockstore.scan.chunk import ScanChunk

if TYPE_CHECKING:
    from blockstore.reader.cache import Hold

_PIECE = 8 << 20
_MOST_READ = 4 << 30
_VALUE, _NO_TEXT = 'value "', '" is not valid UTF8'
"""DuckDB's message for text in a Parquet file that is not UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The planned chunks of one table as local files."""

    bucket: ReadBucket
    chunks: tuple[ScanChunk, ...]
    paths: Mapping[str, str]
    """By the chunk's key."""
    hold: Hold | None = None

    def checked(self) -> Iterator[str]:
        """Each path, after it was checked to be a regular file of the bucket, of the right size:
        before any row of it is handed out. Raises ObjectMissing, Corrupt and the like, with the
        block's name. The cache has checked its own files."""
        for chunk in self.chunks if self.hold is None else ():
            path = self.paths[chunk.key]
            if self.bucket.path_of(chunk.key) != path:
                raise RuntimeError(
                    f"{chunk.key} of {self.bucket.url} is not {path}: report this as a bug"
                )
            _check(self.bucket, chunk, path)
            yield path

    def release(self) -> None:
        """Release the cached files; the query has ended."""
        if self.hold is not None:
            self.hold.release()

    def damage(self, message: str = "") -> BlockstoreError | None:
        """The error of the first chunk whose bytes are not what its block says; chunks that
        ``message`` names are checked first, and all damaged copies in the cache are dropped. If
        there is none, the error of the chunk whose text is not UTF-8, by ``message``. It reads
        complete files, a few GiB at most, so it is called only after a failure."""
        sizes = [(_size(self.paths[chunk.key]), chunk) for chunk in self.chunks]
        left = _MOST_READ
        first: BlockstoreError | None = None
        suspects = sorted(sizes, key=lambda one: self.paths[one[1].key] not in message)
        for size, chunk in suspects:
            path = self.paths[chunk.key]
            try:
                if size == chunk.file.bytes and left < chunk.file.bytes:
                    continue
                left -= chunk.file.bytes
                sound = None if self.hold is None else self.hold.is_sound(path)
                if sound is None:
                    sound = _digest(path) == chunk.file.sha256
            except OSError as error:
                damage = _unreadable(self.bucket, chunk, error)
            else:
                if sound:
                    continue
                damage = _damaged(
                    self.bucket, chunk, "its bytes have another hash than meta.json says"
                )
            if self.hold is None:
                return damage
            # The hash was right when it was fetched: this machine damaged it, not the bucket.
            self.hold.forget(path, chunk.file.sha256)
            first = first or _dropped(self.bucket, chunk)
        return first or self._raw_text(message)

    def _raw_text(self, message: str) -> Corrupt | None:
        start, end = message.find(_VALUE), message.rfind(_NO_TEXT)
        chunk = next((one for one in self.chunks if f'"{self.paths[one.key]}"' in message), None)
        if not 0 <= start <= end - len(_VALUE) or chunk is None:
            return None
        shown = message[start + len(_VALUE) - 1 : end + 1]
        return Corrupt(
            f"block {chunk.block} of {self.bucket.url} cannot be read by SQL: {chunk.file.path} "
            f"contains text that is not UTF-8 ({shown}), which Blockstore's writers refuse; "
            "leave the column out, or revert the write: blockstore verify --deep names the column "
            "and the first row"
        )


def local_folder(bucket: ReadBucket) -> str | None:
    """The local folder in which the bucket's objects are files, or None."""
    path = bucket.path_of(META)
    return None if path is None else path.removesuffix(META).rstrip("/")


def place(bucket: ReadBucket, folder: str, chunks: Iterable[ScanChunk]) -> Placed:
    """The chunks as files of the bucket's local folder, not checked yet."""
    planned = tuple(chunks)
    paths = {chunk.key: f"{folder}/{chunk.key}" for chunk in planned}
    return Placed(bucket=bucket, chunks=planned, paths=paths)


def _check(bucket: ReadBucket, chunk: ScanChunk, path: str) -> None:
    try:
        found = os.lstat(path)
    except OSError as error:
        raise _unreadable(bucket, chunk, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise _damaged(bucket, chunk, "it is not a regular file: links are not followed")
    if found.st_size != chunk.file.bytes:
        raise _damaged(
            bucket, chunk, f"it has {found.st_size:,} bytes, expected {chunk.file.bytes:,}"
        )


def which(
    bucket: ReadBucket, chunks: Sequence[ScanChunk], error: ObjectMissing | Corrupt
) -> BlockstoreError:
    """The error with the name of the block, found by the key in its message."""
    if any(f"block {chunk.block}" in str(error) for chunk in chunks):
        return error
    chunk = next((chunk for chunk in chunks if chunk.key in str(error)), chunks[0])
    return (
        _missing(bucket, chunk)
        if isinstance(error, ObjectMissing)
        else _damaged(bucket, chunk, str(error))
    )


def _unreadable(bucket: ReadBucket, chunk: ScanChunk, error: OSError) -> BlockstoreError:
    if isinstance(error, FileNotFoundError):
        return _missing(bucket, chunk)
    if isinstance(error, PermissionError):
        return AccessDenied(
            f"block {chunk.block} of {bucket.url} cannot be read: access to {chunk.file.path} is "
            "denied; give this user permission to read it"
        )
    return _damaged(bucket, chunk, (error.strerror or str(error)).lower())


def _missing(bucket: ReadBucket, chunk: ScanChunk) -> ObjectMissing:
    return ObjectMissing(
        f"block {chunk.block} of {bucket.url} cannot be read: {chunk.file.path} is missing; query "
        "the newest version, and if that fails too, restore the file from a copy"
    )


def _damaged(bucket: ReadBucket, chunk: ScanChunk, what: str) -> Corrupt:
    return Corrupt(
        f"block {chunk.block} of {bucket.url} cannot be read: {chunk.file.path}: "
        f"{what.rstrip('.')}; restore the file from a copy, or query a version without the block"
    )


def _dropped(bucket: ReadBucket, chunk: ScanChunk) -> Unavailable:
    return Unavailable(
        f"the cached copy of {chunk.file.path} of block {chunk.block} of {bucket.url} was damaged "
        "and has been dropped: repeat the query"
    )


def _size(path: str) -> int | None:
    """The size of a file; None if there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()

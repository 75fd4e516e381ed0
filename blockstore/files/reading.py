"""Reading a file, its SHA-256 compared.

Rule: the last piece is handed out only after all bytes were compared with the size and the SHA-256
of the handle. So a reader that comes to the end has no wrong byte without an error.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.file_handle import FileHandle, decode_record, handle_of
from blockstore.names import FILE_RECORD, file_key

PIECE_BYTES = 4 * 1024 * 1024


class FileReader(io.RawIOBase):
    """A file's bytes, read once from front to back in bounded memory. Reading raises Corrupt where
    they are not those that were uploaded."""

    def __init__(self, bucket: ReadBucket, handle: FileHandle, key: str) -> None:
        self.handle = handle
        self._bucket = bucket
        self._key = key
        self._pieces = checked_pieces(bucket, handle, key)
        self._held = memoryview(b"")

    def pieces(self) -> Iterator[bytes]:
        """The rest of the bytes, piece by piece; after this nothing else reads the file."""
        return self._pieces

    def look(self) -> None:
        """Look whether as many bytes are there, by one HEAD request; of an empty file none is
        sent. Raises Corrupt where they are not."""
        size = self.handle["bytes"]
        try:
            found = self._bucket.head(self._key).size if size else 0
        except ObjectMissing:
            raise _lost(self._bucket, self.handle, self._key) from None
        if found < size:
            raise _corrupt(self._bucket, self.handle, f"has {found:,} bytes")

    def part(self, first: int, length: int) -> Iterator[bytes]:
        """Yield a part of the bytes, piece by piece. It is not compared with the SHA-256, which is
        that of the whole file; its length is. Raises Corrupt where the file is shorter."""
        for start in range(first, first + length, PIECE_BYTES):
            yield _piece(
                self._bucket,
                self.handle,
                self._key,
                start,
                min(PIECE_BYTES, first + length - start),
            )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        size = min(len(view), len(self._held))
        view[:size] = self._held[:size]
        self._held = self._held[size:]
        return size


def open_handle(bucket: ReadBucket, handle: object) -> FileReader:
    """Open the file of a handle.

    Raises:
        Invalid: It is not a handle.
        NotFound: The table has no such file: it was never there, or was removed because no row
            named it.
        Corrupt: The file's record says something else, or cannot be read.
    """
    wanted = handle_of(handle)
    key = find_file(bucket, wanted)
    return FileReader(bucket, wanted, key)


def find_file(bucket: ReadBucket, handle: FileHandle) -> str:
    """Return the key of the object with a file's bytes. Raises as ``open_handle``."""
    try:
        data = bucket.get(file_key(handle["id"], FILE_RECORD)).data
    except ObjectMissing:
        raise NotFound(
            f"file {handle['id']} ({handle['name']!r}) is not in {bucket.url}: it was never "
            "uploaded there, or was removed because no row named it"
        ) from None
    found, key = decode_record(data, file=handle["id"])
    if found != handle:
        wrong = next(name for name, value in found.items() if handle.get(name) != value)
        raise Corrupt(
            f"file {handle['id']} of {bucket.url} has the {wrong} {found.get(wrong)!r}, and its "
            f"handle says {handle.get(wrong)!r}: compare the table with a copy"
        )
    return key


def checked_pieces(bucket: ReadBucket, handle: FileHandle, key: str) -> Iterator[bytes]:
    """Yield a file's bytes piece by piece, at least one. Raises Corrupt before the last one where
    they are not those of the handle."""
    digest, size = hashlib.sha256(), handle["bytes"]
    for start in range(0, max(size, 1), PIECE_BYTES):
        length = min(PIECE_BYTES, size - start)
        piece = _piece(bucket, handle, key, start, length)
        digest.update(piece)
        if start + length >= size and digest.hexdigest() != handle["sha256"]:
            raise _corrupt(bucket, handle, "has another SHA-256")
        yield piece


def _piece(bucket: ReadBucket, handle: FileHandle, key: str, start: int, length: int) -> bytes:
    """Some bytes of a file. Raises Corrupt where they are not there."""
    try:
        piece = bucket.get_range(key, start, length) if length else b""
    except ObjectMissing:
        raise _lost(bucket, handle, key) from None
    if len(piece) != length:
        raise _corrupt(bucket, handle, f"has {start + len(piece):,} bytes")
    return piece


def _lost(bucket: ReadBucket, handle: FileHandle, key: str) -> Corrupt:
    return Corrupt(
        f"file {handle['id']} ({handle['name']!r}) of {bucket.url} has lost its bytes: "
        f"{key} is missing; restore it from a copy"
    )


def _corrupt(bucket: ReadBucket, handle: FileHandle, what: str) -> Corrupt:
    return Corrupt(
        f"file {handle['id']} ({handle['name']!r}) of {bucket.url} {what}, expected "
        f"{handle['bytes']:,} bytes with the SHA-256 {handle['sha256']}: restore it from a copy"
    )

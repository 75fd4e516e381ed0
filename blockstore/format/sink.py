"""Sinks: where the bytes of one chunk go, counted and hashed in the same pass.

Rule: nothing is visible before ``send`` has returned, and nothing at all after ``abort``. A small
chunk is one PUT; a large one is streamed in pieces of some megabytes.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from blockstore.bucket.api import Bucket, ObjectWriter
from blockstore.format.segments import FileHashes

_PIECE = 4 * 1024 * 1024


class Sink(Protocol):
    """The destination of one chunk in the bucket."""

    file: pa.NativeFile
    """The file for the Parquet writer."""

    def size(self) -> int:
        """Return the bytes written so far."""
        ...

    def seal(self) -> FileHashes:
        """Take no more bytes; return their hashes."""
        ...

    def send(self) -> None:
        """Make the sealed chunk visible."""
        ...

    def abort(self) -> None:
        """Give up the chunk."""
        ...


class Puts(Protocol):
    """What takes a complete object: a bucket, or what sends several to it."""

    def put(self, key: str, data: bytes, /) -> object: ...


class MemorySink:
    """A chunk that is held in memory and sent by one PUT."""

    def __init__(self, bucket: Puts, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self.file = pa.BufferOutputStream()
        self._data = b""

    def size(self) -> int:
        return int(self.file.tell())

    def seal(self) -> FileHashes:
        self._data = self.file.getvalue().to_pybytes()
        hashes = FileHashes()
        hashes.update(self._data)
        return hashes

    def send(self) -> None:
        self._bucket.put(self._key, self._data)

    def abort(self) -> None:
        pass


class StreamSink:
    """A chunk that is sent while it is written."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._writer = bucket.writer(key)
        self._hashing = _Hashing(self._writer)
        # Parquet writes page by page: pages are gathered, so that there are fewer calls and hashes.
        self.file = pa.BufferedOutputStream(pa.PythonFile(self._hashing, mode="w"), _PIECE)

    def size(self) -> int:
        return int(self.file.tell())

    def seal(self) -> FileHashes:
        self.file.close()
        return self._hashing.hashes

    def send(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._hashing.dropped = True
        self._writer.abort()


class _Hashing:
    """The file-like object that Arrow writes to."""

    closed = False

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer
        self.dropped = False
        """Whether the chunk was given up: what Arrow still writes is then ignored."""
        self.hashes = FileHashes()

    def write(self, data: bytes) -> int:
        if self.dropped:
            return len(data)
        self.hashes.update(data)
        self._writer.write(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.hashes.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """Do nothing: Arrow closes its file, but only the sink closes the object."""

"""Sinks: where the bytes of one chunk go, counted and hashed in the same pass.

Rule: nothing is visible before ``close`` has returned, and nothing at all after ``abort``. A small
chunk is one PUT; a large one is streamed in pieces of some megabytes.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

import pyarrow as pa

from blockstore.bucket.api import Bucket, ObjectWriter

_PIECE = 4 * 1024 * 1024


class Sink(Protocol):
    """The destination of one chunk in the bucket."""

    file: pa.NativeFile
    """The file for the Parquet writer."""

    def size(self) -> int:
        """Return the bytes written so far."""
        ...

    def close(self) -> tuple[int, str]:
        """Make the chunk visible; return its size in bytes and their SHA-256."""
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

    def size(self) -> int:
        return int(self.file.tell())

    def close(self) -> tuple[int, str]:
        data = self.file.getvalue().to_pybytes()
        self._bucket.put(self._key, data)
        return len(data), hashlib.sha256(data).hexdigest()

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

    def close(self) -> tuple[int, str]:
        self.file.close()
        self._writer.close()
        return self._hashing.bytes, self._hashing.digest.hexdigest()

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
        self.digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        if self.dropped:
            return len(data)
        self.digest.update(data)
        self._writer.write(data)
        self.bytes += len(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """Do nothing: Arrow closes its file, but only the sink closes the object."""

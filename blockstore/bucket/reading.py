"""A stored object as a file: seekable, read-only, one ranged GET a read. For pyarrow, without fsspec.

pyarrow reads a Parquet file's footer and then whole column chunks, so reads are few and large; nothing is cached
here. The object is immutable (R1), so ranges read at different times belong together.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from blockstore.errors import Invalid

if TYPE_CHECKING:
    from blockstore.bucket.api import ReadBucket

__all__ = ["RangeFile"]


class RangeFile(io.RawIOBase):
    """Bytes ``0`` to ``size`` of the object ``key``; a read past the end answers fewer bytes, or none."""

    def __init__(self, bucket: ReadBucket, key: str, size: int) -> None:
        super().__init__()
        self.name = f"{bucket.url}/{key}"
        self._bucket = bucket
        self._key = key
        self._size = size
        self._position = 0

    def size(self) -> int:
        """The object's size in bytes (pyarrow asks for it)."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        position = bases[whence] + offset
        if position < 0:
            raise Invalid(f"Byte {position} of {self.name} does not exist: seek to byte 0 or later.")
        self._position = position
        return position

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError(f"read of the closed file {self.name}")
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._bucket.get_range(self._key, self._position, length)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

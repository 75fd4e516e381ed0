"""A stored object as a file: seekable, read-only, one ranged GET a read. For pyarrow, without
fsspec.

pyarrow reads a Parquet file's footer and then each column chunk once, completely. A caller that
knows which names them (``expect``); neighbors are then fetched together. Bytes that were read are
not kept. The object is immutable (R1), so ranges read at different times belong together.

Use it with pyarrow without ``pre_buffer`` and without threads: with either, Arrow reads in threads
of its own, and one of them may release bytes that Python owns while the interpreter ends, which
aborts the process.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Invalid

_GAP = 64 * 1024
"""Reading this many unwanted bytes costs less than a request."""
_MOST = 16 * 1024 * 1024
"""A piece is at most this large: it is held until all of it was read."""


@dataclass(slots=True)
class _Piece:
    """Neighboring ranges that are fetched together."""

    start: int
    end: int
    left: int = 0
    """The wanted bytes that were not read yet."""
    data: bytes | None = None


class RangeFile(io.RawIOBase):
    """Bytes ``0`` to ``size`` of the object ``key``; a read past the end returns fewer, or none."""

    def __init__(self, bucket: ReadBucket, key: str, size: int) -> None:
        super().__init__()
        self.name = f"{bucket.url}/{key}"
        self._bucket = bucket
        self._key = key
        self._size = size
        self._position = 0
        self._pieces: list[_Piece] = []

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch neighbors among these ranges (start, length) by one GET, at the first read.

        Each range must then be read once, in one call.
        """
        self._pieces = []
        for start, length in sorted(ranges):
            last = self._pieces[-1] if self._pieces else None
            if last is None or start > last.end + _GAP or start + length > last.start + _MOST:
                self._pieces.append(_Piece(start, start))
                last = self._pieces[-1]
            last.end = max(last.end, start + length)
            last.left += length

    def size(self) -> int:
        """Return the object's size in bytes (pyarrow calls this)."""
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
            raise Invalid(f"byte {position} of {self.name} does not exist: seek to byte 0 or later")
        self._position = position
        return position

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError(f"{self.name} is closed and cannot be read")
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._fetch(self._position, length)
        self._position += len(data)
        return data

    def _fetch(self, start: int, length: int) -> bytes:
        place = bisect_right(self._pieces, start, key=lambda piece: piece.start) - 1
        if place < 0 or start + length > self._pieces[place].end:
            return self._bucket.get_range(self._key, start, length)
        piece = self._pieces[place]
        if piece.data is None:
            piece.data = self._bucket.get_range(self._key, piece.start, piece.end - piece.start)
        data = piece.data[start - piece.start : start - piece.start + length]
        piece.left -= length
        if piece.left <= 0:
            del self._pieces[place]
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


def read_file(bucket: ReadBucket, key: str, size: int | None = None) -> BinaryIO:
    """Return a seekable read-only file over ranged GETs, for pyarrow.

    Costs one HEAD if ``size`` is not given.
    """
    return RangeFile(bucket, key, bucket.head(key).size if size is None else size)  # type: ignore[return-value]

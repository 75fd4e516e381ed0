"""Bytes of a file that were fetched and checked, as a file for Arrow.

Rules:
- Only what was put in can be read: a read of any other byte raises LookupError. A hole is never
  read as zeros.
- Arrow reads it in the caller's thread: open it without ``pre_buffer`` and without threads. One of
  Arrow's own threads could release Python's bytes while the interpreter ends, which aborts the
  process.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_NONE = memoryview(b"")


class Held:
    """Some bytes of a file."""

    def __init__(self, size: int, parts: Iterable[tuple[int, bytes]]) -> None:
        """``size`` is that of the file; each part has the place of its first byte."""
        self._size = size
        self._parts = sorted(
            ((start, memoryview(data)) for start, data in parts if data), key=_start
        )

    def size(self) -> int:
        """Return the size of the file, of which only some bytes are here."""
        return self._size

    def read_at(self, length: int, start: int) -> bytes:
        """Return ``length`` bytes from byte ``start``, fewer at the end of the file.

        Raises LookupError if one of them is not here.
        """
        return bytes(self.view_at(length, start))

    def view_at(self, length: int, start: int) -> bytes | memoryview:
        """Return the same without a copy, if one part has all of them."""
        end = min(start + length, self._size)
        found: list[memoryview] = []
        at = start
        place = bisect_right(self._parts, start, key=_start) - 1
        while at < end:
            first, data = self._parts[place] if 0 <= place < len(self._parts) else (end, _NONE)
            if not first <= at < first + len(data):
                raise LookupError(
                    f"the bytes from {start:,} to {end:,} were not fetched, or not all of them"
                )
            found.append(data[at - first : end - first])
            at += len(found[-1])
            place += 1
        return found[0] if len(found) == 1 else b"".join(found)


class HeldFile(io.RawIOBase):
    """The same bytes as a seekable file, for ``pa.PythonFile``."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self._held = held
        self._position = 0

    def size(self) -> int:
        """Return the size of the file (Arrow calls this)."""
        return self._held.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._held.size()}
        self._position = bases[whence] + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self._next(size))

    def read_buffer(self, size: int | None = -1, /) -> pa.Buffer:
        """Return the next bytes without a copy (Arrow calls this)."""
        return pa.py_buffer(self._next(size))

    def _next(self, size: int | None) -> bytes | memoryview:
        left = max(0, self._held.size() - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._held.view_at(length, self._position)
        self._position += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


def _start(part: tuple[int, memoryview]) -> int:
    return part[0]

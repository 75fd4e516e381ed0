"""Where checked segments are kept between queries: the interface, and a store in memory.

Rules:
- The key is the SHA-256 of the file and the number of the segment: chunks never change, so what is
  kept is never stale, and equal chunks are kept once.
- A store may lose any segment at any time: it is fetched again.
- What a store returns is checked again by its caller: a disk may damage what it keeps. Only of the
  very object that was kept in memory, and compared with the same hashes, it is known already.
- A store is bounded, and safe to share between threads.
"""

from __future__ import annotations

from typing import Protocol

from blockstore.format.block import ChunkFile
from blockstore.format.segments import SEGMENT_BYTES
from blockstore.scan.fetch.bounded import Bounded

MEMORY_BYTES = 64 << 20


class SegmentStore(Protocol):
    """Keeps segments of chunks."""

    @property
    def limit_bytes(self) -> int:
        """How many bytes it keeps: a scan of more keeps nothing here."""
        ...

    def load(self, file: ChunkFile, number: int) -> bytes | None:
        """Return a segment of the file, or None if it is not kept."""
        ...

    def keep(self, file: ChunkFile, first: int, data: bytes, *, hashes: str = "") -> None:
        """Keep whole segments of the file, from number ``first``; only the last of the file may be
        shorter. They were compared with ``hashes``."""
        ...

    def is_checked(self, file: ChunkFile, number: int, data: bytes, hashes: str) -> bool:
        """Return whether ``data``, which was loaded, is the object that is kept in memory since it
        was compared with these hashes."""
        ...


class MemoryStore:
    """Keeps the segments that were used last, in memory."""

    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._segments: Bounded[tuple[str, int], tuple[bytes, str]] = Bounded(limit_bytes)
        self.limit_bytes = limit_bytes

    def load(self, file: ChunkFile, number: int) -> bytes | None:
        kept = self._segments.get((file.sha256, number))
        return None if kept is None else kept[0]

    def keep(self, file: ChunkFile, first: int, data: bytes, *, hashes: str = "") -> None:
        # More than the store holds would only replace what others use.
        if len(data) > self.limit_bytes // 2:
            return
        for start in range(0, len(data), SEGMENT_BYTES):
            piece = data[start : start + SEGMENT_BYTES]
            key = (file.sha256, first + start // SEGMENT_BYTES)
            self._segments.put(key, (piece, hashes), len(piece))

    def is_checked(self, file: ChunkFile, number: int, data: bytes, hashes: str) -> bool:
        kept = self._segments.get((file.sha256, number))
        return kept is not None and kept[0] is data and kept[1] == hashes

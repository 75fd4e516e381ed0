"""A chunk of a remote bucket, and how much of it must be read to check what is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import ChunkFile, SegmentsFile

WHOLE_BYTES = 256 * 1024
"""A chunk of at most this size is read by one request, and checked by its SHA-256."""

UNSEGMENTED_WHOLE_BYTES = 4 << 20
"""The same for a chunk without segments, of an earlier release: of a larger one only the needed
ranges are read, which nothing can check."""


class Way(Enum):
    """How a chunk is read."""

    WHOLE = "whole"
    SEGMENTS = "segments"
    PLAIN = "plain"
    """By ranges that nothing can check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One chunk to be read by ranges."""

    bucket: ReadBucket
    block: str
    key: str
    file: ChunkFile
    segments: SegmentsFile | None

    @property
    def way(self) -> Way:
        if self.file.bytes <= WHOLE_BYTES:
            return Way.WHOLE
        if self.segments is not None:
            return Way.SEGMENTS
        return Way.WHOLE if self.file.bytes <= UNSEGMENTED_WHOLE_BYTES else Way.PLAIN

    @property
    def hashes(self) -> str:
        """What its bytes are compared with, by name: bytes that were compared with something else
        may be others, where a block lies about its chunk."""
        if self.way is Way.SEGMENTS and self.segments is not None:
            return self.segments.sha256
        return self.file.sha256

    def without_segments(self) -> Remote:
        """Return the same chunk as one whose segments cannot be read."""
        return replace(self, segments=None)

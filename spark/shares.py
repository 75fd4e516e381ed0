"""What each Spark task reads: small chunks gathered, large ones cut by row group. Pure.

Rules:
- Every row of every chunk is in exactly one share.
- A run holds chunks in the plan's order, up to ``partition_bytes``; a chunk that is larger than that by half is cut into
  shares of about that size, each alone in its run. How many row groups it has only its footer tells: a share without one
  is an empty task.
- Asked for nothing there is one run, empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from blockstore.scan.chunk import ScanChunk

__all__ = ["Share", "shares"]

MOST_PARTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A chunk, or one of several parts of it."""

    chunk: ScanChunk
    part: int = 0
    parts: int = 1


def shares(chunks: Iterable[ScanChunk], partition_bytes: int) -> list[tuple[Share, ...]]:
    """The chunks in order, in runs for one task each; at least one run."""
    runs: list[list[Share]] = []
    size = 0
    for chunk in chunks:
        parts = _parts(chunk, partition_bytes)
        if parts > 1:
            runs += [[Share(chunk=chunk, part=part, parts=parts)] for part in range(parts)]
            size = partition_bytes
            continue
        if not runs or size + chunk.file.bytes > partition_bytes:
            runs.append([])
            size = 0
        runs[-1].append(Share(chunk=chunk))
        size += chunk.file.bytes
    return [tuple(run) for run in runs] or [()]


def _parts(chunk: ScanChunk, partition_bytes: int) -> int:
    if 2 * chunk.file.bytes <= 3 * partition_bytes:
        return 1
    return min(MOST_PARTS, chunk.file.rows, -(-chunk.file.bytes // partition_bytes))

"""Divide a plan among Spark's tasks: small chunks are grouped, large ones are cut by row group.
Pure.

Rules:
- Every row of every chunk is in exactly one share.
- A run contains chunks in the plan's order, up to ``partition_bytes``. A chunk that is larger by
  half is cut into shares of about that size, each alone in its run. Only its footer says how many
  row groups it has: a share without one is an empty task.
- A plan without chunks is one empty run.
- The positions of a chunk's hidden rows travel packed.
- By default there are about sixteen shares, each large enough to be worth a task. The number of
  cores is unknown where the plan is made, and with a few large shares one core would finish long
  after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from blockstore.scan.chunk import ScanChunk
from blockstore.spark.reading.positions import packed, unpacked

MOST_PARTS = 256
USUAL_TASKS = 16
LEAST_BYTES = 32 * 2**20
MOST_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A chunk, or one of several parts of it."""

    chunk: ScanChunk
    part: int = 0
    parts: int = 1

    def __reduce__(self) -> tuple[Callable[..., Share], tuple[object, ...]]:
        """Pickle the chunk without its hidden positions, and these packed."""
        hidden = None if self.chunk.hidden is None else packed(self.chunk.hidden)
        return _share, (replace(self.chunk, hidden=None), hidden, self.part, self.parts)


def _share(chunk: ScanChunk, hidden: bytes | None, part: int, parts: int) -> Share:
    if hidden is not None:
        chunk = replace(chunk, hidden=unpacked(hidden))
    return Share(chunk=chunk, part=part, parts=parts)


def share_bytes(chunks: Iterable[ScanChunk]) -> int:
    """The default size of a share: a sixteenth of all chunks, but between 32 and 128 MiB."""
    total = sum(chunk.file.bytes for chunk in chunks)
    return max(LEAST_BYTES, min(MOST_BYTES, -(-total // USUAL_TASKS)))


def shares(
    chunks: Sequence[ScanChunk], partition_bytes: int | None = None
) -> list[tuple[Share, ...]]:
    """The chunks in order, in at least one run; each run is for one task.

    ``partition_bytes`` is the approximate size of a run; None means ``share_bytes``.
    """
    partition_bytes = share_bytes(chunks) if partition_bytes is None else partition_bytes
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

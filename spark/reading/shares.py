"""What each Spark task reads: small chunks gathered, large ones cut by row group. Pure.

Rules:
- Every row of every chunk is in exactly one share.
- A run holds chunks in the plan's order, up to ``partition_bytes``; a chunk that is larger than
  that by half is cut into shares of about that size, each alone in its run. How many row groups it
  has only its footer tells: a share without one is an empty task.
- Asked for nothing there is one run, empty.
- Where nobody says how large a share is, there are about sixteen, each large enough to be worth a
  task: how many cores there are is not known where the plan is made, and with few large shares one
  core would end long after the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blockstore.scan.chunk import ScanChunk

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


def share_bytes(chunks: Iterable[ScanChunk]) -> int:
    """How large shares of these chunks should be: a sixteenth of all, but between 32 and 128
    MiB."""
    total = sum(chunk.file.bytes for chunk in chunks)
    return max(LEAST_BYTES, min(MOST_BYTES, -(-total // USUAL_TASKS)))


def shares(
    chunks: Sequence[ScanChunk], partition_bytes: int | None = None
) -> list[tuple[Share, ...]]:
    """The chunks in order, in runs for one task each of about ``partition_bytes`` (None:

    ``share_bytes``); at least one run.
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

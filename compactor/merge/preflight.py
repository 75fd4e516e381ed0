"""The check for disk space before a merge starts.

Rules:
- The sizes of chunks show what a merge needs: its output is at most about as large as its inputs.
  The work disk holds copies of a remote store's chunks, and the rows of those that are too many to
  be open at once, or not in the table's order.
- A merge that does not fit is refused with NoSpace, which names the folder, what is free and what
  is needed. Others continue.
- Sizes are estimates and disks are shared: a disk that still fills up ends the merge with NoSpace
  too, and leaves nothing on the work disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from blockstore.bucket.api import ReadBucket
from blockstore.cli.output import size
from blockstore.errors import NoSpace
from blockstore.names import META

_SPILLED = 3
"""Bytes of a spilled run per byte of Parquet, usually at most: Arrow compressed with lz4."""

_SPARE = 64 << 20
"""What stays free on a disk for other uses."""

Free = Callable[[Path], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of disk that a merge may take at most."""

    work: int
    output: int


def needs(
    sizes: Sequence[int],
    *,
    open_together: int,
    limit: int,
    held_bytes: int,
    remote: bool,
    in_parts: bool = False,
    sorted_first: int = 0,
) -> Needs:
    """The disk that a merge needs.

    Args:
        sizes: The bytes of each chunk.
        open_together: How many of them share keys.
        limit: How many may be open at once.
        held_bytes: Chunks of at most this size are held in memory.
        remote: Whether the store is remote.
        in_parts: Whether only parts of chunks are read, which are copied first.
        sorted_first: The bytes of the chunks that the merge must sort.
    """
    copies = sum(one for one in sizes if one > held_bytes) if remote or in_parts else 0
    excess = open_together - limit
    spilled = sum(sorted(sizes)[: min(limit, excess) + excess]) if excess > 0 else 0
    return Needs(
        work=copies + _SPILLED * (spilled + sorted_first), output=0 if remote else sum(sizes)
    )


def check_space(
    wanted: Needs, bucket: ReadBucket, work_dir: Path, free: Free | None = None
) -> None:
    """Raise NoSpace unless the work disk, and a local bucket's disk, have enough free space."""
    free = free or free_bytes
    work, target = _existing(work_dir), bucket.path_of(META)
    output = None if target is None else _existing(Path(target))
    if output is not None and output.stat().st_dev == work.stat().st_dev:
        _check(output, wanted.output + wanted.work, free, "free some space")
        return
    _check(work, wanted.work, free, "free some space, or set work_dir to a larger disk")
    if output is not None:
        _check(output, wanted.output, free, "free some space")


def free_bytes(path: Path) -> int:
    """The bytes that a process may still write to the disk of ``path``."""
    return shutil.disk_usage(path).free


def _check(path: Path, wanted: int, free: Free, fix: str) -> None:
    if not wanted:
        return
    there = free(path)
    if there < wanted + _SPARE:
        raise NoSpace(
            f"the merge needs up to {size(wanted)} on the disk of {path}, but {size(there)} are "
            f"free, of which {size(_SPARE)} are reserved: {fix}; nothing was written, and the "
            "merge is planned again"
        )


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(parent for parent in (path, *path.parents) if parent.exists())

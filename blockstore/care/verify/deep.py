"""The deep look: every file of every complete block, read once, in bounded memory.

Rules:
- A few chunks at a time, each row group by row group: memory does not grow with the table.
- What a chunk holds is checked only once its SHA-256 is right: of other bytes nothing more can be
  said.
- A merged block is sorted across its chunks (format, "chunks"): the first row of one against the
  last of the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.verify.chunk import ChunkLook, Problem, in_order, look_at_chunk
from blockstore.errors import ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.names import object_key
from blockstore.world import World

__all__ = ["check_deep"]

_LANES = 4
"""Chunks that are read side by side; each holds a row group."""

_MERGER = "compactor"
"""The producer of merges: an overwrite replaces several blocks too, and is sorted chunk by chunk
only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    meta: BlockMeta
    file: ChunkFile
    severity: Severity


def check_deep(
    bucket: ReadBucket,
    world: World,
    blocks: Iterable[tuple[BlockMeta, Severity]],
    url: str,
    advance: Callable[[float], None] = lambda _: None,
) -> Iterator[Finding]:
    """What is wrong inside the files of these blocks (each meta with its schema, and how bad it
    would be).

    A file that is missing or has another size is left to the fast look, which has told of it.
    """
    tasks = (
        _Task(meta=meta, file=file, severity=bad) for meta, bad in blocks for file in meta.files
    )
    before: tuple[_Task, ChunkLook] | None = None
    while wave := list(islice(tasks, _LANES)):
        for task, look in zip(
            wave, world.pool.map(lambda one: _look(bucket, one), wave), strict=True
        ):
            advance(task.file.bytes)
            for problem in look.problems:
                yield _finding(task, problem, url)
            if before is not None and _is_torn(before, task, look):
                what = (
                    f"its first row stands before the last one of {before[0].file.path}, and a "
                    "merged block is sorted across its chunks"
                )
                yield _finding(task, Problem(check=Check.ORDER, what=what), url)
            before = (task, look)


def is_merge(meta: BlockMeta) -> bool:
    """Whether a block was merged of several: then its chunks are sorted one after the other."""
    return meta.producer == _MERGER and len(meta.parents) > 1


def _look(bucket: ReadBucket, task: _Task) -> ChunkLook:
    if task.file in task.meta.chunks:
        return look_at_chunk(bucket, task.meta, task.file)
    try:
        data = bucket.get(object_key(task.meta.ulid, task.file.path)).data
    except ObjectMissing:
        return ChunkLook()
    right = len(data) != task.file.bytes or hashlib.sha256(data).hexdigest() == task.file.sha256
    return ChunkLook() if right else ChunkLook(problems=(Problem.of_hash(),))


def _is_torn(before: tuple[_Task, ChunkLook], task: _Task, look: ChunkLook) -> bool:
    earlier, seen = before
    if earlier.meta.ulid != task.meta.ulid or not is_merge(task.meta):
        return False
    if seen.last is None or look.first is None:
        return False
    return not in_order([seen.last, look.first], task.meta.sort_by)


def _finding(task: _Task, problem: Problem, url: str) -> Finding:
    return Finding(
        severity=task.severity,
        check=problem.check,
        object=object_key(task.meta.ulid, task.file.path),
        block=task.meta.ulid,
        what=problem.what,
        fix=_fix(task, problem, url),
    )


def _fix(task: _Task, problem: Problem, url: str) -> str:
    if task.severity is Severity.NOTE:
        return (
            "nothing, unless an older version is to be read: other blocks hold its rows now, and "
            "it goes with its block"
        )
    if problem.source is not None:
        return (
            f"blockstore revert {url} {problem.source}, and write those rows again as UTF-8; or "
            "delete them by a condition on "
            f"other columns; without an index mark block {task.meta.ulid} for deletion"
        )
    return f"blockstore repair {url} --block {task.meta.ulid} --from REPLICA, or --drop-damaged"

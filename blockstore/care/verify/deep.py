"""The deep check: read every file of every complete block once, in bounded memory.

Rules:
- A few chunks at a time, each by row groups: memory does not grow with the table.
- The values of a chunk are checked only if its SHA-256 is right. If it is not, the hashes of its
  segments show which bytes are damaged; damage of these hashes is a problem of its own.
- A merged block is sorted across its chunks (format, "chunks"): the first row of a chunk is
  compared with the last row of the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from blockstore.bucket.api import ReadBucket
from blockstore.care.examine import Examined, examine, list_directory
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.verify.chunk import ChunkLook, Problem, in_order, look_at_chunk
from blockstore.care.verify.live import check_files, check_live
from blockstore.care.verify.segments import check_segments, read_segments, segments_finding
from blockstore.errors import NotFound, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.schema import serialize
from blockstore.format.segments import FileSegments
from blockstore.index.state import State
from blockstore.names import META, meta_key, object_key
from blockstore.world import World

_LANES = 4
"""Chunks that are read at the same time; each holds a row group in memory."""

_MERGER = "compactor"
"""The producer of merges: an overwrite replaces several blocks too, and is sorted chunk by chunk
only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    meta: BlockMeta
    file: ChunkFile
    severity: Severity
    segments: FileSegments | None
    """The hashes of the chunk's segments, where there are some."""


def check_deep(
    bucket: ReadBucket,
    world: World,
    blocks: Iterable[tuple[BlockMeta, Severity]],
    url: str,
    advance: Callable[[float], None] = lambda _: None,
) -> Iterator[Finding]:
    """Report what is wrong inside the files of these blocks.

    Each block is a meta with its schema, and the severity of a problem in it. A file that is
    missing or has another size is not reported: the fast check has done so.
    """
    wrong: list[Finding] = []
    tasks = _tasks(bucket, blocks, url, wrong)
    before: tuple[_Task, ChunkLook] | None = None
    while wave := list(islice(tasks, _LANES)):
        for task, look in zip(
            wave, world.pool.map(lambda one: _look(bucket, one), wave), strict=True
        ):
            advance(task.file.bytes)
            if look.wrong_segments:
                wrong.append(segments_finding(task.meta, f"differ from {task.file.path}", url))
            for problem in look.problems:
                yield _finding(task, problem, url)
            if before is not None and _is_torn(before, task, look):
                what = (
                    f"its first row sorts before the last one of {before[0].file.path}, but a "
                    "merged block is sorted across its chunks"
                )
                yield _finding(task, Problem(check=Check.ORDER, what=what), url)
            before = (task, look)
        yield from wrong
        wrong.clear()


def _tasks(
    bucket: ReadBucket,
    blocks: Iterable[tuple[BlockMeta, Severity]],
    url: str,
    wrong: list[Finding],
) -> Iterator[_Task]:
    """Yield every file of the blocks; add damaged hashes of segments to ``wrong``."""
    for meta, bad in blocks:
        segments, finding = read_segments(bucket, meta, url)
        if finding is not None:
            wrong.append(finding)
        for file in meta.files:
            yield _Task(meta=meta, file=file, severity=bad, segments=segments.get(file.path))


def is_merge(meta: BlockMeta) -> bool:
    """Return whether a block was merged from several: then it is sorted across its chunks."""
    return meta.producer == _MERGER and len(meta.parents) > 1


def _look(bucket: ReadBucket, task: _Task) -> ChunkLook:
    if task.file in task.meta.chunks:
        return look_at_chunk(bucket, task.meta, task.file, task.segments)
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
            "nothing, unless an older version must be read: other blocks hold its rows now, and it "
            "is removed with its block"
        )
    if problem.source is not None:
        return (
            f"blockstore revert {url} {problem.source}, and write those rows again as UTF-8; or "
            "delete them by a condition on other columns; without an index, mark block "
            f"{task.meta.ulid} for deletion"
        )
    return f"blockstore repair {url} --block {task.meta.ulid} --from REPLICA, or --drop-damaged"


def check_block(
    bucket: ReadBucket, world: World, state: State | None, ulid: str
) -> Iterator[Finding]:
    """Check one block, live or not, byte by byte. Raises NotFound if there is none."""
    found = examine(bucket, list_directory(bucket, ulid))
    live = None if state is None else state.blocks.get(ulid)
    if live is None and not found.directory.objects:
        raise NotFound(
            f"there is no block {ulid} in {bucket.url}: its directory is empty; list the blocks "
            "with 'blockstore inspect'"
        )
    if live is not None and state is not None:
        yield from check_live(live, found, state.definition, bucket.url)
        yield from check_segments(live.meta, found, bucket.url)
        schema = serialize(state.definition.schemas[live.meta.schema_id])
        yield from check_deep(
            bucket, world, [(replace(live.meta, schema=schema), Severity.ERROR)], bucket.url
        )
    elif found.meta is None:
        yield _unreadable(found, bucket.url)
    else:
        yield from check_files(found.meta, found, bucket.url)
        yield from check_segments(found.meta, found, bucket.url)
        yield from check_deep(bucket, world, [(found.meta, Severity.WARNING)], bucket.url)


def _unreadable(found: Examined, url: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        check=Check.BLOCK,
        object=meta_key(found.ulid),
        block=found.ulid,
        what=found.meta_problem or f"{META} is missing",
        fix=f"blockstore repair {url} --block {found.ulid} --from REPLICA",
    )

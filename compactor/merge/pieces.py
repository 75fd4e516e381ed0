"""A large merge in pieces: one range of keys each, done by independent workers, and joined.

A distributed engine is given ``Pieces``, so that it needs no code of the compactor: it carries
tasks to workers and results back, and calls this for how to cut, how to do one piece, and what the
parts make.

Rules:
- The pieces' ranges do not overlap and leave nothing out (``ranges.py``): their chunks, in the
  order of the pieces, are one block that is sorted across its chunks, row for row what one worker
  would have written.
- Rows in = rows out + rows dropped over all pieces. If that does not hold (a chunk was not sorted,
  so a piece stopped too early) the parts are not a merge: the result is None, and the merge is done
  in one piece.
- Cutting reads statistics and the page index of a few chunks, of one without that the leading
  column. A bad cut makes pieces uneven, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pyarrow as pa

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.compactor.merge.engine import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.inputs import key_range, leading_column
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.order import KeyPart, key_part
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.compactor.merge.workdir import WorkDirectory, merge_folder
from blockstore.errors import BlockstoreError
from blockstore.format.block import ChunkFile
from blockstore.format.chunk_reader import read_batches
from blockstore.format.footer import Footer
from blockstore.format.new_block import WrittenChunks
from blockstore.format.page_ranges import page_ranges
from blockstore.format.unreadable import UNREADABLE
from blockstore.names import object_key
from blockstore.world import World

_SAMPLED = 8
"""How many chunks, the largest, are sampled; the others only give their statistics."""

_POINTS = 64
"""Evenly spaced values: from a sampled chunk, or between the bounds of another one."""

_POINTS_A_PAGE = 8

_LEAST_POINTS = 32
"""Fewer values from the bounds of pages say too little: the column is read."""

Point = tuple[KeyPart, float]
"""A key, and how many rows it represents."""


class Pieces:
    """The parts of merges, for an engine that distributes them. Stateless, so it pickles by
    name."""

    def cut(self, bucket: ReadBucket, task: MergeTask, count: int) -> tuple[MergeTask, ...]:
        """The task as at most ``count`` pieces with about the same number of rows; the task itself
        if it cannot be cut."""
        if count < 2 or not task.definition.sort_by:
            return (task,)
        column = task.definition.sort_by[0]
        ends = _quantiles(list(_points(bucket, task)), count)
        bounds: list[KeyPart | None] = [None, *ends, None]
        if not ends:
            return (task,)
        return tuple(
            replace(task, within=KeyRange(column=column, low=low, high=high))
            for low, high in pairwise(bounds)
        )

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """Do one task or piece in this process, by one thread: other processes use the other cores.

        Other attempts at it may be running elsewhere.
        """
        work = WorkDirectory(merge_folder(options.work_dir, world.ids.token()))
        try:
            mine = replace(options, work_dir=work.open(), one_attempt=False, lanes=1)
            return LocalEngine().merge(bucket, world, task, mine)
        finally:
            work.clear()

    def together(self, task: MergeTask, parts: Sequence[Merged]) -> Merged | None:
        """The merge that the pieces make, in their order; None if rows are missing."""
        whole = Merged(
            written=WrittenChunks.together(part.written for part in parts),
            dropped_rows=sum(part.dropped_rows for part in parts),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )
        read = sum(file.rows for item in task.inputs for file in item.meta.chunks)
        return whole if whole.written.rows + whole.dropped_rows == read else None


def _points(bucket: ReadBucket, task: MergeTask) -> Iterator[Point]:
    chunks = [(item.meta.ulid, file) for item in task.inputs for file in item.meta.chunks]
    columns = {item.meta.ulid: leading_column(item.meta, task) for item in task.inputs}
    largest = sorted(chunks, key=lambda chunk: (-chunk[1].bytes, chunk[0], chunk[1].path))[
        :_SAMPLED
    ]
    sampled = {(ulid, file.path) for ulid, file in largest}
    kind = task.definition.schema.field(task.definition.sort_by[0]).type
    for ulid, file in chunks:
        column = columns[ulid]
        if column is None:
            continue
        values: list[KeyPart] = []
        if (ulid, file.path) in sampled and column in file.columns:
            values = _page_bounds(bucket, ulid, file, column, kind) or _sample(
                bucket, ulid, file, column, kind
            )
        values = values or _spread(file, column, kind)
        yield from ((value, file.rows / len(values)) for value in values)


def _page_bounds(
    bucket: ReadBucket, ulid: str, file: ChunkFile, column: str, kind: pa.DataType
) -> list[KeyPart]:
    """Values of each page of a sorted chunk, from its least to its greatest; none if the tail of
    the chunk does not say, or does not have the column with the table's type."""
    if file.footer is None:
        return []
    key = object_key(ulid, file.path)
    try:
        tail = bucket.get_range(key, max(0, file.bytes - file.footer), file.footer)
        footer = Footer(tail, file.bytes)
        pages = page_ranges(footer.parquet, footer, pa.field(column, kind))
    except (BlockstoreError, ValueError, *UNREADABLE):
        return []
    values = [value for _, (low, high) in pages for value in _between(low, high)]
    return [(0, value) for value in values] if len(values) >= _LEAST_POINTS else []


def _between(low: int | str | None, high: int | str | None) -> list[int] | list[str]:
    """Pages of blocks over the same keys begin at about the same ones, so bounds alone are not
    enough places to cut at; of numbers and times, those in between are."""
    if isinstance(low, int) and isinstance(high, int):
        return [
            low + (high - low) * place // (_POINTS_A_PAGE - 1) for place in range(_POINTS_A_PAGE)
        ]
    return [bound for bound in (low, high) if isinstance(bound, str)]


def _sample(
    bucket: ReadBucket, ulid: str, file: ChunkFile, column: str, kind: pa.DataType
) -> list[KeyPart]:
    """Evenly spaced values of a sorted chunk; none if it cannot be read, which the merge itself
    reports better."""
    step = max(1, file.rows // _POINTS)
    values, before = [], 0
    try:
        for batch in read_batches(bucket, object_key(ulid, file.path), file, [column]):
            held = batch.column(0).cast(kind)
            first = -before % step
            values += [key_part(held[place]) for place in range(first, len(held), step)]
            before += len(held)
    except (BlockstoreError, pa.ArrowException, OSError, IndexError):
        return []
    return [value for value in values if value[0] == 0]


def _spread(file: ChunkFile, column: str, kind: pa.DataType) -> list[KeyPart]:
    """Values between the bounds of the statistics: evenly spaced numbers and times, otherwise the
    bounds alone."""
    stats = file.columns.get(column)
    if stats is None:
        return []
    floor, ceiling = key_range(stats, kind, file.rows)
    ends = [bound for bound in (floor, ceiling) if bound is not None and bound[0] == 0]
    if len(ends) < 2 or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return ends
    low, high = ends[0][1], ends[1][1]
    if not (isinstance(low, int) and isinstance(high, int)):
        return ends
    return [(0, low + (high - low) * place // (_POINTS - 1)) for place in range(_POINTS)]


def _quantiles(points: list[Point], count: int) -> list[KeyPart]:
    """The keys that divide the points into ``count`` parts of about equal weight, or fewer if there
    are few keys."""
    points.sort(key=lambda point: point[0])
    reached = list(accumulate(weight for _, weight in points))
    if not reached:
        return []
    ends: list[KeyPart] = []
    part = 1
    for (value, _), upto in zip(points, reached, strict=True):
        if upto < reached[-1] * part / count:
            continue
        while part < count and upto >= reached[-1] * part / count:
            part += 1
        if value > (ends[-1] if ends else points[0][0]):
            ends.append(value)
        if part == count:
            break
    return ends

"""The chunks of a merge as runs to open, with the sources of their rows and their key bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from blockstore.compactor.merge.chunkrun import ChunkSpec
from blockstore.compactor.merge.engine import MergeInput, MergeTask
from blockstore.compactor.merge.order import KeyPart
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.compactor.merge.sources import Sources
from blockstore.compactor.merge.versions import Implied
from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats
from blockstore.format.names_now import sort_by_of, stored_as
from blockstore.format.statistics import decode
from blockstore.scan.plan import carried

_NAN: KeyPart = (1, 0)
_NULL: KeyPart = (2, 0)


def chunk_specs(task: MergeTask, sources: Sources) -> list[ChunkSpec]:
    """The chunks of all inputs, in the order of the inputs and of their files: the places of the
    stable order.

    A chunk of a block with all rows excepted is still read, so that its rows are counted as
    dropped. A merge within a range reads only chunks that can have rows of the range; one of former
    versions only chunks that have some.
    """
    specs = [
        spec
        for item in task.inputs
        for spec in _specs(item, task, sources)
        if not task.former or spec.implied.left_out is not None
    ]
    within = task.within
    if within is None:
        return specs
    return [_cut(spec, within) for spec in specs if within.meets(spec.floor, spec.ceiling)]


def _specs(item: MergeInput, task: MergeTask, sources: Sources) -> Iterator[ChunkSpec]:
    first = item.first_row_id
    for file in item.meta.chunks:
        yield _spec(item, file, task, sources, first)
        first = None if first is None else first + file.rows


def _spec(
    item: MergeInput, file: ChunkFile, task: MergeTask, sources: Sources, first_row_id: int | None
) -> ChunkSpec:
    implied = item.meta.level == 1
    numbers = (sources.number(source) for source in item.dropped)
    leading = leading_column(item.meta, task)
    floor, ceiling = _range(file, leading, task)
    return ChunkSpec(
        ulid=item.meta.ulid,
        file=file,
        source=(0 if task.former else sources.number(item.meta.sources[0])) if implied else None,
        excepted=frozenset(number for number in numbers if number is not None),
        floor=floor,
        ceiling=ceiling,
        in_order=in_order(item.meta, task),
        leading=leading,
        segments=item.meta.segments,
        implied=Implied(
            version=item.version if implied else None,
            first_row_id=first_row_id if implied else None,
            carries=frozenset(carried(item.meta, task.definition.identity)),
            left_out=item.left_out.get(file.path),
            former=0 if task.former else None,
        ),
    )


def in_order(meta: BlockMeta, task: MergeTask) -> bool:
    """Whether a block declares the merge's order: the same columns, or these and then more."""
    sort_by = task.definition.sort_by
    return sort_by_of(meta, task.definition)[: len(sort_by)] == sort_by


def _cut(spec: ChunkSpec, within: KeyRange) -> ChunkSpec:
    floor, ceiling = within.clamped(spec.floor, spec.ceiling)
    return replace(spec, floor=floor, ceiling=ceiling, within=within)


def leading_column(meta: BlockMeta, task: MergeTask) -> str | None:
    """The name under which a block stores the leading column of the merge's order."""
    sort_by = task.definition.sort_by
    return stored_as(meta, task.definition, sort_by[0]) if sort_by else None


def _range(
    file: ChunkFile, leading: str | None, task: MergeTask
) -> tuple[KeyPart | None, KeyPart | None]:
    stats = None if leading is None else file.columns.get(leading)
    if stats is None:
        return None, None
    kind = task.definition.schema.field(task.definition.sort_by[0]).type
    return key_range(stats, kind, file.rows)


def key_range(
    stats: ColumnStats, kind: pa.DataType, rows: int
) -> tuple[KeyPart | None, KeyPart | None]:
    """The bounds of a column's key parts. ``kind`` may be a newer, wider type: the bounds are the
    same."""
    if stats.nulls + stats.nans == rows:
        return (_NAN if stats.nans else _NULL), (_NULL if stats.nulls else _NAN)
    least, greatest = decode(kind, stats.min), decode(kind, stats.max)
    floor = None if least is None else (0, least)
    if stats.nulls:
        return floor, _NULL
    if stats.nans:
        return floor, _NAN
    return floor, None if greatest is None else (0, greatest)

"""The result of a merge: rows on their way into chunks, and the block that the chunks become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from blockstore.compactor.merge.engine import Merged, MergeTask
from blockstore.compactor.merge.sources import SOURCE, Sources
from blockstore.format.block import BlockMeta, ChunkFile, Parent, SegmentsFile, VisibleBy
from blockstore.format.new_block import block_meta

PRODUCER = "compactor"


def with_source_names(table: pa.Table, sources: Sources) -> pa.Table:
    """The table with the numbers of sources replaced by their names."""
    numbers = table.column(SOURCE).combine_chunks().to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(sources.names), dtype=bool)
    occurs[numbers] = True
    used = np.flatnonzero(occurs)
    places = np.zeros(len(sources.names), dtype=np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    if len(used) < len(places):
        numbers = places[numbers]
    names = pa.DictionaryArray.from_arrays(pa.array(numbers), sources.names.take(pa.array(used)))
    return table.set_column(table.schema.get_field_index(SOURCE), SOURCE, names)


def merged_level(levels: Sequence[int]) -> int:
    """The level of the result of a merge of blocks of these levels."""
    return max(levels) + 1 if len(levels) > 1 else max(2, *levels)


def merged_block(
    task: MergeTask,
    merged: Merged,
    *,
    visible_by: VisibleBy,
    sources_file: ChunkFile | None = None,
    segments: SegmentsFile | None = None,
) -> BlockMeta:
    """The block of a merge: it has the union of its inputs' sources, one level above the highest,
    and names its parents.

    Where rows have an identity one block alone is rewritten: it keeps its level, from 2 on, with a
    higher revision. A block of former versions has no parents, since its rows count beside theirs.

    Its time range is that of the rows written; without a time column, the union of the inputs'
    ranges.
    """
    metas = [item.meta for item in task.inputs]
    rewritten = len(metas) == 1 and task.definition.identity is not None
    written = merged.written
    if task.definition.time_column is None:
        written = replace(
            written,
            min_time=min(meta.min_time for meta in metas),
            max_time=max(meta.max_time for meta in metas),
        )
    return block_meta(
        written,
        ulid=task.ulid,
        definition=task.definition,
        visible_by=visible_by,
        producer=PRODUCER,
        level=2 if task.former else merged_level([meta.level for meta in metas]),
        sources=task.sources,
        parents=()
        if task.former
        else tuple(
            Parent(ulid=meta.ulid, min_time=meta.min_time, max_time=meta.max_time) for meta in metas
        ),
        labels=metas[0].labels,
        resolution=metas[0].resolution,
        revision=0 if task.former else max(meta.revision for meta in metas) + rewritten,
        own=task.former,
        kind=task.kind,
        sources_file=sources_file,
        segments=segments,
    )

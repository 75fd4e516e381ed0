"""The blocks that can hold matching rows by the statistics of their chunks, judged all at once.

Rules:
- The ranges of a column are kept with the blocks: the first condition on a column reads them out of
  the blocks that time and labels leave, later ones compare two arrays. So blocks that cannot match
  cost almost nothing, however many there are.
- Of stored blocks the ranges are read column by column; a block becomes an object only where its
  statistics are not plain (``stored_ranges.py``).
- Coarser than the judgment of a chunk (``plan.py``), never finer: it uses only the range of each
  column's values in the condition, and the range over all chunks of a block. A block with unknown
  or inconsistent ranges stays and is judged there.
- The time column is skipped: the blocks' own time ranges were compared before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.definition import Definition
from blockstore.index.derived import Arrays, Mask
from blockstore.index.rows import LiveBlock
from blockstore.predicate import Predicate
from blockstore.predicate.literals import Kind, kind_of
from blockstore.predicate.nodes import Column
from blockstore.scan.columns import Schemas
from blockstore.scan.ranges import Range, Ranges, can_hold, range_over
from blockstore.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieved:
    """The result of a sieve."""

    may: Mask
    """The blocks that can hold matching rows."""
    chunks: int
    """The number of chunks of the blocks that were left out."""


def sieve(snapshot: Snapshot, predicate: Predicate, wanted: Mask) -> Sieved:
    """Return what the statistics leave of the ``wanted`` blocks of ``snapshot.blocks.table()``."""
    definition = snapshot.definition
    may, chunks = wanted, 0
    for name in predicate.columns:
        place = definition.schema.get_field_index(name)
        hull = predicate.hull(name)
        if place < 0 or name == definition.time_column or (hull.low is None and hull.high is None):
            continue
        column = Column(name, definition.schema.field(place).type)
        kind = kind_of(column.type)
        if can_hold(kind):
            make = _Maker(definition, column, kind)
            judged = np.flatnonzero(may)
            *held, count = (
                array[judged] for array in snapshot.blocks.derived(name, definition, make, may)
            )
            left = Ranges(*held).meet(hull)
            chunks += int(count[~left].sum())
            may = np.zeros_like(may)
            may[judged[left]] = True
    return Sieved(may=may, chunks=chunks)


class _Maker:
    """Makes arrays, by block: the range of one column, and the number of the block's chunks."""

    def __init__(self, definition: Definition, column: Column, kind: Kind) -> None:
        self._definition = definition
        self._column = column
        self._kind = kind

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        schemas = Schemas(self._definition)
        ranges = Ranges.of([self._range(block.meta, schemas) for block in blocks], self._kind)
        return (*ranges, np.array([len(block.meta.chunks) for block in blocks], dtype=np.int64))

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        from blockstore.scan.stored_ranges import stored_ranges  # of a checkpoint's blocks alone

        return stored_ranges(rows, self._definition, self._column, self._kind)

    def _range(self, meta: BlockMeta, schemas: Schemas) -> Range:
        """Return the range of the column over all chunks; None = unknown."""
        try:
            id_ = schemas.id_of(meta.schema_id, meta.schema, meta.ulid)
            schema, names = schemas.schema(id_), schemas.stored_names(id_)
            bounds = [
                bounds_from_statistics(file.columns, schema, file.rows, names=names)(self._column)
                for file in meta.chunks
            ]
        except (Corrupt, Invalid):
            return None, None
        return range_over(bounds, self._kind)

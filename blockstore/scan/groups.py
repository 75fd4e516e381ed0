"""The row groups of a chunk that can hold rows of a scan, by the bounds in the file's own footer.

Rules:
- No group is left out that holds a row of the scan: unknown bounds prune nothing.
- Labels and hidden columns belong to the chunk, and were judged with it.
"""

from __future__ import annotations

import pyarrow.parquet as pq

from blockstore.format.block import ColumnStats
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.chunk_reader import JudgeGroups
from blockstore.format.row_groups import row_group_statistics
from blockstore.predicate.arrow import names_of
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Bounds, BoundsOf
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan


def judge_groups(plan: ScanPlan, chunk: ScanChunk) -> JudgeGroups | None:
    """Return a function that judges for each row group of the chunk's file whether it may hold rows
    of the plan; None if its footer cannot help.
    """
    stored, reads = plan.schemas[chunk.schema_id], plan.reads(chunk.schema_id)
    names = {name: reads[name].stored_as for name in names_of(plan.predicate.node) if name in reads}
    fields = [stored.field(name) for name in names.values() if name is not None]
    if not fields:
        return None

    def bounds_over(rows: int, stats: dict[str, ColumnStats]) -> BoundsOf:
        known = bounds_from_statistics(stats, stored, rows, names=names)

        def bounds_of(column: Column) -> Bounds:
            return known(column) if column.name in names else Bounds(rows=rows)

        return bounds_of

    def judged(parquet: pq.ParquetFile) -> list[bool]:
        return [
            plan.predicate.may(bounds_over(rows, stats))
            for rows, stats in row_group_statistics(parquet, fields)
        ]

    return judged

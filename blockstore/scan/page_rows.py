"""Which rows of a chunk can match, by the bounds of its pages in the file's own page index.

Rules:
- No row of the scan lies outside: what is not known leaves nothing out.
- Coarser than the judgment of a chunk (``plan.py``): of a condition it knows the range of each column's values alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.block import ColumnStats
from blockstore.format.page_statistics import page_statistics
from blockstore.predicate.bounds import bounds_from_statistics
from blockstore.predicate.literals import kind_of
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Hull
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.ranges import Range, Ranges, can_hold, range_over

__all__ = ["ColumnPages", "PagesOf", "matching_rows", "read_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPages:
    """The pages of one column of a chunk."""

    ranges: Ranges
    upto: npt.NDArray[np.int64]
    """The rows before each page, and at last all rows."""

    def rows(self, hull: Hull) -> range:
        """From the first row of the first page that meets a condition's range to the last row of the last."""
        meeting = np.flatnonzero(self.ranges.meet(hull))
        if not len(meeting):
            return range(0)
        return range(int(self.upto[meeting[0]]), int(self.upto[meeting[-1] + 1]))


PagesOf = Callable[[ScanChunk, pa.Field], ColumnPages | None]
"""The pages of a column that the chunk stores as this field; None if the file does not tell them."""


def matching_rows(plan: ScanPlan, chunk: ScanChunk, pages_of: PagesOf) -> range:
    """A range of the chunk's rows outside of which none is a row of the plan."""
    rows = range(chunk.file.rows)
    if chunk.certain:
        return rows
    stored, reads = plan.schemas[chunk.schema_id], plan.reads(chunk.schema_id)
    for name in plan.predicate.columns:
        read = reads.get(name)
        if read is None or read.stored_as is None:
            continue
        hull = plan.predicate.hull(name)
        if hull.low is None and hull.high is None:
            continue
        pages = pages_of(chunk, stored.field(read.stored_as))
        if pages is not None:
            rows = _common(rows, pages.rows(hull))
    return rows


def read_pages(parquet: pq.ParquetFile, file: pa.NativeFile, column: pa.Field) -> ColumnPages | None:
    """The pages of a column, if the file tells them; ``file`` is what ``parquet`` reads."""
    kind = kind_of(column.type)
    pages = page_statistics(parquet, file, column) if can_hold(kind) else []
    if not pages:
        return None
    ranges = [_range(stats, rows, column) for rows, stats in pages]
    upto = accumulate((rows for rows, _ in pages), initial=0)
    return ColumnPages(ranges=Ranges.of(ranges, kind), upto=np.fromiter(upto, np.int64))


def _range(stats: ColumnStats | None, rows: int, column: pa.Field) -> Range:
    if stats is None:
        return None, None
    bounds = bounds_from_statistics({column.name: stats}, pa.schema([column]), rows)
    return range_over([bounds(Column(column.name, column.type))], kind_of(column.type))


def _common(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))

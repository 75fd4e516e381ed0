"""The rows of a chunk that can match, by the bounds of its pages in the file's own page index.

Rules:
- No row of the scan is left out: unknown bounds prune nothing.
- Coarser than the judgment of a chunk (``plan.py``): it uses only the range of each column's values
  in the condition.
- The ids of new rows follow from the index: of those rows, no page is needed to find one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import BlockKind
from blockstore.format.fields import RESERVED
from blockstore.format.identity import ROW_ID
from blockstore.format.page_ranges import page_ranges
from blockstore.format.pages import Readable
from blockstore.predicate.literals import TIMED, kind_of, unit_ns
from blockstore.predicate.nodes import Key
from blockstore.predicate.prune import Hull
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.ranges import Ranges, can_hold

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MOST_ROWS = 1 << 62
_MOST_PAGES = 20_480
_MOST_CHARACTERS = 327_680
"""Limit for all text bounds together: they are kept, and tables are rarely sorted by long texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedColumn:
    """The pages of one column of a chunk."""

    ranges: Ranges
    upto: npt.NDArray[np.int64]
    """The rows before each page, and at last all rows."""

    def rows(self, hull: Hull) -> range:
        """Return the rows from the first to the last page that meets a condition's range."""
        meeting = np.flatnonzero(self.ranges.meet(hull))
        if not len(meeting):
            return range(0)
        return range(int(self.upto[meeting[0]]), int(self.upto[meeting[-1] + 1]))


PagesOf = Callable[[ScanChunk, pa.Field], PagedColumn | None]
"""The pages of a column that the chunk stores as this field; None if the file does not say.
"""


def matching_rows(plan: ScanPlan, chunk: ScanChunk, pages_of: PagesOf) -> range:
    """Return a range of the chunk's rows that includes every row of the plan."""
    rows = range(chunk.file.rows)
    if chunk.certain:
        return rows
    stored, reads = plan.schemas[chunk.schema_id], plan.reads(chunk.schema_id)
    for name in plan.predicate.columns:
        hull = plan.predicate.hull(name)
        if hull.low is None and hull.high is None:
            continue
        if name == ROW_ID and chunk.kind is BlockKind.PLAIN and chunk.first_row_id is not None:
            rows = _common(rows, _consecutive(chunk.first_row_id, hull))
            continue
        read = reads.get(name)
        if name == ROW_ID and ROW_ID in chunk.carries and chunk.first_row_id is None:
            field = RESERVED[ROW_ID]
        elif read is not None and read.stored_as is not None:
            field = stored.field(read.stored_as)
        else:
            continue
        pages = pages_of(chunk, field)
        if pages is not None:
            rows = _common(rows, pages.rows(hull))
    return rows


def read_pages(parquet: pq.ParquetFile, file: Readable, column: pa.Field) -> PagedColumn | None:
    """The pages of a column, if the file has them and they are not too many;

    ``file`` is what ``parquet`` reads.
    """
    kind = kind_of(column.type)
    pages = page_ranges(parquet, file, column) if can_hold(kind) else []
    characters = sum(
        len(bound) for _, bounds in pages for bound in bounds if isinstance(bound, str)
    )
    if not 0 < len(pages) <= _MOST_PAGES or characters > _MOST_CHARACTERS:
        return None
    unit = unit_ns(column.type) if kind in TIMED else 1
    upto = accumulate((rows for rows, _ in pages), initial=0)
    return PagedColumn(
        ranges=Ranges.of([(_key(low, unit), _key(high, unit)) for _, (low, high) in pages], kind),
        upto=np.fromiter(upto, np.int64),
    )


def _consecutive(first: int, hull: Hull) -> range:
    """Return the positions of the row ids in a range, where ids follow ``first``."""
    start = 0 if hull.low is None else max(0, hull.low - first)
    return range(start, _MOST_ROWS if hull.high is None else max(start, hull.high - first + 1))


def _key(value: int | str | None, unit: int) -> Key | None:
    return value * unit if isinstance(value, int) else value


def _common(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))

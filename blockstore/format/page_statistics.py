"""What a chunk's page index says of a column, page by page, for those who leave out the pages that cannot match.

Of each column the same is told as of row groups (``row_groups.py``), for the same reasons.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.block import ColumnStats
from blockstore.format.pages import ColumnPages, PageBounds, column_pages
from blockstore.format.row_groups import told_columns, told_statistics

__all__ = ["page_statistics"]

_INTEGER_BYTES = {"INT32": 4, "INT64": 8}


def page_statistics(
    parquet: pq.ParquetFile, file: pa.NativeFile, column: pa.Field
) -> list[tuple[int, ColumnStats | None]]:
    """The rows of each page of the column, over the whole file in its order, and their statistics where they are told; nothing
    if the file does not tell them. ``file`` is what ``parquet`` reads."""
    leaf = told_columns(parquet, [column]).get(column.name)
    groups = range(parquet.metadata.num_row_groups)
    if leaf is None:
        return []
    pages = column_pages(file, groups, [leaf], bounds=True)
    width = _INTEGER_BYTES.get(parquet.schema.column(leaf).physical_type)
    found: list[tuple[int, ColumnStats | None]] = []
    for group in groups:
        told = pages.get((group, leaf))
        if told is None or told.bounds is None:
            return []
        rows = _rows(told, parquet.metadata.row_group(group).num_rows)
        found.extend((count, _statistics(one, width)) for count, one in zip(rows, told.bounds, strict=True))
    return found


def _rows(pages: ColumnPages, all_rows: int) -> list[int]:
    ends = (*pages.first_rows[1:], all_rows)
    return [end - first for first, end in zip(pages.first_rows, ends, strict=True)]


def _statistics(bounds: PageBounds, width: int | None) -> ColumnStats | None:
    """``width``: the bytes of a whole number; None for texts."""
    low, high = bounds.low, bounds.high
    if low is None or high is None or width is None:
        return told_statistics(low, high, bounds.nulls)
    if len(low) != width or len(high) != width:
        return None
    return told_statistics(_integer(low), _integer(high), bounds.nulls)


def _integer(value: bytes) -> int:
    return int.from_bytes(value, "little", signed=True)

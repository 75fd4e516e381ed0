"""What a chunk's page index says of a column, page by page, for those who leave out the pages that cannot match.

Of each column the same is told as of row groups (``row_groups.py``), for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.pages import PageBounds, column_pages
from blockstore.format.row_groups import told_columns

__all__ = ["PageRange", "page_ranges"]

PageRange = tuple[int | str | None, int | str | None]
"""The least and the greatest value of a page, whole numbers and times as integers of the column's unit; None = not told."""

_INTEGER_BYTES = {"INT32": 4, "INT64": 8}
_UNKNOWN = None, None


def page_ranges(
    parquet: pq.ParquetFile, file: pa.NativeFile, column: pa.Field
) -> list[tuple[int, PageRange]]:
    """The rows of each page of the column, over the whole file in its order, and its range; nothing if the file does not tell.
    ``file`` is what ``parquet`` reads."""
    leaf = told_columns(parquet, [column]).get(column.name)
    groups = range(parquet.metadata.num_row_groups)
    if leaf is None:
        return []
    pages = column_pages(file, groups, [leaf], bounds=True)
    range_of = _reader(parquet.schema.column(leaf).physical_type)
    found: list[tuple[int, PageRange]] = []
    for group in groups:
        told = pages.get((group, leaf))
        if told is None or told.bounds is None:
            return []
        ends = (*told.first_rows[1:], parquet.metadata.row_group(group).num_rows)
        rows = (end - first for first, end in zip(told.first_rows, ends, strict=True))
        found.extend(zip(rows, map(range_of, told.bounds), strict=True))
    return found


def _reader(physical: str) -> Callable[[PageBounds], PageRange]:
    """How bounds of this type of the file's are read."""
    width = _INTEGER_BYTES.get(physical)

    def integers(page: PageBounds) -> PageRange:
        low, high = page.low, page.high
        if low is None or high is None or len(low) != width or len(high) != width:
            return _UNKNOWN
        return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)

    def texts(page: PageBounds) -> PageRange:
        if page.low is None or page.high is None:
            return _UNKNOWN
        try:
            return page.low.decode(), page.high.decode()
        except UnicodeDecodeError:
            return _UNKNOWN

    return texts if width is None else integers

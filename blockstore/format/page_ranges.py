"""The ranges of a column's pages by the chunk's page index, to skip pages that cannot match.

Rules:
- Only columns whose row groups have bounds (``row_groups.py``), for the same reasons.
- A footer of very many columns is not parsed: pyarrow does not return the offsets of the indexes,
  and parsing the footer in Python would take longer than most queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.format.pages import PageBounds, Readable, column_pages
from blockstore.format.row_groups import bounded_columns

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PageRange = tuple[int | str | None, int | str | None]
"""The least and the greatest value of a page, integers and times as integers of the column's unit;
None = unknown."""

_INTEGER_BYTES = {"INT32": 4, "INT64": 8}
_UNKNOWN = None, None
_MOST_COLUMNS = 500
"""In all row groups together; each takes some 40 µs."""


def page_ranges(
    parquet: pq.ParquetFile, file: Readable, column: pa.Field
) -> list[tuple[int, PageRange]]:
    """Return the number of rows and the range of each page of the column, in the file's order.

    Empty if the file does not say. ``file`` is the file that ``parquet`` reads.
    """
    leaf = bounded_columns(parquet, [column]).get(column.name)
    groups = range(parquet.metadata.num_row_groups)
    if leaf is None or len(groups) * parquet.metadata.num_columns > _MOST_COLUMNS:
        return []
    pages = column_pages(file, groups, [leaf], bounds=True)
    range_of = _reader(parquet.schema.column(leaf).physical_type)
    found: list[tuple[int, PageRange]] = []
    for group in groups:
        known = pages.get((group, leaf))
        if known is None or known.bounds is None:
            return []
        ends = (*known.first_rows[1:], parquet.metadata.row_group(group).num_rows)
        rows = (end - first for first, end in zip(known.first_rows, ends, strict=True))
        found.extend(zip(rows, map(range_of, known.bounds), strict=True))
    return found


def _reader(physical: str) -> Callable[[PageBounds], PageRange]:
    """Return a function that reads bounds of this physical type."""
    width = _INTEGER_BYTES.get(physical)

    def integers(page: PageBounds) -> PageRange:
        if page is None or any(len(bound) != width for bound in page):
            return _UNKNOWN
        low, high = (int.from_bytes(bound, "little", signed=True) for bound in page)
        return low, high

    def texts(page: PageBounds) -> PageRange:
        if page is None:
            return _UNKNOWN
        try:
            return page[0].decode(), page[1].decode()
        except UnicodeDecodeError:
            return _UNKNOWN

    return texts if width is None else integers

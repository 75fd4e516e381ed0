"""Ranges of rows that suffice, by the page statistics of chunks, so that DuckDB need not decode a
condition's complete column to find its rows.

Rules:
- Statistics are cached by the chunk's hash: the first query that names a column reads the page
  index of a chunk, later ones compare arrays.
- Chunks that one ``read_parquet`` reads share one window: binding one more of them costs more than
  a window saves.
- Only for the few chunks of a point query: each is opened here once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from blockstore.reader.query.sql.shown import FILE_INDEX
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from blockstore.format.pages import Readable
    from blockstore.scan.page_rows import PagedColumn

ReadPages: TypeAlias = "Callable[[ScanChunk, pa.Field], PagedColumn | None]"
"""Reads the pages of a column that the chunk stores as this field; None if they are unknown."""

FILE_ROW = "file_row_number"
"""DuckDB's name for the number of a row in its file."""

_MOST_CHUNKS = 8
_LEAST_ROWS = 100_000
"""Decoding a column of fewer rows is faster than reading the page index."""
_MOST_KEPT = 1_024
_LEAST_GAIN = 2
"""A window must be smaller than the largest of its chunks by this factor."""


class Windows:
    """The windows of plans, with a cache; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], PagedColumn | None] = OrderedDict()

    def of(self, plan: ScanPlan, read: ReadPages) -> dict[str, range]:
        """By the keys of chunks, the range that contains all rows of the plan; only for chunks
        where one is known. ``read`` reads the page index of a chunk."""
        large = [chunk for chunk in plan.chunks if chunk.file.rows >= _LEAST_ROWS]
        if not may_help(plan):
            return {}
        from blockstore.scan.page_rows import matching_rows

        def pages_of(chunk: ScanChunk, column: pa.Field) -> PagedColumn | None:
            return self._pages(chunk, column, read)

        found = {chunk.key: (chunk, matching_rows(plan, chunk, pages_of)) for chunk in large}
        return {key: rows for key, (chunk, rows) in found.items() if len(rows) < chunk.file.rows}

    def _pages(self, chunk: ScanChunk, column: pa.Field, read: ReadPages) -> PagedColumn | None:
        name = chunk.file.sha256, column.name, str(column.type)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        try:
            pages = read(chunk, column)
        except (OSError, ValueError, pa.ArrowException):
            # Damaged or gone: reading the rows will report it.
            return None
        with self._lock:
            self._kept[name] = pages
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return pages


def may_help(plan: ScanPlan) -> bool:
    """Whether the page index of the plan's chunks is to be read."""
    return len(plan.chunks) <= _MOST_CHUNKS and any(
        chunk.file.rows >= _LEAST_ROWS and not chunk.certain for chunk in plan.chunks
    )


def pages_of_file(path: str, column: pa.Field) -> PagedColumn | None:
    """The pages of a column of a local chunk. Raises OSError, ValueError or what Arrow raises."""
    import pyarrow.parquet as pq

    with pa.OSFile(path) as file, pq.ParquetFile(file) as parquet:
        return pages_in(parquet, file, column)


def pages_in(parquet: pq.ParquetFile, file: Readable, column: pa.Field) -> PagedColumn | None:
    """The pages of a column of a chunk whose rows DuckDB can number."""
    from blockstore.scan.page_rows import read_pages

    return read_pages(parquet, file, column) if numbers_rows(parquet.schema_arrow) else None


def window_over(chunks: Sequence[ScanChunk], windows: Mapping[str, range]) -> range | None:
    """The common window of chunks that are read together; None: all rows are read."""
    if any(chunk.key not in windows for chunk in chunks):
        return None
    wanted = [window for chunk in chunks if (window := windows[chunk.key])]
    both = (
        range(min(one.start for one in wanted), max(one.stop for one in wanted))
        if wanted
        else range(0)
    )
    return both if len(both) * _LEAST_GAIN <= max(chunk.file.rows for chunk in chunks) else None


def numbers_rows(schema: pa.Schema) -> bool:
    """Whether DuckDB can number the rows of such a file: no column has the name that it uses."""
    return all(name.lower() != FILE_ROW for name in schema.names)


def numbers_files(schema: pa.Schema) -> bool:
    """Whether DuckDB can number such files in a list, likewise."""
    return all(name.lower() != FILE_INDEX for name in schema.names)

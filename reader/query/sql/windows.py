"""Of which chunks a stretch of rows will do: told by their pages, so that DuckDB need not decode
the column of a condition from end to end to find them.

Rules:
- Kept by the chunk's hash: the first query that names a column reads the page index of a chunk,
  later ones compare arrays.
- Chunks that one ``read_parquet`` reads share one window: to bind one more of them costs more than
  a window saves.
- Only for the few chunks of a point query: each is opened here once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan

if TYPE_CHECKING:
    from blockstore.scan.page_rows import PagedColumn

FILE_ROW = "file_row_number"
"""What DuckDB calls the number of a row in its file."""

_MOST_CHUNKS = 8
_LEAST_ROWS = 100_000
"""To decode a column of fewer rows takes less than to open the file for its page index."""
_MOST_KEPT = 1_024
_LEAST_GAIN = 2
"""A window must be smaller than the largest of its chunks by this factor."""


class Windows:
    """The windows of plans; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], PagedColumn | None] = OrderedDict()

    def of(self, plan: ScanPlan, paths: Mapping[str, str]) -> dict[str, range]:
        """By the keys of chunks, the rows outside of which none is a row of the plan; nothing of
        chunks of which nothing is known."""
        large = [chunk for chunk in plan.chunks if chunk.file.rows >= _LEAST_ROWS]
        if len(plan.chunks) > _MOST_CHUNKS or not large:
            return {}
        from blockstore.scan.page_rows import matching_rows

        def pages_of(chunk: ScanChunk, column: pa.Field) -> PagedColumn | None:
            return self._pages(chunk, paths[chunk.key], column)

        found = {chunk.key: (chunk, matching_rows(plan, chunk, pages_of)) for chunk in large}
        return {key: rows for key, (chunk, rows) in found.items() if len(rows) < chunk.file.rows}

    def _pages(self, chunk: ScanChunk, path: str, column: pa.Field) -> PagedColumn | None:
        import pyarrow.parquet as pq

        from blockstore.scan.page_rows import read_pages

        name = chunk.file.sha256, column.name, str(column.type)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        try:
            with pa.OSFile(path) as file, pq.ParquetFile(file) as parquet:
                pages = (
                    read_pages(parquet, file, column)
                    if numbers_rows(parquet.schema_arrow)
                    else None
                )
        except (OSError, ValueError, pa.ArrowException):
            # Damaged, or gone: whoever reads the rows will say so.
            return None
        with self._lock:
            self._kept[name] = pages
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return pages


def window_over(chunks: Sequence[ScanChunk], windows: Mapping[str, range]) -> range | None:
    """The window of chunks that are read together; None: they are read whole."""
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
    """Whether DuckDB can number the rows of such a file: no column of it has the name of the
    numbers."""
    return all(name.lower() != FILE_ROW for name in schema.names)

"""Of which chunks a stretch of rows will do: told by their pages, so that DuckDB need not decode the column of a condition
from end to end to find them.

Kept by the chunk's hash: the first query that names a column reads the page index of a chunk, later ones compare arrays.
Worth it for a few chunks of a point query; where many are read, decoding one more column of each is not what takes the time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.scan.chunk import ScanChunk
from blockstore.scan.page_rows import ColumnPages, matching_rows, read_pages
from blockstore.scan.plan import ScanPlan

__all__ = ["FILE_ROW", "Windows"]

FILE_ROW = "file_row_number"
"""What DuckDB calls the number of a row in its file."""

_MOST_CHUNKS = 8
_LEAST_ROWS = 100_000
"""To decode a column of fewer rows takes less than to open the file for its page index."""
_MOST_KEPT = 1_024
_LEAST_GAIN = 2
"""A window must be smaller than its chunk by this factor."""


class Windows:
    """The windows of plans; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], ColumnPages | None] = OrderedDict()

    def of(self, plan: ScanPlan, paths: Mapping[str, str]) -> dict[str, range]:
        """By the keys of chunks, the rows outside of which none is a row of the plan; nothing of chunks to be read whole."""
        if len(plan.chunks) > _MOST_CHUNKS:
            return {}

        def pages_of(chunk: ScanChunk, column: pa.Field) -> ColumnPages | None:
            return self._pages(chunk, paths[chunk.key], column)

        found = {
            chunk.key: matching_rows(plan, chunk, pages_of)
            for chunk in plan.chunks
            if chunk.file.rows >= _LEAST_ROWS and _may_be_numbered(plan.schemas[chunk.schema_id])
        }
        rows = {chunk.key: chunk.file.rows for chunk in plan.chunks}
        return {key: window for key, window in found.items() if len(window) * _LEAST_GAIN <= rows[key]}

    def _pages(self, chunk: ScanChunk, path: str, column: pa.Field) -> ColumnPages | None:
        name = chunk.file.sha256, column.name, str(column.type)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        try:
            with pa.OSFile(path) as file, pq.ParquetFile(file) as parquet:
                pages = read_pages(parquet, file, column)
        except (OSError, ValueError, pa.ArrowException):
            # Damaged, or gone: whoever reads the rows will say so.
            return None
        with self._lock:
            self._kept[name] = pages
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return pages


def _may_be_numbered(schema: pa.Schema) -> bool:
    """Whether no column has the name that DuckDB gives to the numbers of rows."""
    return all(name.lower() != FILE_ROW for name in schema.names)

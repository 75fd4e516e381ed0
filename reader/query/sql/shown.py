"""How a view leaves out the rows of its files that newer versions hide: by their numbers.

Rules:
- ``blockstore.scan.current`` decides which rows those are; nothing here knows of versions.
- They are joined away, by file and number. DuckDB would compare a list in a condition with each row
  one by one, and a window over all rows is six times slower.
- Few numbers are in the SQL. More are given as an Arrow table: as values of a statement, 10,000 of
  them would take 25 ms.
- A large file of which all rows are read has a bit for each row instead, which takes half as long
  as a join. To make 5 million bits takes 15 ms, so a query of few rows has none.
- If the query reads all rows of one table, the bits are a column beside those of the file
  (``beside``), which takes less than half of what a look at each row's number takes. DuckDB reads
  such a file in one thread, pushes no condition below, and takes its rows for none when it orders
  joins. So no other query reads files in this way, and no file of several row groups is read so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.reader.query.sql.types import quoted
from blockstore.reader.query.task import Given
from blockstore.scan.chunk import Positions, ScanChunk

FILE_INDEX = "file_index"
"""DuckDB's name for the place of a row's file in the list of files."""

_LEFT_OUT = "_blockstore_left_out"
_FEW = 16

_LARGE_ROWS = 250_000
"""To read a file of fewer rows by itself costs more than its bits save."""

_ONE_GROUP_ROWS = 1_000_000
_ONE_GROUP_BYTES = 32 << 20
"""A file beyond has several row groups, which several threads can read."""

LeftOut = Sequence[Positions]
"""The numbers of rows to leave out, of each file of a list."""


def left_out(chunks: Sequence[ScanChunk], window: range | None) -> LeftOut:
    """Return the hidden rows of these chunks, as far as they are in the window."""
    return [_within(chunk.hidden, window) for chunk in chunks]


def has_bits(chunk: ScanChunk) -> bool:
    """Whether the hidden rows of a chunk are left out by bits, where all of it is read."""
    hidden = chunk.hidden
    return hidden is not None and chunk.file.rows >= _LARGE_ROWS and len(hidden) > _FEW


def bits_of(chunk: ScanChunk) -> bytes:
    """A bit for each row of a chunk: 1 where it is hidden."""
    return np.packbits(~_shown(chunk)).tobytes()


def may_be_beside(chunk: ScanChunk) -> bool:
    """Whether the bits of a chunk can be a column beside its file's, without fewer threads."""
    return (
        has_bits(chunk)
        and chunk.file.rows <= _ONE_GROUP_ROWS
        and chunk.file.bytes <= _ONE_GROUP_BYTES
    )


def beside(chunk: ScanChunk, name: str, column: str) -> Given:
    """A table with a row for each row of a chunk's file, in its order: true where it is shown."""
    rows = chunk.file.rows
    # Arrow would make these bits of an array of numpy in twelve times the time.
    bits = pa.py_buffer(np.packbits(_shown(chunk), bitorder="little"))
    shown = pa.Array.from_buffers(pa.bool_(), rows, [None, bits])
    return Given(name, pa.table({column: shown}))


def _shown(chunk: ScanChunk) -> npt.NDArray[np.bool_]:
    shown = np.ones(chunk.file.rows, dtype=np.bool_)
    shown[chunk.hidden] = False
    return shown


def joined_away(rows: LeftOut, name: str, files: str, number: str) -> tuple[str, Given | None]:
    """Return the join that leaves out rows, and what it reads if they are many.

    Args:
        rows: The rows of each file.
        name: A name for a table of them.
        files: The relation of the files.
        number: Its column with the number of a row.
    """
    several = len(rows) > 1
    matches = f"{files}.{number} = {_LEFT_OUT}.row"
    if several:
        matches += f" AND {files}.{FILE_INDEX} = {_LEFT_OUT}.file"
    if sum(map(len, rows)) <= _FEW:
        values = ", ".join(
            f"(CAST({file} AS UBIGINT), CAST({row} AS BIGINT))"
            for file, own in enumerate(rows)
            for row in own.tolist()
        )
        return f"ANTI JOIN (VALUES {values}) AS {_LEFT_OUT}(file, row) ON {matches}", None
    columns = {"row": rows[0] if len(rows) == 1 else np.concatenate(rows)}
    if several:
        columns["file"] = np.repeat(np.arange(len(rows), dtype=np.uint64), [*map(len, rows)])
    given = Given(name, pa.table(columns))
    return f"ANTI JOIN {quoted(name)} AS {_LEFT_OUT} ON {matches}", given


def _within(hidden: Positions | None, window: range | None) -> Positions:
    if hidden is None:
        return np.zeros(0, dtype=np.int64)
    if window is None:
        return hidden
    low, high = np.searchsorted(hidden, (window.start, window.stop))
    return hidden[low:high]

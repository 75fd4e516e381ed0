"""The rows of an open Parquet file in batches of the wanted size, however wide the rows become.

Rules:
- The number of rows of the next batch is decided before it is read, from what the file weighs at
  that place (``weight.py``) and from the weight of the batch before.
- A batch that is still much too large is passed on in pieces, so that what is made of it is not.
- Where the weight is not sure, batches start small and grow, to a limit: a jump in width costs one
  of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.compactor.merge.weight import Weight
from blockstore.format.coded import text_bytes

_MOST_ROWS = 65_536
_FIRST_ROWS, _UNSURE_ROWS, _GROWTH = 64, 1_024, 2
_TOO_LARGE = 4


def batches(
    parquet: pq.ParquetFile,
    groups: Sequence[int],
    weight: Weight,
    goal_bytes: int,
    coded: Collection[str] = (),
) -> Iterator[pa.Table]:
    """The rows of ``groups``, in tables of about half of ``goal_bytes``, so that a buffer can be
    kept nearly full.

    Columns of ``coded``, which are read as numbers of a dictionary, count as the texts in
    ``weight``.
    """
    half = goal_bytes / 2
    most = _MOST_ROWS if weight.sure else _FIRST_ROWS
    # Weighing costs as much as planning. If every page is light, no batch can be much heavier than
    # planned.
    weighed = not weight.sure or weight.page_bytes > goal_bytes
    row, before, wider = 0, 0.0, 1.0
    reading = parquet.iter_batches(
        _between(weight.row_at(half), most), row_groups=groups, use_threads=False
    )
    for batch in reading:
        size = batch.nbytes + text_bytes(batch, coded) if weighed else 0
        planned, row = before, row + batch.num_rows
        before = weight.before(row)
        wider = max(1.0, wider / _GROWTH, size / max(1.0, before - planned))
        most = most if weight.sure else min(_UNSURE_ROWS, _GROWTH * most)
        # The reader reads its batch size for every batch. A new reader would decode all rows so far
        # again.
        parquet.reader.set_batch_size(_between(weight.row_at(before + half / wider) - row, most))
        yield from _pieces(pa.Table.from_batches([batch]), size, goal_bytes)


def _between(rows: int, most: int) -> int:
    return max(1, min(most, rows))


def _pieces(table: pa.Table, size: int, goal_bytes: int) -> Iterator[pa.Table]:
    if size <= _TOO_LARGE * goal_bytes:
        yield table
        return
    rows = max(1, table.num_rows * goal_bytes // size)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)

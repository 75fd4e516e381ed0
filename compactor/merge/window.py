"""A window: the pieces that one cut of the merge freed, sorted into the next rows of the result.

Owns the check that a merge's output is in order: each piece must be sorted, and a window must not
begin below the end of the one before it. A violation names the run, whose block declared an order
that it does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.compactor.merge.kway import Piece
from blockstore.compactor.merge.order import Key, RowOrder, arrange, descents
from blockstore.compactor.merge.run import Unsorted

_TAKEN_ROWS = 1 << 17
"""Rows are gathered this many at a time: arrays of a few megabytes reuse the memory of the window
before, while for large ones the system clears new pages each time, which took longer than gathering
them."""


class Sorter:
    """Sorts the windows of one merge, in their order."""

    def __init__(self, order: RowOrder) -> None:
        self._order = order
        self._last: Key | None = None

    def sort(self, pieces: Sequence[Piece]) -> pa.Table:
        """The pieces' rows in order, ties by run and place; raises Unsorted."""
        ends = np.cumsum([piece.rows.num_rows for piece in pieces])
        table = pa.concat_tables([piece.rows for piece in pieces])
        if not self._order.sort_by:
            return table
        words = self._order.words(table)
        falls = descents(words)
        first = 0
        if len(falls):
            self._check(pieces, ends, falls)
            places = arrange(words)
            first = int(places[0])
            table = _gather(table, places)
        if self._last is not None and self._order.key(table, 0) < self._last:
            raise Unsorted(_piece_of(pieces, ends, first).run)
        self._last = self._order.key(table, table.num_rows - 1)
        return table

    def _check(
        self, pieces: Sequence[Piece], ends: npt.NDArray[np.int64], falls: npt.NDArray[np.int64]
    ) -> None:
        """A row may be less than the row before it only where another run's piece begins."""
        starts = {
            int(end)
            for end, piece, after in zip(ends, pieces, pieces[1:], strict=False)
            if piece.run != after.run
        }
        for row in falls.tolist():
            if row not in starts:
                raise Unsorted(_piece_of(pieces, ends, row).run)


def _gather(table: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """The rows at ``places``. Each column is joined first, since gathering from many chunks costs
    more; one column after the other, since joining all at once would hold the window three
    times."""
    parts = [
        pa.array(places[start : start + _TAKEN_ROWS])
        for start in range(0, len(places), _TAKEN_ROWS)
    ]
    columns = []
    for column in table.itercolumns():
        whole = column.combine_chunks()
        columns.append(pa.chunked_array([whole.take(part) for part in parts], type=column.type))
    return pa.Table.from_arrays(columns, schema=table.schema)


def _piece_of(pieces: Sequence[Piece], ends: npt.NDArray[np.int64], row: int) -> Piece:
    return pieces[int(np.searchsorted(ends, row, side="right"))]

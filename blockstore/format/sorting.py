"""The order of rows inside a chunk, the same for every writer and every merge.

Rule: ascending by each column of the sort key in turn; NaN after every number, null after NaN;
strings and bytes by their bytes; rows with equal keys keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def sort_order(table: pa.Table, sort_by: Sequence[str]) -> pa.UInt64Array | None:
    """Return the positions of the rows in order, or None if they are in order already."""
    if not sort_by or table.num_rows < 2:
        return None
    seen = is_sorted(table, sort_by)
    if seen:
        return None
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in sort_by])
    if seen is None and bool(
        (order.to_numpy() == np.arange(table.num_rows, dtype=np.uint64)).all()
    ):
        return None
    return order


def is_sorted(table: pa.Table, sort_by: Sequence[str]) -> bool | None:
    """Return whether the rows are in order, by comparing neighbors in each key column.

    None for nulls and floats, for which comparing neighbors is not enough.
    """
    last = table.num_rows - 1
    tied: pa.ChunkedArray | None = None
    for name in sort_by:
        column = _single(table.column(name))
        if column.null_count or pt.is_floating(column.type):
            return None
        here, after = column.slice(0, last), column.slice(1)
        falls = pc.call_function("greater", [here, after])
        if tied is not None:
            falls = pc.call_function("and", [tied, falls])
        if _any(falls):
            return False
        if name != sort_by[-1]:
            equal = pc.call_function("equal", [here, after])
            tied = equal if tied is None else pc.call_function("and", [tied, equal])
    return True


def _single(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the column as one array if it has one chunk: reading that is cheaper."""
    return column.chunk(0) if column.num_chunks == 1 else column


def _any(flags: pa.ChunkedArray | pa.BooleanArray) -> bool:
    if isinstance(flags, pa.ChunkedArray):
        return any(chunk.true_count for chunk in flags.chunks)
    return bool(flags.true_count)

"""Whether a row is as it was. A row that an operation finds as it should become is left as it is:
it gets no new version, and is counted as unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def same_rows(
    rows: pa.RecordBatch, there: pa.Table | pa.RecordBatch, names: Sequence[str]
) -> pa.Array:
    """Return whether each row has the values of these columns that are there, bit by bit."""
    same = pa.repeat(pa.scalar(True), len(rows))
    for name in names:
        other = there.column(name)
        whole = other.combine_chunks() if isinstance(other, pa.ChunkedArray) else other
        same = pc.and_(same, _equal(rows.column(name), whole))
    return same


def other_cells(
    rows: pa.RecordBatch, there: pa.Table | pa.RecordBatch, names: Sequence[str]
) -> dict[str, int]:
    """Return in how many rows each of these columns has another value than there, where any has."""
    same = {name: same_rows(rows, there, [name]) for name in names}
    counts = {name: len(rows) - (pc.sum(one).as_py() or 0) for name, one in same.items()}
    return {name: count for name, count in counts.items() if count}


def _equal(one: pa.Array, other: pa.Array) -> pa.Array:
    if pt.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return pa.array([a == b for a, b in pairs], pa.bool_())
    if pt.is_floating(one.type):
        # As integers: zero has a sign, and NaN equals itself.
        kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(kind), other.view(kind)
    both_null = pc.and_(one.is_null(), other.is_null())
    return pc.coalesce(pc.equal(one, other), both_null)

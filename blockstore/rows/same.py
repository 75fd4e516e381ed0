"""Whether a row is as it was. A row that an operation finds as it should become is left as it is:
it gets no new version, and is counted as unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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
    """Whether each value is the other one, nested ones leaf by leaf; nulls are equal."""
    if pt.is_struct(one.type):
        same = pc.equal(one.is_valid(), other.is_valid())
        for mine, its in zip(one.flatten(), other.flatten(), strict=True):
            same = pc.and_(same, _equal(mine, its))
        return same
    if pt.is_nested(one.type):
        return _equal_lists(one, other)
    if pt.is_floating(one.type):
        # As integers: zero has a sign, and NaN equals itself.
        kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(kind), other.view(kind)
    both_null = pc.and_(one.is_null(), other.is_null())
    return pc.coalesce(pc.equal(one, other), both_null)


def _equal_lists(one: pa.Array, other: pa.Array) -> pa.Array:
    same = pc.equal(one.is_valid(), other.is_valid()).to_numpy(zero_copy_only=False).copy()
    both = pc.and_(one.is_valid(), other.is_valid())
    one, other = _list(one.filter(both)), _list(other.filter(both))
    lengths = pc.list_value_length(one).to_numpy().astype(np.int64)
    alike = lengths == pc.list_value_length(other).to_numpy()
    if not alike.all():
        one, other = one.filter(pa.array(alike)), other.filter(pa.array(alike))
    differs = ~_equal(one.flatten(), other.flatten()).to_numpy(zero_copy_only=False)
    # How many values differ in front of each value.
    before = np.concatenate([[0], np.cumsum(differs)])
    ends = np.cumsum(lengths[alike])
    found = np.zeros(len(alike), dtype=bool)
    found[alike] = before[ends] == before[ends - lengths[alike]]
    same[both.to_numpy(zero_copy_only=False)] = found
    return pa.array(same)


def _list(array: pa.Array) -> pa.Array:
    """A map as the list of its pairs; an array without nulls."""
    if not pt.is_map(array.type):
        return array
    pairs = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return pa.ListArray.from_arrays(array.offsets, pairs)

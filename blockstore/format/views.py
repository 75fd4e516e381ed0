"""List views as lists, at any depth.

Arrow's own cast changes the values: it copies the offsets without the end of the last list, so that
lists are empty or have no end. Here the values are first laid out one list after the other.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt


def without_views(column: pa.Array) -> pa.Array:
    """Return the column with the same values, each list view as a list."""
    import pyarrow.compute as pc

    kind = column.type
    if not _has_views(kind):
        return column
    if _is_view(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        offsets = pa.concat_arrays(
            [pa.array([0], lengths.type), pc.cumulative_sum_checked(lengths)]
        )
        lists = pa.LargeListArray if pt.is_large_list_view(kind) else pa.ListArray
        return lists.from_arrays(offsets, without_views(column.flatten()), mask=column.is_null())
    # Copied, because a slice does not begin where the arrays of its values begin.
    column = pa.concat_arrays([column])
    nulls = column.is_null()
    if pt.is_struct(kind):
        parts = [without_views(column.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            parts, names=[part.name for part in kind.fields], mask=nulls
        )
    if pt.is_map(kind):
        keys, items = without_views(column.keys), without_views(column.items)
        return pa.MapArray.from_arrays(column.offsets, keys, items, mask=nulls)
    values = without_views(column.values)
    if pt.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=nulls)
    return type(column).from_arrays(column.offsets, values, mask=nulls)


def _is_view(kind: pa.DataType) -> bool:
    return bool(pt.is_list_view(kind) or pt.is_large_list_view(kind))


def _has_views(kind: pa.DataType) -> bool:
    if _is_view(kind):
        return True
    return pt.is_nested(kind) and any(
        _has_views(kind.field(place).type) for place in range(kind.num_fields)
    )

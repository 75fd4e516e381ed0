"""Columns in encodings that Arrow cannot take from, filter or cast, as plain ones, at any depth.

Rules:
- A list view becomes a list, a text or binary view a text or a binary, run-ends are decoded.
- A dictionary stays one, and its values become plain. An extension with such a storage becomes its
  storage.
- Nothing is copied where there is no such type.

Arrow's own cast changes the values of list views: it copies the offsets without the end of the last
list, so that lists are empty or have no end. Here the values are first laid out one list after the
other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def without_views(column: pa.Array) -> pa.Array:
    """Return the column with the same values, in a plain type."""
    import pyarrow.compute as pc

    kind = column.type
    if not has_views(kind):
        return column
    plain = plain_type(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return without_views(column.storage)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return column.cast(plain)
    if pt.is_dictionary(kind):
        values = without_views(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values, ordered=kind.ordered)
    if pt.is_run_end_encoded(kind):
        places = np.arange(column.offset, column.offset + len(column))
        runs = np.searchsorted(column.run_ends.to_numpy(), places, side="right")
        return without_views(column.values).take(pa.array(runs))
    if pt.is_list_view(kind) or pt.is_large_list_view(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        offsets = pa.concat_arrays(
            [pa.array([0], lengths.type), pc.cumulative_sum_checked(lengths)]
        )
        lists = pa.LargeListArray if pt.is_large_list(plain) else pa.ListArray
        values = without_views(column.flatten())
        return lists.from_arrays(offsets, values, type=plain, mask=column.is_null())
    # Copied, because a slice does not begin where the arrays of its values begin.
    column = pa.concat_arrays([column])
    nulls = column.is_null()
    if pt.is_struct(kind):
        parts = [without_views(column.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=plain.fields, mask=nulls)
    if pt.is_map(kind):
        keys, items = without_views(column.keys), without_views(column.items)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=plain, mask=nulls)
    values = without_views(column.values)
    if pt.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, type=plain, mask=nulls)
    return type(column).from_arrays(column.offsets, values, type=plain, mask=nulls)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that ``without_views`` gives a column of this one."""
    if not has_views(kind):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    if pt.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pt.is_struct(kind):
        return pa.struct([_plain(field).with_nullable(True) for field in kind.fields])
    if pt.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field), kind.keys_sorted)
    value = _plain(kind.value_field)
    if pt.is_fixed_size_list(kind):
        return pa.list_(value, kind.list_size)
    large = pt.is_large_list(kind) or pt.is_large_list_view(kind)
    return pa.large_list(value) if large else pa.list_(value)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with plain types; the same one where it has no others."""
    if not any(has_views(field.type) for field in schema):
        return schema
    return pa.schema([_plain(field) for field in schema], schema.metadata)


def has_views(kind: pa.DataType) -> bool:
    """Return whether a type has a part that ``without_views`` makes plain."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_views(kind.storage_type)
    if pt.is_dictionary(kind):
        return has_views(kind.value_type)
    if (
        pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
        or pt.is_string_view(kind)
        or pt.is_binary_view(kind)
        or pt.is_run_end_encoded(kind)
    ):
        return True
    if not pt.is_nested(kind) or pt.is_union(kind):
        return False
    return any(has_views(kind.field(place).type) for place in range(kind.num_fields))


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))

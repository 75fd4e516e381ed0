"""Checks that Arrow arrays which came in a file are whole: Arrow reads them unchecked, and a
damaged offset or index leads it out of its memory later.

Text is looked at as bytes. Whether it is UTF-8 is checked where rows are written, which names the
column and the row (``utf8``).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt


def check_layout(batch: pa.RecordBatch) -> None:
    """Raise pa.ArrowInvalid for a batch of which an offset, a length or an index is wrong."""
    for column in batch.columns:
        column.view(_of_bytes(column.type)).validate(full=True)


def _of_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in the place of text, at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return _of_bytes(kind.storage_type)
    if pt.is_string(kind):
        return pa.binary()
    if pt.is_large_string(kind):
        return pa.large_binary()
    if pt.is_string_view(kind):
        return pa.binary_view()
    if pt.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _of_bytes(kind.value_type), kind.ordered)
    if pt.is_map(kind):
        return pa.map_(_of_bytes(kind.key_type), _of_bytes(kind.item_type))
    if pt.is_struct(kind):
        return pa.struct([_field(kind.field(place)) for place in range(kind.num_fields)])
    if pt.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field), kind.list_size)
    if pt.is_large_list(kind):
        return pa.large_list(_field(kind.value_field))
    if pt.is_list(kind):
        return pa.list_(_field(kind.value_field))
    return kind


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_of_bytes(field.type))

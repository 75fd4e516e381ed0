"""Checks that text in Arrow arrays is UTF-8: Arrow makes, holds and writes other bytes unchecked.

Rule: only the values that a writer would write are checked. Bytes under a null, outside of a slice
or in an unused entry of a dictionary are not values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

_FEW = 256
"""Validating this many values is faster than finding out whether they need it."""


def holds_text(kind: pa.DataType) -> bool:
    """Return whether values of this type hold text, at any depth."""
    if pt.is_dictionary(kind):
        return holds_text(kind.value_type)
    if pt.is_nested(kind):
        return any(holds_text(kind.field(place).type) for place in range(kind.num_fields))
    return _is_text(kind)


def first_not_text(array: pa.Array) -> int | None:
    """Return the first row of an array whose text is not UTF-8, at any depth; None if there is
    none."""
    if _is_utf8(array):
        return None
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_utf8(array.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _is_utf8(array: pa.Array) -> bool:
    kind = array.type
    if not len(array) or not holds_text(kind):
        return True
    if _is_text(kind):
        return (len(array) > _FEW and _is_ascii(array)) or _is_valid(array)
    if pt.is_dictionary(kind):
        return _is_utf8(array.dictionary) or _is_utf8(array.dictionary_decode())
    if pt.is_struct(kind):
        return all(_is_utf8(child) for child in array.flatten())
    if pt.is_map(kind):
        # Arrow removes the values under a null from lists only.
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return _is_utf8(array.flatten())


def _is_ascii(array: pa.Array) -> bool:
    """Return whether no byte of any value is above 127: enough for most columns, at a tenth of the
    cost of validating."""
    _, offsets, data = array.buffers()
    if data is None:
        return True
    wide = pt.is_large_string(array.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    return int(np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].max(initial=0)) < 0x80


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))

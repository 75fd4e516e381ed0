"""Values that Arrow can hold but Parquet cannot store unchanged.

Rules: they are refused before they are written, since the Parquet writer would change them or fail
midway:
- a decimal of more digits than its type has: Parquet truncates it to the bytes of the type;
- seconds, of a timestamp or a time of day, that overflow as milliseconds: Parquet has no seconds.

Bytes under a null or outside of a slice are not values.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt


def is_limited(kind: pa.DataType) -> bool:
    """Return whether arrays of this type can hold such values, at any depth."""
    if pt.is_nested(kind):
        return any(is_limited(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pt.is_decimal(kind) or _is_seconds(kind))


def not_storable(array: pa.Array) -> str | None:
    """Return what is wrong with such a value, at any depth; None if there is none."""
    kind = array.type
    if not is_limited(kind):
        return None
    if pt.is_struct(kind):
        return next((found for child in array.flatten() if (found := not_storable(child))), None)
    if pt.is_map(kind):
        # Arrow removes the values under a null from lists only.
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if pt.is_nested(kind):
        return not_storable(array.flatten())
    return _seconds(array) if _is_seconds(kind) else _decimals(array)


def _is_seconds(kind: pa.DataType) -> bool:
    return bool((pt.is_timestamp(kind) or pt.is_time32(kind)) and kind.unit == "s")


def _decimals(array: pa.Array) -> str | None:
    import pyarrow.compute as pc

    kind = array.type
    greatest = Decimal((0, (9,) * kind.precision, -kind.scale))
    for end in pc.min_max(array).as_py().values():
        if end is not None and end.copy_abs() > greatest:
            return f"{end:f}, which has more digits than {kind}"
    return None


def _seconds(array: pa.Array) -> str | None:
    import pyarrow.compute as pc

    kind = array.type
    integer = pa.int64() if kind.bit_width == 64 else pa.int32()
    greatest = (2 ** (kind.bit_width - 1) - 1) // 1000
    for end in pc.min_max(array.view(integer)).as_py().values():
        if end is not None and abs(end) > greatest:
            return f"{end} seconds, but {kind} can only be stored from {-greatest} to {greatest}"
    return None

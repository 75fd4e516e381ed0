"""The column types of a table: which exist, which may widen into which, which can be sorted.

Rules:
- One canonical Arrow type for each meaning: encodings (dictionary, view, large, run-end) and
  extension wrappers are removed; half floats become floats; date64 becomes date32; every decimal is
  a decimal128.
- A list or binary of size 0 is not a type of a table: Parquet cannot store its values, or not
  return them.
- A widening never loses anything: integers into larger ones (an unsigned one also into a larger
  signed one), float into double, a decimal into more digits at the same scale; inside lists, maps
  and structs likewise.
- A value fits a column if its type is the column's, widens into it, or is null; timestamps also in
  another zone, or in another unit where the cast loses no digit (checked value by value).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid

_DECIMAL_DIGITS = 38
_ELEMENT = "element"


def canonical_type(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the canonical type of ``kind`` in a table; ``name`` is the column, for errors."""
    if isinstance(kind, pa.BaseExtensionType):
        return canonical_type(kind.storage_type, name)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return canonical_type(kind.value_type, name)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_decimal(kind):
        return _canonical_decimal(kind, name)
    if pt.is_nested(kind):
        return _canonical_nested(kind, name)
    if pt.is_null(kind):
        raise Invalid(f"column {name!r} has the type null, expected a type that can hold values")
    if pt.is_fixed_size_binary(kind) and kind.byte_width == 0:
        raise _without_size(kind, name)
    if not _is_stored(kind):
        raise Invalid(
            f"column {name!r} has the type {kind}, which Parquet cannot hold: cast it first"
        )
    return kind


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of ``old`` is a value of ``new`` without loss, or the types are
    equal."""
    if old.equals(new):
        return True
    if pt.is_integer(old) and pt.is_integer(new):
        return _integer_widens(old, new)
    if pt.is_float32(old) and pt.is_float64(new):
        return True
    if pt.is_decimal(old) and pt.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return _nested_pairs(old, new, can_widen)


def fits(found: pa.DataType, column: pa.DataType) -> bool:
    """Return whether values of ``found`` may be written to a column, perhaps by a cast that loses
    nothing."""
    if pt.is_null(found) or found.equals(column):
        return True
    try:
        kind = _stripped(found)
    except Invalid:
        return False
    if pt.is_timestamp(kind) and pt.is_timestamp(column):
        return (kind.tz is None) == (column.tz is None)
    if (pt.is_time(kind) and pt.is_time(column)) or (
        pt.is_duration(kind) and pt.is_duration(column)
    ):
        return True
    return can_widen(kind, column) or _nested_pairs(kind, column, fits)


def is_primitive(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds single values, which statistics describe."""
    return not pt.is_nested(kind)


def is_sortable(kind: pa.DataType) -> bool:
    """Return whether a column of this type may be in a sort key."""
    return not pt.is_nested(kind)


def is_time(kind: pa.DataType) -> bool:
    """Return whether a column of this type may be the time column: a timestamp or a date."""
    return pt.is_timestamp(kind) or pt.is_date32(kind)


def _stripped(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` without encodings; nested types as they are, since their children are
    compared one by one."""
    if pt.is_nested(kind) and not pt.is_run_end_encoded(kind):
        return kind
    return canonical_type(kind, "")


def _is_stored(kind: pa.DataType) -> bool:
    return (
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_fixed_size_binary(kind)
        or pt.is_date(kind)
        or pt.is_time(kind)
        or pt.is_timestamp(kind)
        or pt.is_duration(kind)
    )


def _canonical_decimal(kind: pa.DataType, name: str) -> pa.DataType:
    if kind.precision > _DECIMAL_DIGITS:
        raise Invalid(
            f"column {name!r} has the type {kind}, expected a decimal of at most 38 digits"
        )
    if not 0 <= kind.scale <= kind.precision:
        raise Invalid(
            f"column {name!r} has the type {kind}, expected a scale from 0 to its precision of "
            f"{kind.precision}"
        )
    return pa.decimal128(kind.precision, kind.scale)


def _canonical_nested(kind: pa.DataType, name: str) -> pa.DataType:
    if pt.is_struct(kind):
        if kind.num_fields == 0:
            raise Invalid(f"column {name!r} is a struct without fields, which Parquet cannot hold")
        return pa.struct(
            [_child(field, f"{name}.{field.name}", field.name) for field in kind.fields]
        )
    if pt.is_map(kind):
        key = _child(kind.key_field, f"{name}.key", "key").with_nullable(False)
        return pa.map_(key, _child(kind.item_field, f"{name}.value", "value"))
    if pt.is_fixed_size_list(kind):
        if kind.list_size == 0:
            raise _without_size(kind, name)
        return pa.list_(_child(kind.value_field, f"{name}.{_ELEMENT}", _ELEMENT), kind.list_size)
    if _is_list(kind):
        return pa.list_(_child(kind.value_field, f"{name}.{_ELEMENT}", _ELEMENT))
    raise Invalid(f"column {name!r} has the type {kind}, which Parquet cannot hold: cast it first")


def _without_size(kind: pa.DataType, name: str) -> Invalid:
    return Invalid(
        f"column {name!r} has the type {kind}, expected a size of at least 1: give it a size, or "
        "use a type without one"
    )


def _child(field: pa.Field, path: str, name: str) -> pa.Field:
    return pa.field(name, canonical_type(field.type, path), True, field.metadata)


def _is_list(kind: pa.DataType) -> bool:
    return (
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def _integer_widens(old: pa.DataType, new: pa.DataType) -> bool:
    if pt.is_signed_integer(old) == pt.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    return bool(pt.is_signed_integer(new) and old.bit_width < new.bit_width)


def _nested_pairs(
    old: pa.DataType, new: pa.DataType, rule: Callable[[pa.DataType, pa.DataType], bool]
) -> bool:
    """Return whether two nested types have the same shape and ``rule`` holds for each pair of their
    children."""
    if pt.is_struct(old) and pt.is_struct(new):
        names = [field.name for field in old.fields]
        return names == [field.name for field in new.fields] and all(
            rule(a.type, b.type) for a, b in zip(old.fields, new.fields, strict=True)
        )
    if pt.is_map(old) and pt.is_map(new):
        return rule(old.key_type, new.key_type) and rule(old.item_type, new.item_type)
    if pt.is_fixed_size_list(old) and pt.is_fixed_size_list(new):
        return old.list_size == new.list_size and rule(old.value_type, new.value_type)
    return _is_list(old) and _is_list(new) and rule(old.value_type, new.value_type)

"""Values that a caller gave for a column, as Arrow's.

Rule: a value is stored as it is, or refused. Arrow alone cuts a number of Python to an integer, a
time to its unit and a moment to its day, and makes infinity of a number that is too large: another
row would be named, or another value stored. Only the binary fractions of a float are rounded.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from blockstore.format.views import without_views

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NARROW = {16: "<e", 32: "<f"}
_FINE = ("us", "ns")


def array_of(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values of Python, a sequence of pandas, or an array of numpy as Arrow's. Raises
    pa.ArrowInvalid for one that would lose something, and what ``pa.array`` raises."""
    if not hasattr(values, "__len__"):
        values = list(values)
    found = pa.array(values, kind)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not _may_lose(kind) or set(map(type, values)) <= _exact_types(kind):
        return found
    for value, valid in zip(values, found.is_valid().to_pylist(), strict=True):
        if valid:
            _check(value, kind)
    return found


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in another type. Raises pa.ArrowInvalid for a value that would lose
    something, also where Arrow's own cast does not."""
    values = without_views(values)
    found = values.cast(kind)
    _check_cast(values, found)
    return found


def _may_lose(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        return _may_lose(kind.value_type)
    if pt.is_nested(kind):
        return any(_may_lose(kind.field(place).type) for place in range(kind.num_fields))
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_temporal(kind)


def _exact_types(kind: pa.DataType) -> set[type]:
    """Types of Python of which each value that Arrow takes is stored as it is."""
    found: set[type] = {type(None), int}
    if pt.is_floating(kind):
        return {*found, float} if kind.bit_width == 64 else {type(None)}
    if pt.is_date(kind):
        found.add(datetime.date)
    elif pt.is_timestamp(kind) and kind.unit in _FINE:
        found.add(datetime.datetime)
    elif pt.is_duration(kind) and kind.unit in _FINE:
        found.add(datetime.timedelta)
    return found if not pt.is_nested(kind) else {type(None)}


def _check(value: Any, kind: pa.DataType) -> None:
    """Raise pa.ArrowInvalid if Arrow, which has taken the value, has stored another."""
    if value is None or isinstance(value, pa.Scalar):
        return
    if pt.is_dictionary(kind):
        _check(value, kind.value_type)
    elif pt.is_struct(kind):
        named = value if isinstance(value, Mapping) else dict(value)
        for field in kind.fields:
            _check(named.get(field.name), field.type)
    elif pt.is_map(kind):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            _check(key, kind.key_type)
            _check(item, kind.item_type)
    elif pt.is_nested(kind):
        if _may_lose(kind.value_type):
            for one in value:
                _check(one, kind.value_type)
    elif not _is_kept(value, kind):
        raise pa.ArrowInvalid(f"storing {value!r} as {kind} would cause data loss")


def _is_kept(value: Any, kind: pa.DataType) -> bool:
    if pt.is_floating(kind):
        return _is_in_range(value, kind.bit_width)
    if isinstance(value, np.datetime64):
        # Arrow takes it in the unit of a timestamp alone; of an array it takes any, and checks.
        return not pt.is_date(kind) or bool(value == value.astype("M8[D]") or np.isnat(value))
    if isinstance(value, datetime.datetime):
        fraction = value.microsecond * 1_000 + getattr(value, "nanosecond", 0)
        if pt.is_date(kind):
            return not (value.hour or value.minute or value.second or fraction)
        return not pt.is_timestamp(kind) or fraction % _UNIT_NS[kind.unit] == 0
    if isinstance(value, datetime.time):
        return not value.utcoffset() and value.microsecond * 1_000 % _UNIT_NS[kind.unit] == 0
    if isinstance(value, datetime.timedelta):
        fraction = value.microseconds * 1_000 + getattr(value, "nanoseconds", 0)
        return fraction % _UNIT_NS[kind.unit] == 0
    if pt.is_integer(kind) or pt.is_temporal(kind):
        return isinstance(value, datetime.date | np.timedelta64) or bool(value == int(value))
    return True


def _is_in_range(value: Any, bits: int) -> bool:
    """Whether a number stays finite as a float, if it is."""
    number = float(value)
    if math.isinf(number):
        return bool(value == number)
    try:
        if bits in _NARROW:
            struct.pack(_NARROW[bits], number)
    except OverflowError:
        return False
    return True


def _check_cast(values: pa.Array, found: pa.Array) -> None:
    """Raise pa.ArrowInvalid where Arrow's cast keeps a part of a moment, or makes infinity."""
    import pyarrow.compute as pc

    one, other = values.type, found.type
    if one.equals(other) or not _may_lose(other):
        return
    if pt.is_dictionary(one):
        _check_cast(values.dictionary_decode(), found)
    elif pt.is_dictionary(other):
        _check_cast(values, found.dictionary_decode())
    elif pt.is_timestamp(one) and pt.is_date(other):
        local = values if one.tz is None else pc.local_timestamp(values)
        _refuse(values, pc.not_equal(found.cast(local.type), local), other)
    elif pt.is_timestamp(one) and pt.is_time(other):
        _refuse(values, values.is_valid(), other)
    elif pt.is_floating(other):
        _refuse(values, pc.and_(_are_finite(values), pc.is_inf(found)), other)
    elif pt.is_struct(one) and pt.is_struct(other):
        for left, right in zip(values.flatten(), found.flatten(), strict=True):
            _check_cast(left, right)
    elif pt.is_map(one) and pt.is_map(other):
        _check_cast(values.keys, found.keys)
        _check_cast(values.items, found.items)
    elif _is_list(one) and _is_list(other):
        _check_cast(values.flatten(), found.flatten())


def _are_finite(numbers: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if pt.is_floating(numbers.type):
        return pc.is_finite(numbers)
    if pt.is_string(numbers.type) or pt.is_large_string(numbers.type):
        return pc.invert(pc.match_substring(numbers, "inf", ignore_case=True))
    return numbers.is_valid()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_nested(kind) and hasattr(kind, "value_type") and not pt.is_map(kind))


def _refuse(values: pa.Array, lost: pa.Array, kind: pa.DataType) -> None:
    import pyarrow.compute as pc

    if pc.any(lost).as_py():
        value = values[pc.index(lost, True).as_py()].cast(pa.string())
        raise pa.ArrowInvalid(f"storing {value} as {kind} would cause data loss")

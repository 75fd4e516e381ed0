"""Values as PostgreSQL sends them in binary, a whole column at a time.

Rule: dates and moments are counted from 2000-01-01 in days and microseconds; numeric is made of
digits of base 10,000.
"""

from __future__ import annotations

import struct
import uuid  # noqa: TID251 - reads one, makes none
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.reader.postgres.text import json_of, offsets_of
from blockstore.reader.postgres.types import (
    ELEMENTS,
    INT2,
    JSON,
    NUMERIC,
    OID,
    UUID,
    VECTOR,
    is_bytes,
    type_of,
)

EPOCH_DAYS = 10_957
"""Days from 1970-01-01 to 2000-01-01."""
EPOCH_US = EPOCH_DAYS * 86_400_000_000
_NULL = b"\xff\xff\xff\xff"
_NEGATIVE = 0x4000
_FIXED = {
    pa.int8(): ">i2",
    pa.uint8(): ">i2",
    pa.int16(): ">i2",
    pa.uint16(): ">i4",
    pa.int32(): ">i4",
    pa.uint32(): ">i8",
    pa.int64(): ">i8",
    pa.float16(): ">f4",
    pa.float32(): ">f4",
    pa.float64(): ">f8",
}


def binary_of(column: pa.Array, shown: int | None = None) -> pa.Array:
    """The column as bytes; null stays null. ``shown``: the type that the client was shown."""
    kind = column.type
    if isinstance(kind, pa.ExtensionType) and kind.extension_name != "arrow.uuid":
        return binary_of(column.storage, shown)
    if pt.is_dictionary(kind):
        return binary_of(column.dictionary_decode(), shown)
    oid = shown or type_of(kind)
    if oid == OID:
        return _fixed(column, ">u4")
    if kind in _FIXED:
        return _fixed(column, _FIXED[kind])
    if pt.is_boolean(kind):
        return _fixed(column.cast(pa.uint8()), ">u1")
    if pt.is_date(kind):
        return _days(column)
    if pt.is_time(kind):
        return _fixed(column.cast(pa.time64("us"), safe=False).view(pa.int64()), ">i8")
    if pt.is_timestamp(kind):
        return _moments(column)
    if oid == VECTOR:
        return _lists(column.cast(pa.list_(pa.int16())), INT2, first=0)
    if oid in ELEMENTS:
        return _lists(column, ELEMENTS[oid])
    if oid == JSON:
        return json_of(column).cast(pa.binary())
    if oid == UUID:
        return _each(column, lambda value: value.bytes if isinstance(value, uuid.UUID) else value)
    if oid == NUMERIC:
        return _numerics(column)
    if pt.is_interval(kind):
        return _each(column, _interval)
    if pt.is_duration(kind):
        micros = column.cast(pa.duration("us"), safe=False).view(pa.int64())
        return _each(micros, lambda value: struct.pack("!qii", value, 0, 0))
    return (column if is_bytes(kind) else column.cast(pa.string())).cast(pa.binary())


def sized(values: pa.Array) -> pa.Array:
    """Each value with its length before it, as fields of a row have it; null is the length -1."""
    lengths = pc.fill_null(pc.binary_length(values), -1)
    heads = _fixed(lengths, ">i4")
    return pc.binary_join_element_wise(heads, pc.fill_null(values, b""), b"")


def _each(column: pa.Array, write: Any) -> pa.Array:
    values = [None if value is None else write(value) for value in column.to_pylist()]
    return pa.array(values, pa.binary())


def _fixed(column: pa.Array, form: str) -> pa.Array:
    """Numbers as bytes in the order of the network."""
    plain = pc.fill_null(column, 0) if column.null_count else column
    numbers = np.ascontiguousarray(plain.to_numpy(zero_copy_only=False).astype(form))
    return _bytes(numbers, numbers.dtype.itemsize, column)


def _bytes(numbers: Any, width: int, like: pa.Array) -> pa.Array:
    """The bytes of an array as values of ``width`` bytes; null where ``like`` is."""
    count = len(like)
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers)]
    found = pa.Array.from_buffers(pa.binary(), count, buffers)
    if not like.null_count:
        return found
    return pc.if_else(like.is_valid(), found, pa.scalar(None, pa.binary()))


def _days(column: pa.Array) -> pa.Array:
    days = column.cast(pa.date32()).view(pa.int32())
    odd = np.iinfo(np.int32)
    counts = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    moved = np.clip(counts - EPOCH_DAYS, odd.min, odd.max)
    moved = np.where(counts == odd.max, odd.max, np.where(counts == -odd.max, odd.min, moved))
    return _bytes(np.ascontiguousarray(moved.astype(">i4")), 4, column)


def _moments(column: pa.Array) -> pa.Array:
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.int64())
    counts = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    odd = np.iinfo(np.int64)
    # What is so early that PostgreSQL cannot count it is -infinity, as is DuckDB's -infinity.
    early = counts < odd.min + EPOCH_US
    moved = np.where(early, odd.min, np.where(early, 0, counts) - EPOCH_US)
    moved = np.where(counts == odd.max, odd.max, moved)
    return _bytes(np.ascontiguousarray(moved.astype(">i8")), 8, column)


def _interval(value: pa.MonthDayNano) -> bytes:
    return struct.pack("!qii", value.nanoseconds // 1_000, value.days, value.months)


def _numerics(column: pa.Array) -> pa.Array:
    scale = column.type.scale if pt.is_decimal(column.type) else 0
    return _each(column, lambda value: numeric(Decimal(value), scale))


def numeric(value: Decimal, scale: int) -> bytes:
    """A number as numeric, with ``scale`` digits after the point."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a column of decimals has no NaN"
    unscaled = int("".join(map(str, digits)) or "0")
    shift = exponent % 4
    unscaled *= 10**shift
    groups: list[int] = []
    while unscaled:
        unscaled, group = divmod(unscaled, 10_000)
        groups.append(group)
    weight = len(groups) - 1 + (exponent - shift) // 4
    while groups and groups[0] == 0:
        groups.pop(0)
    groups.reverse()
    head = (len(groups), weight if groups else 0, _NEGATIVE if sign and groups else 0, scale)
    return struct.pack(f"!hhHh{len(groups)}H", *head, *groups)


def _lists(column: pa.Array, element: int, first: int = 1) -> pa.Array:
    inner = binary_of(pc.list_flatten(column), element)
    offsets = offsets_of(column).to_pylist()
    fields = sized(inner)
    ends = np.concatenate([[0], np.cumsum(pc.binary_length(fields).to_numpy())])
    data = b"".join(fields.to_pylist())
    nulls = bool(inner.null_count)
    made: list[bytes | None] = []
    for valid, start, end in zip(column.is_valid().to_pylist(), offsets, offsets[1:], strict=False):
        if not valid:
            made.append(None)
        elif start == end:
            made.append(struct.pack("!iiI", 0, 0, element))
        else:
            head = struct.pack("!iiIii", 1, nulls, element, end - start, first)
            made.append(head + data[ends[start] : ends[end]])
    return pa.array(made, pa.binary())

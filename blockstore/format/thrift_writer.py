"""Thrift's compact protocol, written: the values that a Parquet footer consists of. The reader is
``thrift.py``.

A value is its type and its bytes; ``fields`` makes the bytes of a struct out of values by their
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Value = tuple[int, bytes]

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_STOP = b"\0"
_ONE_BYTE = tuple(bytes([number]) for number in range(128))
_I64_HEADS = tuple(bytes([step << 4 | _I64]) for step in range(16))
_SHORT = 15
"""Lists of fewer elements, and fields at most so far from the last one, have a short head."""


def i32(number: int) -> Value:
    """Return an integer of 32 bits."""
    return _I32, _number(number)


def i64(number: int) -> Value:
    """Return an integer of 64 bits."""
    return _I64, _number(number)


def binary(data: bytes) -> Value:
    """Return bytes, or a text in UTF-8."""
    return _BINARY, _varint(len(data)) + data


def struct(values: Mapping[int, Value]) -> Value:
    """Return a struct of these fields."""
    return _STRUCT, fields(values)


def encoded(data: bytes) -> Value:
    """Return a struct that is encoded already."""
    return _STRUCT, data


def array(values: Iterable[Value]) -> Value:
    """Return a list of values of one type, at least one."""
    listed = list(values)
    kind = listed[0][0]
    length = len(listed)
    head = bytes([length << 4 | kind]) if length < _SHORT else bytes([0xF0 | kind])
    longer = b"" if length < _SHORT else _varint(length)
    return _LIST, b"".join((head, longer, *(data for _, data in listed)))


def fields(values: Mapping[int, Value], *, after: int = 0) -> bytes:
    """Return the bytes of a struct: these fields in the order of their numbers.

    ``after`` is the number of the last field that was written before them (``beginning``).
    """
    return beginning(values, after=after) + _STOP


def beginning(values: Mapping[int, Value], *, after: int = 0) -> bytes:
    """Return the same bytes without the end of the struct: other fields may follow."""
    parts = []
    last = after
    for number in sorted(values):
        kind, data = values[number]
        step = number - last
        short = 0 < step <= _SHORT
        parts.append(bytes([step << 4 | kind]) if short else bytes([kind]) + _number(number))
        parts.append(data)
        last = number
    return b"".join(parts)


def integers(values: Mapping[int, int], *, after: int = 0) -> bytes:
    """Return the same as ``fields`` of integers of 64 bits, by ascending numbers that are less than
    16 apart."""
    parts = []
    last = after
    for number, value in values.items():
        parts.append(_I64_HEADS[number - last])
        parts.append(_number(value))
        last = number
    parts.append(_STOP)
    return b"".join(parts)


def _number(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _varint(value: int) -> bytes:
    if value < 1 << 7:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)

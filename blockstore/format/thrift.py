"""Thrift's compact protocol, as far as Parquet's footers and page indexes use it
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md): structs as
numbered fields, no names.

Invalid bytes raise one of ``MALFORMED``, at the latest at their end.
"""

from __future__ import annotations

import struct as packed
from typing import Any

MALFORMED = (
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    packed.error,
)
"""What invalid bytes can raise, or a struct that lacks a field that is read."""

_MOST_BITS = 70
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12


def struct_at(data: bytes, at: int) -> dict[int, Any]:
    """Return the fields, by their numbers, of the struct that begins at this byte."""
    return _struct(data, at)[0]


def numbers_at(data: bytes, at: int) -> tuple[dict[int, Any], int, int]:
    """Return the first fields of a struct, up to the first one that is a struct itself, with the
    number of that (0: there is none), and where it begins."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _number(data, at + 1)
        kind = head & 15
        if kind == _STRUCT:
            return fields, number, at
        byte = data[at]
        if _BYTE < kind <= _I64 and byte < 128:
            fields[number], at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            fields[number], at = _value(data, at, kind)
    return fields, 0, at + 1


def elements_at(data: bytes, at: int, field: int) -> list[bytes]:
    """Return the structs of a list, still encoded: of the field with this number, in the struct
    that begins at this byte.

    Raises KeyError if it has no such list of structs.
    """
    number = 0
    while head := data[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _number(data, at + 1)
        if number == field and head & 15 == _LIST:
            length, kind, at = _list_head(data, at)
            if kind != _STRUCT:
                break
            found = []
            for _ in range(length):
                start, at = at, _struct(data, at)[1]
                found.append(data[start:at])
            return found
        _, at = _value(data, at, head & 15)
    raise KeyError(field)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 127
    shift = 7
    while data[at] > 127:
        at += 1
        value |= (data[at] & 127) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number of more than 64 bits")
    return value, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _number(data, at + 1)
        fields[number], at = _value(data, at, head & 15)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if _BYTE < kind <= _I64:
        return _number(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_LIST, _SET):
        return _list(data, at)
    if kind == _BYTE:
        return data[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    raise ValueError(f"the format has no type {kind}")


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    length, kind, at = _list_head(data, at)
    values = []
    for _ in range(length):
        value, at = _value(data, at, kind)
        values.append(value)
    return values, at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return how many elements a list has, their type, and where they begin."""
    head = data[at]
    length, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    return length, _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15, at

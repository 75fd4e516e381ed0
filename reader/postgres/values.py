"""The values of parameters, from text or binary to what the engine takes.

Rule: a value of a type that this door does not have in binary is refused by its type, never
guessed.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid  # noqa: TID251 - reads one, makes none
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.states import BAD_VALUE, FEATURE, Refused

_SPACE = " \t\n\r\v\f"
_EPOCH = dt.datetime(2000, 1, 1)
_TEXTS = frozenset({t.TEXT, t.VARCHAR, t.BPCHAR, t.NAME, t.CHAR, t.UNKNOWN, t.JSON, 3802, 0})
_WHOLE = frozenset({t.INT2, t.INT4, t.INT8, t.OID})
_FLOATS = frozenset({t.FLOAT4, t.FLOAT8})
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:[ T]+(?P<clock>\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?"
    r" *(?:(?P<named>Z|UTC|GMT)|(?P<zone>[+-]\d\d(?::?\d\d){0,2}))?",
    re.IGNORECASE,
)
"""A day, a time of it or none, and a zone or none: drivers write a day as ``2024-02-29 +00``."""
_INFINITE = {2**63 - 1: "infinity", -(2**63): "-infinity"}
_INFINITE_DAYS = {2**31 - 1: "infinity", -(2**31): "-infinity"}


def value_of(data: bytes | None, oid: int, form: int, place: int) -> object:
    """The value of a parameter. Raises Refused."""
    if data is None:
        return None
    if form not in (0, 1):
        raise Refused("08P01", f"parameter {place} has the format {form}, expected 0 or 1")
    try:
        return _binary(data, oid) if form else _text(data.decode(), oid)
    except (ValueError, struct.error, InvalidOperation, OverflowError) as error:
        name = t.TYPES[oid].shown if oid in t.TYPES else f"the type {oid}"
        raise Refused(BAD_VALUE, f"parameter ${place} is not a value of {name}: {error}") from None


def _text(text: str, oid: int) -> object:
    if oid in _WHOLE:
        return int(text)
    if oid in _FLOATS:
        return float(text)
    if oid == t.NUMERIC:
        return Decimal(text)
    if oid == t.BOOL:
        return _switch(text)
    if oid == t.BYTEA:
        return _bytes(text)
    if oid == t.UUID:
        return str(uuid.UUID(text))  # drivers also write it without hyphens
    if oid in t.ELEMENTS:
        return [None if one is None else _text(one, t.ELEMENTS[oid]) for one in array_of(text)]
    if oid == t.DATE and text[:4].isdigit():
        return _moment(text, t.TIMESTAMP).date()
    if oid in (t.TIMESTAMP, t.TIMESTAMPTZ) and text[:4].isdigit():
        return _moment(text, oid)
    return text


def _switch(text: str) -> bool:
    low = text.strip().lower()
    if low and any(word.startswith(low) for word in ("true", "yes", "on", "1")) and low != "o":
        return True
    if low and any(word.startswith(low) for word in ("false", "no", "off", "0")) and low != "o":
        return False
    raise ValueError(f"{text!r}, expected true or false")


def _bytes(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    raise ValueError("bytes are written as \\x and hexadecimal digits")


def _moment(text: str, oid: int) -> dt.datetime:
    own = _MOMENT.fullmatch(text)
    if own is not None:
        zone = "+00:00" if own["named"] else own["zone"] or ""
        text = f"{own['day']}T{own['clock'] or '00:00'}{zone}"
    found = dt.datetime.fromisoformat(text)
    if oid == t.TIMESTAMP:
        return found.replace(tzinfo=None)
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def _number(form: str) -> Callable[[bytes], object]:
    whole = struct.Struct(form)

    def read(data: bytes) -> object:
        (found,) = whole.unpack(data)
        return found

    return read


def _days(data: bytes) -> object:
    (days,) = struct.unpack("!i", data)
    return _INFINITE_DAYS.get(days) or _EPOCH.date() + dt.timedelta(days=days)


def _micros(data: bytes, zone: dt.tzinfo | None) -> object:
    (micros,) = struct.unpack("!q", data)
    found = _INFINITE.get(micros)
    return found or _EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=micros)


def _time(data: bytes) -> object:
    (micros,) = struct.unpack("!q", data)
    if micros == 86_400_000_000:
        return "24:00:00"
    return (_EPOCH + dt.timedelta(microseconds=micros)).time()


def _interval(data: bytes) -> object:
    micros, days, months = struct.unpack("!qii", data)
    if months:
        return f"{months} months {days} days {micros} microseconds"
    return dt.timedelta(days=days, microseconds=micros)


def numeric_of(data: bytes) -> Decimal:
    """A number from its digits of base 10,000. Raises ValueError."""
    count, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        return Decimal({0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign, "?"))
    groups = struct.unpack(f"!{count}H", data[8:])
    if any(group > 9_999 for group in groups):
        raise ValueError("a digit of base 10,000 is larger than 9,999")
    whole = 0
    for group in groups:
        whole = whole * 10_000 + group
    # By its text: arithmetic would round to 28 digits.
    return Decimal(f"{'-' if sign else ''}{whole}E{4 * (weight - count + 1)}")


def _json(data: bytes) -> object:
    return data.removeprefix(b"\x01").decode()


_BINARY: dict[int, Callable[[bytes], object]] = {
    t.BOOL: lambda data: data != b"\0",
    t.BYTEA: bytes,
    t.INT2: _number("!h"),
    t.INT4: _number("!i"),
    t.INT8: _number("!q"),
    t.OID: _number("!I"),
    t.FLOAT4: _number("!f"),
    t.FLOAT8: _number("!d"),
    t.NUMERIC: numeric_of,
    t.DATE: _days,
    t.TIME: _time,
    t.TIMESTAMP: lambda data: _micros(data, None),
    t.TIMESTAMPTZ: lambda data: _micros(data, dt.UTC),
    t.INTERVAL: _interval,
    t.UUID: lambda data: str(uuid.UUID(bytes=data)),
    3802: _json,
    **dict.fromkeys(_TEXTS - {3802}, lambda data: data.decode()),
}


def _binary(data: bytes, oid: int) -> object:
    if oid in t.ELEMENTS:
        return _array(data)
    if oid not in _BINARY:
        raise Refused(FEATURE, f"values of the type {oid} are not read in binary: send text")
    return _BINARY[oid](data)


def _array(data: bytes) -> list[object]:
    dimensions, _, element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError(f"an array of {dimensions} dimensions, expected 1")
    (count,) = struct.unpack_from("!i", data, 12)
    found: list[object] = []
    at = 20
    for _ in range(min(count, len(data))):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        if size < 0:
            found.append(None)
            continue
        found.append(_binary(data[at : at + size], element))
        at += size
    return found


def array_of(text: str) -> list[str | None]:
    """The elements of an array of one dimension: ``{1,NULL,"a b"}``. Raises ValueError."""
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError(f"{text[:40]!r}, expected an array in braces")
    found: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] in _SPACE:
            at += 1
            continue
        if text[at] == '"':
            parts: list[str] = []
            at += 1
            while at < end and text[at] != '"':
                at += text[at] == "\\"
                parts.append(text[at])
                at += 1
            found.append("".join(parts))
            at = (text.find(",", at, end) + end) % end if "," in text[at:end] else end
        else:
            stop = text.find(",", at, end)
            stop = end if stop < 0 else stop
            word = text[at:stop].strip(_SPACE)
            if "{" in word:
                raise ValueError("an array of several dimensions, expected 1")
            found.append(None if word.upper() == "NULL" else word.replace("\\", ""))
            at = stop
        at += 1
    return found

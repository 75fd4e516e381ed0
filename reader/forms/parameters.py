"""The values of a statement's parameters as JSON.

JSON has texts, numbers, true, false, null, lists and objects. A value of another type is an object
with one key: ``{"$decimal": "12.50"}``. An object with any other keys is a struct.

    $decimal     its digits, as text
    $float       nan, inf or -inf, which JSON does not have
    $bytes       base64
    $date        2026-01-31
    $time        12:30:00.5
    $timestamp   2026-01-31T12:30:00, with an offset or Z if it is an instant
    $duration    microseconds, as a whole number

``blockstore.client.parameters`` writes them.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from blockstore.errors import Invalid
from blockstore.format.texts import check_text

_DECIMAL = re.compile(r"[+-]?(\d++(?:\.\d*+)?|\.\d++)([eE][+-]?\d{1,3})?")
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
"""A fraction of a second with digits below a microsecond, which Python's times do not have."""
_DIGITS = 38
"""The digits of the widest decimal of the engine."""
_LONGEST = 60

Parameters = list[object] | dict[str, object] | None


def from_json(given: Sequence[object] | Mapping[str, object] | None) -> Parameters:
    """The values of parameters that were parsed from JSON. Raises Invalid with the parameter's
    name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(name): _value(value, str(name)) for name, value in given.items()}
    return [_value(value, str(place)) for place, value in enumerate(given, start=1)]


def _value(value: object, name: str) -> object:
    """The depth is bounded by the JSON parser."""
    if isinstance(value, list):
        return [_value(one, name) for one in value]
    if isinstance(value, str) and not value.isascii():
        check_text(f"parameter {name}", value, limit=len(value))
    if not isinstance(value, dict):
        return value
    (key, *more) = value or ("",)
    read = _READ.get(key) if not more else None
    if read is None:
        return {key: _value(one, name) for key, one in value.items()}
    return read(value[key], name)


def _decimal(text: object, name: str) -> Decimal:
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise _wrong(
            name, "a decimal", 'give its digits as text, such as {"$decimal": "12.50"}', text
        )
    found = Decimal(text)
    plain = format(found, "f").lstrip("+-").replace(".", "").lstrip("0")
    if max(len(plain), -int(found.as_tuple().exponent)) > _DIGITS:
        raise Invalid(
            f"parameter {name} is {text[:_LONGEST]}: a decimal has at most {_DIGITS} digits"
        )
    return found


def _float(text: object, name: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise _wrong(name, "a float", "expected nan, inf or -inf as text", text)
    return float(str(text))


def _bytes(text: object, name: str) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(name, "bytes", "give them as base64", text) from None


def _moment(
    read: Callable[[str], object], what: str, example: str
) -> Callable[[object, str], object]:
    def parsed(text: object, name: str) -> object:
        if _FINER.search(str(text)):
            advice = "it has digits below a microsecond: pass it as text and cast it in the SQL"
            raise _wrong(name, what, advice, text)
        try:
            return read(str(text))
        except ValueError:
            raise _wrong(name, what, f"expected one such as {example}", text) from None

    return parsed


def _duration(count: object, name: str) -> dt.timedelta:
    if isinstance(count, bool) or not isinstance(count, int) or abs(count) > 2**62:
        raise _wrong(name, "a duration", "give its microseconds as a whole number", count)
    try:
        return dt.timedelta(microseconds=count)
    except OverflowError:
        raise _wrong(name, "a duration", "it is too long", count) from None


_READ: dict[str, Callable[[object, str], object]] = {
    "$decimal": _decimal,
    "$float": _float,
    "$bytes": _bytes,
    "$date": _moment(dt.date.fromisoformat, "a date", "2026-01-31"),
    "$time": _moment(dt.time.fromisoformat, "a time", "12:30:00"),
    "$timestamp": _moment(dt.datetime.fromisoformat, "a timestamp", "2026-01-31T12:30:00Z"),
    "$duration": _duration,
}


def _wrong(name: str, what: str, advice: str, found: object) -> Invalid:
    return Invalid(f"parameter {name} is not {what}: {advice}; found {str(found)[:_LONGEST]!r}")

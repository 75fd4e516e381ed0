"""Convert texts to values of a column's type.

Rules: a text is exactly a value of the type, or it is refused; nothing is rounded or truncated,
except for the binary fractions of a float. In a column with a time zone, a timestamp without one is
UTC; in a column without a zone, a timestamp with one is refused. Dates and timestamps are of the
years 1 to 9999. Bytes are base64, and the handle of a file is a JSON object. Other programs write
integers with a zero fraction, truth as a letter or a number, and dates with slashes or at midnight:
such texts are values too, where they can be no other value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from decimal import Decimal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.cli.schema_text import type_name
from blockstore.format.column import HANDLE
from blockstore.format.decimals import exactly
from blockstore.format.years import YEARS, in_years

_TIMED_ZONE = r"(?i)\d\d:\d\d.*(z|[+-]\d\d(:?\d\d)?)$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,4})?", re.IGNORECASE)
_SHORT_DECIMAL = r"^[+-]?[0-9]{1,18}(\.[0-9]{1,18})?$"
_ZEROS = {
    "s": (r"(:\d\d)\.0+([^\d].*)?$", r"\1\2"),
    "ms": (r"(:\d\d\.\d{3})0+([^\d].*)?$", r"\1\2"),
    "us": (r"(:\d\d\.\d{6})0+([^\d].*)?$", r"\1\2"),
}
"""The zeros of a fraction after the last digit of a unit, and the text without them."""
_ZERO_FRACTION = r"^([+-]?[0-9]+)\.(?:00?|0000+)$|^([+-]?(?:0+|[0-9]{4,}))\.000$"
"""But ``1.000`` is a thousand where the point separates groups of digits."""
_ROUNDED = r"(?i)^[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?$"
_COMMAS = r"[+-]?[0-9.]+,[0-9.,]+$"
_LOCAL_DATE = r"(?![0-9]{4}-[0-9]{2}-[0-9]{2})[0-9]{1,4}[./-][0-9A-Za-z]+[./-][0-9]{1,4}(\D|$)"
_EXACT = 2**53
"""From this size on, several integers become the same float."""
_SLASHES = (r"^([0-9]{4})/([0-9]{2})/([0-9]{2})", r"\1-\2-\3")
_WHOLE_SECONDS = (r"^([0-9]{4})/([0-9]{2})/([0-9]{2})([^.]*)$", r"\1-\2-\3\4")
"""Gnumeric writes times with slashes, and cuts them to milliseconds: such a fraction may be a part
of the one that was there."""
_CUT = r"[0-9]{4}/[0-9]{2}/[0-9]{2}.*\."
_MIDNIGHT = (r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00(\.0+)?$", r"\1")
_TRUTH = ((r"(?i)^t$|^1\.(?:00?|0000+)$", "true"), (r"(?i)^f$|^0\.0+$", "false"))


def is_plain(kind: pa.DataType) -> bool:
    """Return whether a text can contain a value of the type."""
    return not pa.types.is_nested(kind) or kind == HANDLE


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether the values are bytes: in a text they are base64."""
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def expected(kind: pa.DataType) -> str:
    """Return what a text should have been, for a message."""
    if kind == HANDLE:
        return "the handle of a file, as a JSON object"
    if is_bytes(kind):
        return f"{type_name(kind)} as base64"
    timed = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return f"{type_name(kind)} in {YEARS}" if timed else type_name(kind)


def unpacked(text: str) -> bytes:
    """Decode base64. Raises ValueError."""
    return base64.b64decode(text, validate=True)


def converted(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert strings to values of ``kind``; nulls stay. Raises pa.ArrowInvalid."""
    types = pa.types
    if types.is_string(kind):
        return texts
    if types.is_integer(kind):
        return _whole(texts, kind)
    if types.is_floating(kind):
        return _floats(texts, kind)
    if types.is_decimal(kind):
        return _decimals(texts, kind)
    if types.is_timestamp(kind):
        found = _local(texts, kind) if kind.tz is None else _instants(texts, kind)
        return in_years(found)
    if types.is_time(kind):
        return _times(texts, kind)
    if types.is_duration(kind):
        return _whole(texts, pa.int64()).cast(kind)
    if is_bytes(kind):
        return _bytes(texts, kind)
    if kind == HANDLE:
        return _handles(texts)
    if types.is_date(kind):
        return in_years(_respelled(texts, kind, (_SLASHES, _MIDNIGHT)))
    return _respelled(texts, kind, _TRUTH) if types.is_boolean(kind) else texts.cast(kind)


def remedy(text: str, kind: pa.DataType) -> str:
    """Return what to do about a text that is not a value of ``kind``."""
    types = pa.types
    if types.is_integer(kind) and re.match(_ROUNDED, text):
        return (
            "the program that wrote it has made it a float, perhaps of fewer digits: have it take "
            "the column as text"
        )
    if re.match(_COMMAS, text) and (types.is_integer(kind) or types.is_floating(kind)):
        return "write numbers with a decimal point, and without separators of thousands"
    if types.is_timestamp(kind) and re.match(_CUT, text):
        return (
            "the program that wrote it may have cut the fraction: have it take the column as text"
        )
    if (types.is_date(kind) or types.is_timestamp(kind)) and re.match(_LOCAL_DATE, text):
        return "write dates as 2020-01-31: the order of day and month is not guessed"
    if types.is_boolean(kind):
        return "write true or false"
    return "fix the value"


def converts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether ``converted`` takes all of them."""
    try:
        converted(texts, kind)
    except pa.ArrowInvalid:
        return False
    return True


def first_bad(texts: pa.Array, kind: pa.DataType) -> int | None:
    """Return the position of the first text that is not a value of ``kind``, by bisection."""
    if converts(texts, kind):
        return None
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        if converts(texts.slice(low, middle - low), kind):
            low = middle
        else:
            high = middle
    return low


def all_bad(texts: pa.Array, kind: pa.DataType, most: int) -> list[int]:
    """Return the positions of the first ``most`` texts that are not values of ``kind``."""
    found: list[int] = []
    start = 0
    while len(found) < most and (at := first_bad(texts.slice(start), kind)) is not None:
        found.append(start + at)
        start += at + 1
    return found


def decimal(text: str) -> Decimal:
    """Parse a number. Raises ValueError, also for exponents that no type supports."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("a decimal number was expected")
    return Decimal(text)


def _whole(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse integers; hexadecimal ones are refused, although Arrow reads them.

    A fraction of zeros is that of a float, which has only one integer below 2**53.
    """
    if pc.any(pc.match_substring_regex(texts, "[xX]")).as_py():
        raise pa.ArrowInvalid("a whole number in decimal digits was expected")
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        values = pc.replace_substring_regex(texts, _ZERO_FRACTION, r"\1\2").cast(kind)
        floats = values.filter(pc.match_substring_regex(texts, _ZERO_FRACTION)).cast(pa.int64())
        if pc.any(pc.greater_equal(pc.abs_checked(floats), _EXACT)).as_py():
            raise
        return values


def _respelled(
    texts: pa.Array, kind: pa.DataType, spellings: Sequence[tuple[str, str]]
) -> pa.Array:
    """Parse texts, some of which may be spelled in another way."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        for pattern, usual in spellings:
            texts = pc.replace_substring_regex(texts, pattern, usual)
        return texts.cast(kind)


def _floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse floats; numbers that are too large are refused, although Arrow reads infinity."""
    values = texts.cast(kind)
    infinite = pc.is_inf(values)
    if (
        pc.any(infinite).as_py()
        and not pc.all(pc.match_substring_regex(texts.filter(infinite), _INFINITE)).as_py()
    ):
        raise pa.ArrowInvalid(f"a number in the range of a {kind} was expected")
    return values


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse decimals.

    Arrow converts up to 18 digits on either side of the point exactly, by way of a decimal of twice
    the width. With more digits it makes other numbers, so those texts are parsed one by one.
    """
    if pc.all(pc.match_substring_regex(texts, _SHORT_DECIMAL)).as_py() is not False:
        return texts.cast(pa.decimal256(76, kind.scale)).cast(kind)
    exact = exactly(kind)
    try:
        return pa.array(
            [None if text is None else exact(decimal(text)) for text in texts.to_pylist()], kind
        )
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _bytes(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(
            [None if text is None else unpacked(text) for text in texts.to_pylist()], kind
        )
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _handles(texts: pa.Array) -> pa.Array:
    """Parse handles of files, as CSV holds them. Whether each is complete is checked later."""
    found = []
    for text in texts.to_pylist():
        try:
            value = None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise pa.ArrowInvalid(str(error)) from None
        if value is not None and (not isinstance(value, dict) or value.keys() - set(HANDLE.names)):
            raise pa.ArrowInvalid("the handle of a file was expected")
        found.append(value)
    try:
        return pa.array(found, HANDLE)
    except (pa.ArrowTypeError, OverflowError) as error:
        raise pa.ArrowInvalid(str(error)) from None


def _local(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse timestamps, with any zeros after the last digit of the unit: some engines write
    them."""
    zeros = [_ZEROS[kind.unit]] if kind.unit in _ZEROS else []
    return _respelled(texts, kind, (_WHOLE_SECONDS, *zeros))


def _instants(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    zoned = pc.match_substring_regex(texts, _TIMED_ZONE)
    with_zone = _local(pc.if_else(zoned, texts, None), pa.timestamp(kind.unit, "UTC"))
    without = _local(pc.if_else(zoned, None, texts), pa.timestamp(kind.unit))
    return pc.coalesce(with_zone, pc.assume_timezone(without, "UTC")).cast(kind)


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse times of day, as timestamps of day zero: Arrow cannot cast text to a time."""
    moments = pc.binary_join_element_wise("1970-01-01 ", texts, "").cast(pa.timestamp("ns"))
    return moments.cast(pa.time64("ns")).cast(kind, safe=True)

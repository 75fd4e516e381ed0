"""Literals, read exactly as the type of the column that they are compared with.

A **key** is the Python value in which a column is ordered: int for integers; Decimal for decimals;
float; str; bytes; bool; and nanoseconds as int for dates, timestamps (since the epoch, UTC) and
times of day. Statistics of a block written under an older, narrower type turn into the same keys,
so that widening needs no special case.

Rules:
- Nothing is rounded silently where the column has a grid (integers, decimals, dates, timestamps,
  times): a literal between two values becomes the comparison that means the same: ``n > 60.5`` on
  integers is ``n > 60``.
- A literal for a float column is the nearest float of its width.
- A timestamp without a zone is UTC, in the column as in the literal.
- A text for a binary column is its ASCII characters, and \\xNN each other byte, as DuckDB casts a
  text to a BLOB.
- A text is cast to the column's type and must be a value of it, so that no engine rounds it in its
  own way; a number is never taken for a text, a date or a truth value.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, localcontext
from enum import StrEnum
from functools import lru_cache

import pyarrow as pa

from blockstore.predicate.nodes import FALSE, Column, Compare, IsNull, Key, Node, OneOf, Op

DAY_NS = 86_400_000_000_000
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[ T](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\s*(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_BYTES = re.compile(r"(?:[\x00-\x5b\x5d-\x7f]|\\x[0-9a-fA-F]{2})*")
_ESCAPE = re.compile(rb"\\x(..)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)


class Kind(StrEnum):
    """The kind of a column's values in a comparison."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BOOLEAN = "boolean"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"
    NONE = "a type without an order"


TIMED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIME})
"""Kinds whose keys are nanoseconds."""


@dataclass(frozen=True, slots=True)
class Temporal:
    """A typed literal of time: nanoseconds since the epoch, or since midnight for a time of day."""

    kind: Kind
    ns: int


Literal = Decimal | str | bool | bytes | Temporal
"""A literal as it was written, before it is compared with a column."""


@lru_cache(maxsize=1024)
def kind_of(type_: pa.DataType) -> Kind:
    """Return the kind of a column's type; of a dictionary, that of its values."""
    types = pa.types
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    for kind, tests in (
        (Kind.INTEGER, (types.is_integer,)),
        (Kind.FLOAT, (types.is_floating,)),
        (Kind.STRING, (types.is_string, types.is_large_string, types.is_string_view)),
        (Kind.TIMESTAMP, (types.is_timestamp,)),
        (Kind.DATE, (types.is_date,)),
        (Kind.BOOLEAN, (types.is_boolean,)),
        (Kind.DECIMAL, (types.is_decimal,)),
        (
            Kind.BINARY,
            (
                types.is_binary,
                types.is_large_binary,
                types.is_fixed_size_binary,
                types.is_binary_view,
            ),
        ),
        (Kind.TIME, (types.is_time,)),
    ):
        if any(test(type_) for test in tests):
            return kind
    return Kind.NONE


def unit_ns(type_: pa.DataType) -> int:
    """Return the nanoseconds between two neighbours of a date, timestamp or time type."""
    return DAY_NS if pa.types.is_date(type_) else _UNIT_NS[type_.unit]


def compare(column: Column, op: Op, literal: Literal) -> Node:
    """Return the leaf that is true where ``column op literal`` is.

    Raises ValueError, whose text is what was expected.
    """
    kind = kind_of(column.type)
    value = key_of(column.type, literal)
    if isinstance(value, bytes) and pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        if len(value) != width:
            if op in (Op.EQ, Op.NE):
                return FALSE if op is Op.EQ else IsNull(column, negated=True)
            raise ValueError(f"{width} bytes, the width of its values")
    if kind not in _GRIDDED:
        return Compare(column, op, value)
    assert isinstance(value, int | Decimal)
    with localcontext() as context:
        context.prec = 1000
        step, low, high = _grid(column.type, kind)
        floor = value // step * step
        if floor > value:
            floor -= step
        exact = floor == value
        if isinstance(literal, str) and not (exact and low <= value <= high):
            raise ValueError("a text that is a value of this type")
        if op in (Op.EQ, Op.NE) and not (exact and low <= value <= high):
            return FALSE if op is Op.EQ else IsNull(column, negated=True)
        if floor < low or value > high:
            everything = op in (Op.GT, Op.GE) if floor < low else op in (Op.LT, Op.LE)
            return IsNull(column, negated=True) if everything else FALSE
    if not exact:
        op = {Op.LT: Op.LE, Op.GE: Op.GT}.get(op, op)
    return Compare(column, op, floor if kind is Kind.DECIMAL else int(floor))


_GRIDDED = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIME})


def _grid(type_: pa.DataType, kind: Kind) -> tuple[int | Decimal, int | Decimal, int | Decimal]:
    """Return (distance of two neighbours, least value, greatest value) of a gridded type."""
    if kind is Kind.INTEGER:
        bits = type_.bit_width
        if pa.types.is_signed_integer(type_):
            return 1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return 1, 0, 2**bits - 1
    if kind is Kind.DECIMAL:
        step = Decimal(1).scaleb(-type_.scale)
        greatest = (Decimal(10) ** type_.precision - 1) * step
        return step, -greatest, greatest
    step_ns = unit_ns(type_)
    if kind is Kind.TIME:
        return step_ns, 0, DAY_NS - step_ns
    reach = 2**31 if kind is Kind.DATE else 2**63
    return step_ns, -reach * step_ns, (reach - 1) * step_ns


def one_of(column: Column, values: list[Literal | None], negated: bool) -> Node:
    """Return ``column [NOT] IN (values)`` as SQL means it: NOT IN with a null is never true.

    Raises ValueError, whose text is what was expected.
    """
    if negated and None in values:
        return FALSE
    equal = [compare(column, Op.EQ, value) for value in values if value is not None]
    keys: tuple[Key, ...] = tuple(
        dict.fromkeys(leaf.key for leaf in equal if isinstance(leaf, Compare))
    )
    if not keys:
        return IsNull(column, negated=True) if negated else FALSE
    return OneOf(column, keys, negated)


def key_of(type_: pa.DataType, literal: Literal) -> Key:
    """Return the key of a literal for a column type, not yet on its grid.

    Raises ValueError, whose text is what was expected.
    """
    kind = kind_of(type_)
    if kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        number = _number(literal)
        if kind is not Kind.FLOAT:
            return number
        return _nearest_float(number, type_.bit_width)
    if kind is Kind.STRING and isinstance(literal, str):
        return literal
    if kind is Kind.BOOLEAN:
        if isinstance(literal, str) and literal.lower() in ("true", "false"):
            return literal.lower() == "true"
        if isinstance(literal, bool):
            return literal
        raise ValueError("TRUE or FALSE")
    if kind is Kind.BINARY and isinstance(literal, bytes | str):
        return _bytes(literal) if isinstance(literal, str) else literal
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        if isinstance(literal, str):
            literal = moment(literal, kind, zoned=kind is Kind.TIMESTAMP and type_.tz is not None)
        if isinstance(literal, Temporal) and literal.kind in (Kind.DATE, Kind.TIMESTAMP):
            return literal.ns
        raise ValueError("a date or a timestamp in single quotes")
    if kind is Kind.TIME:
        return _time_of_day(literal)
    if kind is Kind.NONE:
        raise ValueError("a column with an order: this type has only IS NULL")
    raise ValueError("a text in single quotes")


def literal_of(value: object) -> Literal | None:
    """Return a Python value as a literal; None for None. Raises ValueError for other types."""
    if isinstance(value, pa.TimestampScalar | pa.Time64Scalar) and value.is_valid:
        # Values of Python have no nanoseconds.
        kind = Kind.TIME if isinstance(value, pa.Time64Scalar) else Kind.TIMESTAMP
        return Temporal(kind, value.value * unit_ns(value.type))
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, str | bytes):
        # Not numpy's ``item``, which strips NULs at the end of a text.
        return str.__str__(value) if isinstance(value, str) else bytes(value)
    if hasattr(value, "item") and callable(value.item):
        value = value.item()
    if value is None or isinstance(value, bool | Temporal):
        return value
    if isinstance(value, int | Decimal):
        number = Decimal(value)
    elif isinstance(value, float):
        number = Decimal(repr(value)) if math.isfinite(value) else Decimal(value)
    elif isinstance(value, datetime.datetime):
        utc = value.replace(tzinfo=value.tzinfo or datetime.UTC).astimezone(datetime.UTC)
        since = utc - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        # Those of pandas have nanoseconds.
        ns = getattr(value, "nanosecond", 0)
        return Temporal(Kind.TIMESTAMP, since // datetime.timedelta(microseconds=1) * 1000 + ns)
    elif isinstance(value, datetime.date):
        return Temporal(Kind.DATE, (value.toordinal() - _EPOCH_DAY) * DAY_NS)
    elif isinstance(value, datetime.time) and value.tzinfo is None:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return Temporal(Kind.TIME, seconds * 1_000_000_000 + value.microsecond * 1000)
    else:
        raise ValueError("a number, a text, a truth value, bytes, a date, a time or a datetime")
    if number.is_nan():
        raise ValueError("a number other than NaN")
    return number


def moment(text: str, kind: Kind, *, zoned: bool = False) -> Temporal:
    """Return a text as a date, a timestamp or a time of day.

    A date has no time of day, and only a ``zoned`` timestamp may name a zone: engines differ on the
    others. Raises ValueError, whose text is what was expected.
    """
    if kind is Kind.TIME:
        return Temporal(kind, _time_of_day(text))
    local_ns, offset_ns = _local_and_offset(text)
    if kind is Kind.DATE and (local_ns % DAY_NS or offset_ns):
        raise ValueError("a date without a time of day, or TIMESTAMP '...'")
    if offset_ns and not zoned:
        raise ValueError("a timestamp without a zone, which is taken as UTC")
    return Temporal(kind, local_ns - offset_ns)


def _number(literal: Literal) -> Decimal:
    if isinstance(literal, str):
        try:
            literal = Decimal(literal.strip())
        except InvalidOperation:
            raise ValueError("a number") from None
    if not isinstance(literal, Decimal) or not literal.is_finite() or abs(literal.adjusted()) > 400:
        raise ValueError("a number")
    return literal


def _bytes(text: str) -> bytes:
    if _BYTES.fullmatch(text) is None:
        raise ValueError(
            r"ASCII text with every other byte as \xNN, the backslash as \x5C, or x'...' with "
            r"nothing but such digits"
        )
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())


def _nearest_float(number: Decimal, bits: int) -> float:
    value = float(number)
    if bits == 64 or not math.isfinite(value):
        return value
    code = "<f" if bits == 32 else "<e"
    try:
        narrow: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return narrow


def _local_and_offset(text: str) -> tuple[int, int]:
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError("a date or a timestamp such as '2013-01-31' or '2013-01-31 23:59:00'")
    try:
        days = datetime.date.fromisoformat(match["date"]).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError("a date that exists, as year-month-day") from None
    return days * DAY_NS + _time_of_day(match["time"] or "00:00"), _offset_ns(match["zone"] or "Z")


def _offset_ns(zone: str) -> int:
    if zone.upper() in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-1 if zone[0] == "-" else 1) * minutes * 60_000_000_000


def _time_of_day(literal: Literal) -> int:
    if isinstance(literal, Temporal) and literal.kind is Kind.TIME:
        return literal.ns
    match = _TIME.fullmatch(literal.strip()) if isinstance(literal, str) else None
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        raise ValueError("a time of day such as '23:59:00'")
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3] or 0)
    return seconds * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))

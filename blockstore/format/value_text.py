"""Values in messages, as people write them: in CSV, in JSON, and where they name a row.

Rules:
- A text is in single quotes, so that its ends are seen. Times are ISO texts, bytes are base64,
  numbers are their digits, and a null is ``null``.
- A time that Python cannot hold, of nanoseconds or of another year, stays a scalar of Arrow: it is
  neither cut nor left to pandas, which a program need not have.
- A key of several columns is a JSON array, which is how such a row is named.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt


def plain(value: pa.Scalar) -> object:
    """Return a value of Arrow as one of Python, without pandas and without loss; what Python cannot
    hold stays as it is, also in lists and structs."""
    kind = value.type
    if not value.is_valid or not _has_times(kind):
        return value.as_py()
    if pt.is_dictionary(kind):
        return plain(value.value)
    if pt.is_struct(kind):
        return {field.name: plain(value[field.name]) for field in kind.fields}
    if pt.is_map(kind):
        pairs = value.values
        return list(zip(plain_values(pairs.field(0)), plain_values(pairs.field(1)), strict=True))
    if pt.is_nested(kind):
        return plain_values(value.values)
    return _time(value)


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return the values of a column as ``plain`` does."""
    if not _has_times(values.type):
        return list(values.to_pylist())
    if "ns" not in str(values.type):
        # Faster, and the same values wherever Python can hold all of them.
        with suppress(ValueError, OverflowError):
            return list(values.to_pylist())
    return [plain(one) for one in values]


def plain_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts of plain values."""
    names = rows.schema.names
    columns = [plain_values(column) for column in rows.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_keys(rows: pa.Table | pa.RecordBatch) -> list[tuple[object, ...]]:
    """Return rows as tuples of plain values."""
    return list(zip(*(plain_values(column) for column in rows.columns), strict=True))


def value_text(value: object) -> str:
    """Return a value of Python as people write it."""
    if isinstance(value, str):
        return repr(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def row_text(key: object) -> str:
    """Return what identifies a row, as people write it; a tuple of one value is that value."""
    return value_text(key[0] if isinstance(key, tuple) and len(key) == 1 else key)


def _has_times(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        return _has_times(kind.value_type)
    if pt.is_nested(kind):
        return any(_has_times(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pt.is_temporal(kind))


def _time(value: pa.Scalar) -> object:
    kind = value.type
    try:
        if not pt.is_date(kind) and kind.unit == "ns":
            value_of = value.cast(_in_microseconds(kind))  # Raises where it would lose digits.
            return value_of.as_py()
        return value.as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return value


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pt.is_duration(kind) else pa.time64("us")


def _plain(value: object) -> object:
    """The value as JSON has it."""
    if isinstance(value, pa.Scalar):
        text = value.cast(pa.string()).as_py()
        return text.replace(" ", "T") if pt.is_timestamp(value.type) else text
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, Decimal | datetime.timedelta) else repr(value)

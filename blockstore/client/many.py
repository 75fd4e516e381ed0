"""Many rows of parameters for one statement, as one version.

Rules:
- An INSERT of nothing but parameters is an upload of Arrow, of any size: values are cast to the
  types of the table's columns as SQL casts them, or refused. It never stores another value than
  the statement alone would.
- Any other statement is repeated, as one transaction in one request, and is as large as a request
  may be.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import chain
from numbers import Integral, Number
from typing import Any

import numpy as np
import pyarrow as pa

from blockstore.client.client import Client
from blockstore.errors import Invalid
from blockstore.format.given import array_of, cast

_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_]\w*)'
_INSERT = re.compile(
    rf"\s*INSERT\s+INTO\s+({_NAME})\s*\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)"
    r"\s*VALUES\s*\((\s*\?(?:\s*,\s*\?)*\s*)\)\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """An INSERT of nothing but parameters: its table and its columns, as they are written."""

    table: str
    columns: tuple[str, ...]


def insert_of(sql: str) -> Insert | None:
    """The INSERT of a text; None for any other statement."""
    found = _INSERT.fullmatch(sql)
    if found is None:
        return None
    columns = tuple(re.findall(_NAME, found[2]))
    return Insert(table=found[1], columns=columns) if found[3].count("?") == len(columns) else None


def carry_out(client: Client, sql: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Carry out a statement with each of the rows; all of it is one version. Return what
    ``Client.execute`` does. Raises Invalid for a value that does not fit its column."""
    insert = insert_of(sql)
    if insert is None:
        text = sql.strip().rstrip(";")
        # A comment at the end of a statement ends with its line.
        several = f"{text}\n;\n" * len(rows)
        return client.execute(f"BEGIN;\n{several}COMMIT", list(chain(*rows)))
    listed = ", ".join(insert.columns)
    with client.sql(f"SELECT {listed} FROM {insert.table} LIMIT 0").stream() as reader:
        schema = reader.schema
    name = _plain(insert.table)
    given = {one.lower() for one in schema.names}
    # What the INSERT does not name is the column's default, or null.
    others = [
        one["name"]
        for one in client.table(name)["columns"]
        if one["name"].lower() not in given and one["default"] is None
    ]
    for row in rows:
        if len(row) != len(schema):
            raise Invalid(f"a row has {len(row)} values, expected {len(schema)}")
    columns = [_column([row[place] for row in rows], field) for place, field in enumerate(schema)]
    table = pa.table(columns, schema=schema)
    for other in others:
        table = table.append_column(other, pa.nulls(len(rows)))
    job = client.upload(name, table).wait()
    return {"table": job.told["table"], "inserted": len(rows), **(job.told["written"] or {})}


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    """The values as SQL would store them. Raises Invalid."""
    kind, types = field.type, pa.types
    try:
        if types.is_string(kind) or types.is_large_string(kind):
            return pa.array([_text(one) for one in values], kind)
        if types.is_binary(kind) or types.is_large_binary(kind):
            _refuse(values, lambda one: isinstance(one, str) and not _is_plain(one))
        if types.is_temporal(kind):
            _refuse(values, _is_number)
        if types.is_decimal(kind):
            return pa.array([_rounded(one, kind.scale) for one in values], kind)
        try:
            return array_of(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if types.is_floating(kind):
                return array_of([_float(one) for one in values], kind)
            return cast(pa.array(values), kind)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise Invalid(
            f"a value does not fit column {field.name!r} of type {field.type}: {error}"
        ) from error


def _text(value: Any) -> str | None:
    """A value as SQL casts it to a text. Raises TypeError for one that Python writes otherwise."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if type(value) is datetime.date:
        return value.isoformat()
    if isinstance(value, bytes) and _is_plain(text := value.decode("latin-1")):
        return text
    raise TypeError(f"{value!r} is not a text, give it as one")


def _is_plain(text: str) -> bool:
    """Whether a text and its bytes are the same for SQL, which escapes all others."""
    return text.isascii() and text.isprintable() and "\\" not in text


def _is_number(value: Any) -> bool:
    return isinstance(value, Number | np.bool_) and not isinstance(value, np.timedelta64)


def _refuse(values: list[Any], is_other: Callable[[Any], bool]) -> None:
    """Raise TypeError for a value that Arrow takes for another than SQL, or SQL refuses."""
    for one in filter(is_other, values):
        raise TypeError(f"{one!r} is of another type")


def _float(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if math.isinf(number) and "inf" not in str(value).lower():
        raise ValueError(f"{value} is out of range")
    return number


def _rounded(value: Any, scale: int) -> Decimal | None:
    """A decimal with so many digits after the point, as an INSERT rounds it."""
    if value is None:
        return None
    with localcontext(prec=80):
        if isinstance(value, float):
            # SQL shifts the float, and rounds then.
            units = Decimal(float(value) * 10.0**scale).quantize(Decimal(1), ROUND_HALF_UP)
            return units.scaleb(-scale)
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _plain(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name

"""Many rows of parameters for one statement, as one version.

Rules:
- An INSERT of nothing but parameters is an upload of Arrow, of any size: values are cast to the
  types of the table's columns.
- Any other statement is repeated, as one transaction in one request, and is as large as a request
  may be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from typing import Any

import pyarrow as pa

from blockstore.client.client import Client
from blockstore.errors import Invalid

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
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:
        if pa.types.is_floating(field.type):
            return pa.array([None if one is None else float(one) for one in values], field.type)
        if pa.types.is_decimal(field.type):
            return pa.array([_rounded(one, field.type.scale) for one in values], field.type)
        return pa.array(values).cast(field.type)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise Invalid(
            f"a value does not fit column {field.name!r} of type {field.type}: {error}"
        ) from error


def _rounded(value: Any, scale: int) -> Decimal | None:
    """A decimal with so many digits after the point, as an INSERT rounds it."""
    if value is None:
        return None
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _plain(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name

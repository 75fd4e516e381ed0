"""Rows as people name them: by row id, or by the values of their key.

Rules:
- A key of one column is its value as text, as a CSV file has it. A key of several columns is a JSON
  array of them; so may be one of one column, for a text that begins with ``[``.
- A value is exactly one of its column's type, or it is refused. Blanks around a number or a date
  are dropped; those of a text are part of it, for another row may have the key without them.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from blockstore.cli.files.text_values import converted, expected, is_plain
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.identity import RowIds
from blockstore.format.value_text import plain


def row_named(text: str, definition: Definition) -> Any:
    """The row id, the key, or the tuple of a key of several columns. Raises Invalid."""
    identity = definition.identity
    if identity is None:
        raise Invalid(
            "the rows of this table have neither ids nor a key, so that none of them can be named: "
            "create the table with --row-ids or --key"
        )
    if isinstance(identity, RowIds):
        return _value(text, pa.int64(), "the row id")
    parts = _parts(text, identity.columns)
    values = tuple(
        _value(part, definition.schema.field(name).type, f"the key's column {name!r}")
        for part, name in zip(parts, identity.columns, strict=True)
    )
    return values[0] if len(values) == 1 else values


def value_of(text: str, field: pa.Field) -> pa.Scalar:
    """The value of a column, written as in a CSV file: an empty text is null. Raises Invalid."""
    kind = field.type
    if not text:
        return pa.scalar(None, kind)
    if not is_plain(kind):
        raise Invalid(f"column {field.name!r} is a {kind}, which text cannot hold: use Python")
    try:
        return converted(pa.array([text], pa.string()), kind)[0]
    except (pa.ArrowException, ValueError):
        raise Invalid(
            f"column {field.name!r} cannot be {text[:60]!r}, expected {expected(kind)}"
        ) from None


def _parts(text: str, columns: tuple[str, ...]) -> list[str]:
    if len(columns) == 1 and not text.startswith("["):
        return [text]
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or len(parts) != len(columns):
        raise Invalid(
            f"the row is named {text[:60]!r}, expected a JSON array with a value for each column "
            f"of the key ({', '.join(columns)})"
        )
    return [part if isinstance(part, str) else json.dumps(part) for part in parts]


def _value(text: str, kind: pa.DataType, what: str) -> Any:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    try:
        own = text if is_text else text.strip(" \t")
        return plain(converted(pa.array([own], pa.string()), kind)[0])
    except (pa.ArrowException, ValueError):
        raise Invalid(f"{what} is {text[:60]!r}, expected {expected(kind)}") from None

"""Versions of rows on the command line: a table for people, JSON for programs."""

from __future__ import annotations

import base64
import math

import pyarrow as pa
import pyarrow.types as pt

from blockstore.cli.output import Column, show_json, show_table
from blockstore.format.identity import DELETED, ROW_ID, VERSION
from blockstore.format.value_text import plain_values, value_text

_FIRST = (ROW_ID, VERSION, DELETED)
_SHOWN_TEXT = 120


def show_rows(rows: pa.Table, *, json: bool) -> None:
    """Print versions of rows: what identifies them first, then the table's columns."""
    first = [name for name in _FIRST if name in rows.schema.names]
    rows = rows.select([*first, *(name for name in rows.schema.names if name not in first)])
    if json:
        show_json(rows_as_json(rows))
        return
    columns = [
        Column(field.name, field.name, right=_is_number(field.type), fold=pt.is_string(field.type))
        for field in rows.schema
    ]
    show_table(columns, [{name: _cell(row[name]) for name in row} for row in rows_as_json(rows)])


def rows_as_json(rows: pa.Table) -> list[dict[str, object]]:
    """Return rows as JSON has them: times as ISO texts, bytes as base64, decimals as texts, and as
    texts too the floats that JSON does not have (``NaN``, ``Infinity``)."""
    columns = {
        name: [_value(value) for value in plain_values(_readable(rows[name]))]
        for name in rows.schema.names
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as texts: Python's have microseconds at most."""
    kind = column.type
    return column.cast(pa.string()) if pt.is_temporal(kind) and not pt.is_duration(kind) else column


def _value(value: object) -> object:
    if isinstance(value, pa.Scalar):
        return value_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _value(one) for name, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))

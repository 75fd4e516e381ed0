"""A table's definition as the command line reads and shows it."""

from __future__ import annotations

import os

import pyarrow as pa

from blockstore.cli.failure import Usage
from blockstore.cli.files.source import schema_of, sources
from blockstore.cli.output import Cell
from blockstore.cli.rules import rules_json
from blockstore.cli.schema_text import parse_schema, type_name
from blockstore.format.definition import Definition
from blockstore.format.fields import required
from blockstore.format.identity import RowIds


def definition_json(definition: Definition) -> dict[str, Cell]:
    """Return the definition as JSON."""
    not_null = set(required(definition.schema))
    return {
        "columns": [
            {
                "name": field.name,
                "type": type_name(field.type),
                "nullable": field.name not in not_null,
                **rules_json(field),
            }
            for field in definition.schema
        ],
        "schema_id": definition.schema_id,
        "time_column": definition.time_column,
        "sort_by": list(definition.sort_by),
        **_identity(definition),
        "labels": dict(definition.labels),
        "properties": definition.properties.to_json(),
    }


def _identity(definition: Definition) -> dict[str, Cell]:
    """What identifies the table's rows, as JSON; nothing for rows without an identity."""
    if isinstance(definition.identity, RowIds):
        return {"row_ids": True}
    return {} if definition.identity is None else {"key": list(definition.identity.columns)}


def described(definition: Definition) -> str:
    """Return the definition as one line of text."""
    columns = len(definition.schema)
    parts = [f"{columns} column{'s' if columns != 1 else ''}"]
    if definition.time_column:
        parts.append(f"time column {definition.time_column}")
    if definition.sort_by:
        parts.append(f"sorted by {', '.join(definition.sort_by)}")
    if isinstance(definition.identity, RowIds):
        parts.append("with row ids")
    elif definition.identity is not None:
        parts.append(f"key {', '.join(definition.identity.columns)}")
    return ", ".join(parts)


def read_schema(text: str) -> pa.Schema:
    """Return the schema that ``--schema`` gives: that of a file, or ``name:type,…``."""
    if os.path.exists(text):
        with sources((text,), None) as (source,):
            return schema_of(source)
    if ":" not in text:
        raise Usage(f"--schema is {text!r}, expected name:type,… or an existing file")
    return parse_schema(text)

"""A table's definition as the command line shows it."""

from __future__ import annotations

from blockstore.cli.output import Cell
from blockstore.cli.schema_text import type_name
from blockstore.format.definition import Definition
from blockstore.format.fields import required

__all__ = ["definition_json", "described"]


def definition_json(definition: Definition) -> dict[str, Cell]:
    """The definition for machines."""
    not_null = set(required(definition.schema))
    return {
        "columns": [
            {"name": field.name, "type": type_name(field.type), "nullable": field.name not in not_null}
            for field in definition.schema
        ],
        "schema_id": definition.schema_id,
        "time_column": definition.time_column,
        "sort_by": list(definition.sort_by),
        "labels": dict(definition.labels),
        "properties": definition.properties.to_json(),
    }


def described(definition: Definition) -> str:
    """The definition in a line for people."""
    columns = len(definition.schema)
    parts = [f"{columns} column{'s' if columns != 1 else ''}"]
    if definition.time_column:
        parts.append(f"time column {definition.time_column}")
    if definition.sort_by:
        parts.append(f"sorted by {', '.join(definition.sort_by)}")
    return ", ".join(parts)

"""Columns as a client of the catalog writes them: Iceberg's fields, in our words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.iceberg.documents import objects_of, text_of

_TYPES = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}


def column_of(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field as a column of ``POST /v1/tables``. Raises Invalid."""
    name = name_of(field)
    return {
        "name": name,
        "type": type_of(field.get("type"), name),
        "nullable": not field.get("required", False),
        "description": field.get("doc"),
    }


def name_of(field: Mapping[str, Any]) -> str:
    """Return the name of a field. Raises Invalid for one that no column can have."""
    name = text_of(field, "name")
    if len(name) > 1_000:
        raise Invalid(f"name is {name[:100]!r}, expected a text of 1 to 1,000 characters")
    return name


def type_of(kind: object, path: str) -> str:
    """Return the type as a text of ``cli/schema_text.py``. Raises Invalid; ``path`` names the
    column."""
    match kind:
        case str() if kind in _TYPES:
            return _TYPES[kind]
        case str() if kind.startswith("decimal("):
            return kind
        case {"type": "list", "element": element}:
            return f"list<{type_of(element, f'{path}.element')}>"
        case {"type": "map", "key": key, "value": value}:
            return f"map<{type_of(key, f'{path}.key')}, {type_of(value, f'{path}.value')}>"
        case {"type": "struct", "fields": fields}:
            inside = [
                f"{_quoted(name_of(one))}:{type_of(one.get('type'), path)}"
                for one in objects_of({"fields": fields}, "fields")
            ]
            return f"struct<{', '.join(inside)}>"
    raise Invalid(
        f"column {path[:200]!r} has the type {str(kind)[:100]!r}, which no table has here"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""What the bodies of requests say of tables: names, columns, definitions, alterations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from blockstore.cli.failure import Usage
from blockstore.cli.rules import with_rules
from blockstore.cli.schema_text import parse_schema, type_name
from blockstore.errors import Invalid
from blockstore.format.column import ENTITY, FILE, LINK, MAX_LENGTH, TYPES
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.format.properties import Properties
from blockstore.names import RESERVED, is_ulid

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")
RULES = ("max_length", "pattern", "default", "check", "description")
"""The rules of a column, beside whether it may be null."""


def check_name(name: str) -> None:
    """Raise Invalid for a name that a table of a gateway cannot have."""
    if not _NAME.fullmatch(name) or name.lower() in RESERVED or is_ulid(name):
        raise Invalid(
            f"the table's name is {name[:60]!r}, expected letters, digits, _, - and ., a letter or "
            f"_ first, at most 200, and none of {', '.join(sorted(RESERVED))}"
        )


def definition_of(body: Mapping[str, Any]) -> Definition:
    """The definition of a new table. Raises Invalid."""
    columns = body["columns"]
    return Definition.create(
        columns_of([_typed(one) for one in _each(columns)] if body.get("typed") else columns),
        time_column=body.get("time_column"),
        sort_by=body.get("sort_by") or (),
        labels=body.get("labels"),
        row_ids=bool(body.get("row_ids")),
        key=body.get("key") or (),
        properties=Properties.parse(body.get("properties") or {}),
    )


def _each(columns: str | list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if isinstance(columns, str):
        raise Invalid(
            "the columns of a typed table are a text, expected one object each: "
            '{"name": "age", "type": "integer"}'
        )
    return columns


def _typed(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column of a typed table: its type means what it means to ``typed_schema``, and a text has a
    limit unless it says another one, or null for none."""
    kind = TYPES.get(str(column["type"]))
    found = dict(column)
    if kind is not None and column["type"] not in (ENTITY, LINK, FILE):
        found["type"] = type_name(kind)
    if kind is not None and column["type"] == "string":
        found.setdefault("max_length", MAX_LENGTH)
    return found


def alteration_of(body: Mapping[str, Any]) -> Alteration:
    """What an alter changes. Raises Invalid."""
    add = body.get("add")
    widen = {
        name: columns_of([{"name": name, "type": kind}]).field(0).type
        for name, kind in (body.get("widen") or {}).items()
    }
    return Alteration.of(
        add=list(columns_of(add)) if add else [],
        widen=widen,
        rename=body.get("rename"),
        drop=body.get("drop") or (),
        reorder=body.get("reorder") or (),
        columns=body.get("columns"),
        properties=body.get("properties"),
    )


def columns_of(columns: str | list[Mapping[str, Any]]) -> pa.Schema:
    """The columns, as a text (``name:type,…``) or one by one, with their rules. Raises Invalid."""
    try:
        if isinstance(columns, str):
            return parse_schema(columns)
        schema = pa.schema([_column(column) for column in columns])
        return with_rules(schema, {str(column["name"]): _rules(column) for column in columns})
    except Usage as error:
        raise Invalid(str(error)) from None


def _column(column: Mapping[str, Any]) -> pa.Field:
    name = str(column["name"]).replace('"', '""')
    end = "" if column.get("nullable", True) else " not null"
    found = parse_schema(f'"{name}":{column["type"]}{end}')
    if len(found) != 1:
        raise Invalid(f"the type of column {name!r} is {column['type']!r}, expected one type")
    return found.field(0)


def _rules(column: Mapping[str, Any]) -> dict[str, object]:
    return {name: column[name] for name in RULES if column.get(name) is not None}

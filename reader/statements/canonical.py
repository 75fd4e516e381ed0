"""Columns of SQL's type UUID: texts in the one form that DuckDB shows.

A table has no such type. Its column is an entity whose pattern is that form, so that every writer
is held to it; a statement's value is cast through UUID, which also reads other forms.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from blockstore.format.column import ENTITY, Rules, rules_of
from blockstore.reader.query.sql.types import sql_type

PATTERN = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def as_uuid(rules: Rules) -> Rules:
    """The rules of a column, and that it holds UUIDs."""
    return replace(rules, type=ENTITY, pattern=PATTERN)


def is_uuid(field: pa.Field) -> bool:
    """Whether a column was created as one of UUIDs."""
    rules = rules_of(field)
    return pt.is_string(field.type) and (rules.type, rules.pattern) == (ENTITY, PATTERN)


def cast(value: str, field: pa.Field) -> str:
    """The SQL of a value as a column holds it."""
    given = f"CAST({value} AS UUID)" if is_uuid(field) else value
    return f"CAST({given} AS {sql_type(field.type)})"

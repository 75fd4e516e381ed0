"""The columns of a block under the names that the table gives them now, and the reverse.

Rules:
- Columns are the same by their field ids, under the schema with which the block was written.
- Where the definition has one schema, or does not know the block's, names are what they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id


def time_column_of(meta: BlockMeta, definition: Definition) -> str | None:
    """Return the time column of a block, under its name in the table."""
    if meta.time_column is None:
        return None
    return _now(meta, definition).get(meta.time_column, meta.time_column)


def sort_by_of(meta: BlockMeta, definition: Definition) -> tuple[str, ...]:
    """Return the sort key of a block, under the names in the table."""
    names = _now(meta, definition)
    return tuple(names.get(name, name) for name in meta.sort_by)


def stored_as(meta: BlockMeta, definition: Definition, name: str) -> str | None:
    """Return the name under which a block stores a column of the table; None if it does not."""
    names = _now(meta, definition)
    if not names:
        return name
    return next((before for before, now in names.items() if now == name), None)


def _now(meta: BlockMeta, definition: Definition) -> Mapping[str, str]:
    """The block's columns that the table still has, each with its name there; empty where all names
    are what they are."""
    if len(definition.schemas) == 1:
        return {}
    return columns_now(definition.id_of(meta.schema) if meta.schema else meta.schema_id, definition)


def columns_now(schema_id: int | None, definition: Definition) -> Mapping[str, str]:
    """Return the columns of a schema that the table still has, each with its name there; empty
    where all names are what they are."""
    if schema_id is None or schema_id not in definition.schemas:
        return {}
    if schema_id == definition.schema_id:
        return {}
    return definition.memo(f"names of {schema_id}", lambda: _between(definition, schema_id))


def _between(definition: Definition, id_: int) -> dict[str, str]:
    now = {field_id(field): field.name for field in definition.schema}
    return {
        field.name: now[own] for field in definition.schemas[id_] if (own := field_id(field)) in now
    }

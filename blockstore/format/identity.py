"""The identity of a table's rows: what makes two rows versions of one.

Rules:
- A table has row ids (int64, given when a row is inserted, never again), or a key (columns of its
  own), or neither: then rows are added and removed, and never change.
- A key is never null, and its columns are never dropped. Their types are fixed, since a hash of a
  wider type is another one. Equality is that of exact bytes; a floating point number has none.
- Labels are part of the identity: rows of two streams are never versions of one another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.document import Document
from blockstore.format.fields import NOT_NULL

ROW_ID = "_row_id"
VERSION = "_version"
DELETED = "_deleted"


@dataclass(frozen=True, slots=True)
class RowIds:
    """Each row has an id, given by the index entry that inserts it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return (ROW_ID,)


@dataclass(frozen=True, slots=True)
class Key:
    """A row is identified by the values of these columns."""

    columns: tuple[str, ...]


Identity = RowIds | Key


def wanted_identity(*, row_ids: bool, key: str | Iterable[str] = ()) -> Identity | None:
    """What the arguments of ``create`` ask for. Raises Invalid where they contradict each other."""
    columns = (key,) if isinstance(key, str) else tuple(key)
    if row_ids and columns:
        raise Invalid(
            f"the table is to have row ids and the key {', '.join(columns)}, expected one of them: "
            "either identifies a row"
        )
    if row_ids:
        return RowIds()
    return Key(columns) if columns else None


def with_key(schema: pa.Schema, identity: Identity | None) -> pa.Schema:
    """The schema of a new table, in which the columns of the key refuse nulls."""
    if not isinstance(identity, Key):
        return schema
    fields = [
        field.with_metadata({**(field.metadata or {}), NOT_NULL: b"true"})
        if field.name in identity.columns
        else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def check_identity(schema: pa.Schema, identity: Identity | None) -> None:
    """Raise Invalid for a key that cannot identify rows of this schema."""
    if not isinstance(identity, Key):
        return
    for position, name in enumerate(identity.columns):
        if name not in schema.names:
            raise Invalid(
                f"the key names {name!r}, which is not in the schema: {', '.join(schema.names)}"
            )
        if name in identity.columns[:position]:
            raise Invalid(f"the key names {name!r} twice")
        kind = schema.field(name).type
        if pt.is_nested(kind) or pt.is_floating(kind):
            raise Invalid(
                f"the key names {name!r} of type {kind}, expected a type of exact values: an "
                "integer, a text, bytes, a decimal, a boolean, a date or a timestamp"
            )


def identity_to_json(identity: Identity | None) -> dict[str, object]:
    """The fields of a definition that say it; none for a table without one."""
    match identity:
        case RowIds():
            return {"row_ids": True}
        case Key(columns):
            return {"key": list(columns)}
    return {}


def identity_of(document: Document) -> Identity | None:
    """The identity that a definition says. Raises Corrupt or Invalid."""
    return wanted_identity(row_ids=document.flag("row_ids", False), key=document.texts("key", ()))


def stored_columns(identity: Identity) -> tuple[str, ...]:
    """The reserved columns that chunks of level 2 and more have beside ``_source``."""
    return (ROW_ID, VERSION) if isinstance(identity, RowIds) else (VERSION,)

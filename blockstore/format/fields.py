"""The fields of a schema: their names, their ids for life, and what their metadata says.

Rules:
- Every field, nested ones too, has an id that no other field of the table ever had; it stands in
  the Arrow metadata as ``PARQUET:field_id``, from where Parquet writers put it into the file.
- Reserved names are exactly ``_source``, ``_row_id``, ``_version``, ``_deleted`` and the prefix
  ``_blockstore_``; they are refused for a user's column. In other letters (``_SOURCE``) they are
  refused for a new column, since SQL could not tell it apart; a table that has one already is read.
- Two columns whose names differ only in case are refused: DuckDB and Spark could not tell them
  apart.
- Other metadata, ``blockstore.*`` above all, is the user's and is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.types import canonical_type

FIELD_ID = b"PARQUET:field_id"
NOT_NULL = b"blockstore.not_null"

_RESERVED_PREFIX = "_blockstore_"


def _reserved(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


RESERVED = {
    field.name: field
    for field in (
        _reserved("_source", pa.dictionary(pa.int32(), pa.string()), 2_147_400_001),
        _reserved("_row_id", pa.int64(), 2_147_400_002),
        _reserved("_version", pa.int64(), 2_147_400_003),
        _reserved("_deleted", pa.bool_(), 2_147_400_004),
    )
}
"""The reserved columns as chunks hold them; their ids lie above any that a table hands out."""


def is_reserved(name: str) -> bool:
    """Whether the name belongs to Blockstore."""
    return name in RESERVED or name.startswith(_RESERVED_PREFIX)


def check_new_names(names: Iterable[str]) -> None:
    """Raise Invalid for a name that no new column may have: a reserved one, whatever its case, or
    an empty one."""
    for name in names:
        if is_reserved(name.lower()):
            raise _is_taken(name)
        check_names((name,))


def check_names(names: Iterable[str]) -> None:
    """Raise Invalid for a reserved, empty or repeated column name."""
    seen: dict[str, str] = {}
    for name in names:
        if not name:
            raise Invalid(
                "a column has an empty name, expected one that SQL can ask for: rename it"
            )
        if is_reserved(name):
            raise _is_taken(name)
        twin = seen.get(name.lower())
        if twin == name:
            raise Invalid(
                f"two columns have the same name, {name!r}, expected each name once: rename one"
            )
        if twin is not None:
            raise Invalid(
                f"columns {twin!r} and {name!r} differ in upper and lower case only, expected "
                "names that SQL can tell apart: "
                "rename one"
            )
        seen[name.lower()] = name


def _is_taken(name: str) -> Invalid:
    return Invalid(
        f"column name {name!r} is reserved ({', '.join(RESERVED)} and {_RESERVED_PREFIX}*): "
        "rename the column"
    )


def canonical_field(field: pa.Field) -> pa.Field:
    """The field with its canonical type, without a field id; ``not null`` is kept as metadata and
    enforced at every write, so that the Arrow type of a column is the same whoever wrote it."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != FIELD_ID}
    if not field.nullable:
        metadata[NOT_NULL] = b"true"
    return pa.field(field.name, canonical_type(field.type, field.name), True, metadata or None)


def required(schema: pa.Schema) -> tuple[str, ...]:
    """The names of the columns that refuse nulls."""
    return tuple(field.name for field in schema if (field.metadata or {}).get(NOT_NULL) == b"true")


def field_id(field: pa.Field) -> int | None:
    """The field's id for life, or None if it carries none."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def number(fields: Iterable[pa.Field], last: int) -> tuple[list[pa.Field], int]:
    """The fields with fresh ids from ``last + 1`` on, parents before children; and the last id
    used."""
    numbered = []
    for field in fields:
        one, last = _number(field, last)
        numbered.append(one)
    return numbered, last


def _number(field: pa.Field, last: int) -> tuple[pa.Field, int]:
    own = last + 1
    kind, last = _number_children(field.type, own)
    metadata = {**(field.metadata or {}), FIELD_ID: str(own).encode()}
    return pa.field(field.name, kind, field.nullable, metadata), last


def _number_children(kind: pa.DataType, last: int) -> tuple[pa.DataType, int]:
    if pt.is_struct(kind):
        children, last = number(kind.fields, last)
        return pa.struct(children), last
    if pt.is_map(kind):
        (key, value), last = number((kind.key_field, kind.item_field), last)
        return pa.map_(key, value), last
    if pt.is_fixed_size_list(kind):
        (element,), last = number((kind.value_field,), last)
        return pa.list_(element, kind.list_size), last
    if pt.is_list(kind):
        (element,), last = number((kind.value_field,), last)
        return pa.list_(element), last
    return kind, last


def named(columns: Iterable[str], shown: int = 12) -> str:
    """The names of columns for a message, at most ``shown`` of them."""
    every = [repr(name) for name in columns]
    return ", ".join(every[:shown]) + (
        f" and {len(every) - shown} more" if len(every) > shown else ""
    )

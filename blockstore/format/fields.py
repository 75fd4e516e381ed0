"""The fields of a schema: their names, their permanent ids, and their metadata.

Rules:
- Every field, nested ones too, has an id that no other field of the table ever had; the Arrow
  metadata has it as ``PARQUET:field_id``, and Parquet writers copy it into the file.
- Reserved names are exactly ``_source``, ``_row_id``, ``_version``, ``_deleted`` and the prefix
  ``_blockstore_``; they are refused for a user's column. In other letters (``_SOURCE``) they are
  refused for a new column, since SQL could not distinguish it; a table that has one is still read.
- Two columns whose names differ only in case are refused: DuckDB and Spark could not distinguish
  them.
- Other metadata, ``blockstore.*`` above all, is the user's and is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
"""The reserved columns as chunks hold them; their ids are above all that a table assigns."""


def is_reserved(name: str) -> bool:
    """Return whether the name is reserved for Blockstore."""
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
            raise Invalid("a column has an empty name, which SQL cannot use: rename it")
        if is_reserved(name):
            raise _is_taken(name)
        twin = seen.get(name.lower())
        if twin == name:
            raise Invalid(
                f"two columns have the same name, {name!r}, expected each name once: rename one"
            )
        if twin is not None:
            raise Invalid(
                f"columns {twin!r} and {name!r} differ only in upper and lower case, which SQL "
                "does not distinguish: rename one"
            )
        seen[name.lower()] = name


def _is_taken(name: str) -> Invalid:
    return Invalid(
        f"column name {name!r} is reserved ({', '.join(RESERVED)} and {_RESERVED_PREFIX}*): "
        "rename the column"
    )


def canonical_field(field: pa.Field) -> pa.Field:
    """Return the field with its canonical type, without a field id.

    ``not null`` is kept as metadata and enforced at every write, so that the Arrow type of a column
    is the same for every writer.
    """
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != FIELD_ID}
    if not field.nullable:
        metadata[NOT_NULL] = b"true"
    return pa.field(field.name, canonical_type(field.type, field.name), True, metadata or None)


def required(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the columns that refuse nulls."""
    return tuple(field.name for field in schema if (field.metadata or {}).get(NOT_NULL) == b"true")


def field_id(field: pa.Field) -> int | None:
    """Return the field's permanent id, or None."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def ids_by_name(fields: Iterable[pa.Field]) -> dict[str, int | None]:
    """Return which column each name means."""
    return {field.name: field_id(field) for field in fields}


def replaced(before: Mapping[str, int | None], fields: Iterable[pa.Field]) -> list[str]:
    """Return the names that mean another column than before. Those without a column are not among
    them."""
    now = ids_by_name(fields)
    return [name for name, own in before.items() if now.get(name, own) != own]


def number(fields: Iterable[pa.Field], last: int) -> tuple[list[pa.Field], int]:
    """Return the fields with new ids from ``last + 1`` on, parents before children, and the last
    id."""
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
    """Return the names of columns for a message, at most ``shown`` of them."""
    every = [repr(name) for name in columns]
    return ", ".join(every[:shown]) + (
        f" and {len(every) - shown} more" if len(every) > shown else ""
    )

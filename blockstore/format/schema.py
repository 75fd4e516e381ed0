"""The schema of a table, and stored rows under a newer schema.

Rules:
- Rows of an older chunk are adapted to a newer schema by field id: widened, or filled with nulls.
- A column is its field id: it may be renamed or dropped, its type only widens, and it is null in
  rows that are older than it (``evolution.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Corrupt
from blockstore.format.fields import (
    RESERVED,
    canonical_field,
    check_names,
    check_new_names,
    field_id,
)
from blockstore.format.types import can_widen

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_FOREIGN = (b"pandas", b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata")


def canonical(schema: pa.Schema) -> pa.Schema:
    """Return the schema as a new table would hold it: canonical types, checked names, the user's
    metadata; no ids yet."""
    check_names(schema.names)
    check_new_names(schema.names)
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key not in _FOREIGN}
    return pa.schema([canonical_field(field) for field in schema], metadata or None)


def serialize(schema: pa.Schema) -> bytes:
    """Return the schema as an Arrow IPC message."""
    return bytes(schema.serialize())


def deserialize(data: bytes, subject: str = "the schema") -> pa.Schema:
    """Return the schema of an Arrow IPC message; raise Corrupt, naming ``subject``."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        _check_names(schema)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Corrupt(
            f"{subject} is not an Arrow schema ({error}): restore it from a copy"
        ) from None
    return schema


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError for a name that is not text, at any depth.

    Arrow decodes a name when it is read.
    """
    for field in fields:
        _ = field.name
        kind = field.type
        if pa.types.is_nested(kind):
            _check_names(kind.field(place) for place in range(kind.num_fields))


def with_reserved(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return the schema followed by the reserved columns of these names, as chunks hold them."""
    extra = [RESERVED[name] for name in names]
    return pa.schema([*schema, *extra], schema.metadata) if extra else schema


def readable_under(old: pa.Schema, new: pa.Schema) -> bool:
    """Return whether rows written under ``old`` can be read under ``new``: every column still
    exists, no type is narrower."""
    by_id, by_name = _index(new)
    for field in old:
        own = field_id(field)
        there = by_id.get(own) if own is not None else by_name.get(field.name)
        if there is None or not can_widen(field.type, there.type):
            return False
    return True


def adapt(rows: Rows, schema: pa.Schema) -> Rows:
    """Return the rows under ``schema``, which may be newer than theirs or have fewer columns.

    Columns are matched by field id (by name where there is none), widened, and null if the chunk is
    older than the column.
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    by_id, by_name = _positions(rows.schema)
    columns = []
    for field in schema:
        own = field_id(field)
        at = by_id.get(own) if own is not None else None
        if at is None:
            at = by_name.get(field.name)
        columns.append(_adapted(rows, at, field))
    if not columns:
        # Rows without columns would forget how many they are.
        return rows.select([])
    if isinstance(rows, pa.Table):
        return pa.Table.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _index(schema: pa.Schema) -> tuple[dict[int, pa.Field], dict[str, pa.Field]]:
    by_id = {own: field for field in schema if (own := field_id(field)) is not None}
    return by_id, {field.name: field for field in schema}


def _positions(schema: pa.Schema) -> tuple[dict[int, int], dict[str, int]]:
    """Return the position of each field by its id, and by name for those without one."""
    by_id: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for position, field in enumerate(schema):
        own = field_id(field)
        if own is None:
            by_name[field.name] = position
        else:
            by_id[own] = position
    return by_id, by_name


def _adapted(
    rows: pa.RecordBatch | pa.Table, at: int | None, field: pa.Field
) -> pa.Array | pa.ChunkedArray:
    if at is None:
        empty = pa.nulls(rows.num_rows, field.type)
        return pa.chunked_array([empty]) if isinstance(rows, pa.Table) else empty
    column = rows.column(at)
    if column.type.equals(field.type):
        return column
    if pt.is_dictionary(field.type) and not pt.is_dictionary(column.type):
        return column.dictionary_encode()
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type.equals(field.type) else column.cast(field.type)

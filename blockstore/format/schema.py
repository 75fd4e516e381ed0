"""The schema of a table, and data brought into it.

Rules:
- What is written has the table's own types, by name: encodings, nullability and session time zones
  of the incoming data are taken off; a widening is done; anything else, a missing or an extra
  column is refused.
- What is new has text that is UTF-8 and values that Parquet holds as they are, at any depth, or is
  refused. Rows of stored blocks, which come with reserved columns, are taken as they are: whoever
  wrote them, a merge or a rewrite must be able to carry them on.
- What is read from an older chunk is brought to a newer schema by field id: widened, or filled with
  nulls.
- A schema only grows: columns are added at the end and may be null in older rows, types only widen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Corrupt, Invalid
from blockstore.format.coded import with_codes
from blockstore.format.fields import (
    NOT_NULL,
    RESERVED,
    canonical_field,
    check_names,
    check_new_names,
    field_id,
    number,
    required,
)
from blockstore.format.storable import is_limited, not_storable
from blockstore.format.types import can_widen, canonical_type, fits
from blockstore.format.utf8 import first_not_text, holds_text
from blockstore.format.views import without_views

if TYPE_CHECKING:
    from blockstore.format.definition import Definition

__all__ = [
    "adapt",
    "can_widen",
    "canonical",
    "cast_batch",
    "deserialize",
    "evolve",
    "other_case",
    "other_than_text",
    "readable_under",
    "serialize",
    "with_reserved",
]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_FOREIGN = (b"pandas", b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata")
_SHOWN_BYTES = 40


def canonical(schema: pa.Schema) -> pa.Schema:
    """The schema as a new table would hold it: canonical types, checked names, the user's metadata;
    no ids yet."""
    check_names(schema.names)
    check_new_names(schema.names)
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key not in _FOREIGN}
    return pa.schema([canonical_field(field) for field in schema], metadata or None)


def serialize(schema: pa.Schema) -> bytes:
    """The schema as an Arrow IPC message."""
    return bytes(schema.serialize())


def deserialize(data: bytes, subject: str = "the schema") -> pa.Schema:
    """The schema of an Arrow IPC message; raises Corrupt, naming ``subject``."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        _check_names(schema)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Corrupt(
            f"{subject} is not an Arrow schema ({error}): restore it from a copy"
        ) from None
    return schema


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError for a name that is no text, at any depth:

    Arrow looks at one when it is asked for.
    """
    for field in fields:
        _ = field.name
        kind = field.type
        if pa.types.is_nested(kind):
            _check_names(kind.field(place) for place in range(kind.num_fields))


def with_reserved(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The schema followed by the reserved columns of these names, as chunks hold them."""
    extra = [RESERVED[name] for name in names]
    return pa.schema([*schema, *extra], schema.metadata) if extra else schema


def cast_batch(
    batch: pa.RecordBatch,
    definition: Definition,
    *,
    extra: tuple[str, ...] = (),
    coded: Collection[str] = (),
    first_row: int = 0,
) -> pa.RecordBatch:
    """The batch under the table's schema, followed by the reserved columns of ``extra``; texts of
    ``coded`` as numbers of a dictionary.

    Raises Invalid, naming the column, what was found and what is expected; rows count from
    ``first_row``.
    """
    schema = with_codes(with_reserved(definition.schema, extra), coded)
    if not batch.schema.equals(schema):
        batch = _cast_columns(batch, schema)
    for name in definition.memo("required", lambda: required(definition.schema)):
        _refuse_nulls(batch.column(name), name, "is declared not null", first_row)
    if definition.time_column is not None:
        _refuse_nulls(
            batch.column(definition.time_column),
            definition.time_column,
            "is the time column",
            first_row,
        )
    if not extra:
        for name in definition.memo("texts", lambda: _texts(definition.schema)):
            _refuse_other_than_text(batch.column(name), name, first_row)
        for name in definition.memo("limited", lambda: _limited(definition.schema)):
            _refuse_what_cannot_be_stored(batch.column(name), name)
    return batch


def other_than_text(column: pa.Array, row: int, name: str, first_row: int) -> str:
    """What a column holds in a row in which text is no UTF-8, as a clause; rows count from
    ``first_row``."""
    found = "bytes"
    if not pt.is_nested(column.type):
        value = column[row].as_buffer().to_pybytes()
        found = repr(value[:_SHOWN_BYTES]) + ("…" if len(value) > _SHOWN_BYTES else "")
    return (
        f"column {name!r} holds {found} in row {first_row + row:,} (counted from 0), expected "
        "text that is UTF-8"
    )


def evolve(
    definition: Definition,
    *,
    add: Iterable[pa.Field] = (),
    widen: Mapping[str, pa.DataType] | None = None,
) -> Definition:
    """The definition with columns added at the end and types widened, under the next schema id."""
    added = [_added(field) for field in add]
    wider = dict(widen or {})
    if not added and not wider:
        return definition
    fields = []
    for field in definition.schema:
        kind = wider.pop(field.name, None)
        fields.append(field if kind is None else _widened(field, kind))
    if wider:
        raise Invalid(
            f"cannot widen {_names(wider)}: no such column; the columns are "
            f"{_names(definition.schema.names)}"
        )
    check_new_names(field.name for field in added)
    check_names([field.name for field in (*fields, *added)])
    fresh, last = number(added, definition.last_field_id)
    schema = pa.schema([*fields, *fresh], definition.schema.metadata)
    schema_id = definition.schema_id + 1
    return replace(
        definition,
        schema=schema,
        schema_id=schema_id,
        schemas={**definition.schemas, schema_id: schema},
        last_field_id=last,
    )


def readable_under(old: pa.Schema, new: pa.Schema) -> bool:
    """Whether rows written under ``old`` can be read under ``new``: every column still there, no
    type narrower."""
    by_id, by_name = _index(new)
    for field in old:
        own = field_id(field)
        there = by_id.get(own) if own is not None else by_name.get(field.name)
        if there is None or not can_widen(field.type, there.type):
            return False
    return True


def adapt(rows: Rows, schema: pa.Schema) -> Rows:
    """The rows under ``schema``, which may be newer or narrower than their own: by field id (by
    name where there is none), widened, and null where the chunk is older than the column."""
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


def _cast_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    if names != schema.names:
        _check_columns(names, schema.names)
    columns = [
        _cast(batch.column(name), field) for name, field in zip(schema.names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_columns(found: list[str], expected: list[str]) -> None:
    if len(set(found)) != len(found):
        twice = sorted({name for name in found if found.count(name) > 1})
        raise Invalid(
            f"the data has {_columns(twice)} twice, expected each name once: rename or drop one "
            "of each"
        )
    missing = [name for name in expected if name not in set(found)]
    if missing:
        remedy = other_case(found, expected) or "add what is missing, as nulls if need be"
        raise Invalid(
            f"the data has {_columns(found)} and lacks {_columns(missing)}, expected all of the "
            f"table's, {_names(expected)}: "
            f"{remedy}"
        )
    check_names(name for name in found if name not in RESERVED or name not in expected)
    extra = [name for name in found if name not in set(expected)]
    if extra:
        raise Invalid(
            f"the data has {_columns(extra)}, expected only the table's, {_names(expected)}: drop "
            "what is too much, or add "
            "it to the table with alter"
        )


def other_case(found: Iterable[str], expected: Collection[str]) -> str:
    """What to do about names that are those of columns but for their case, as half a sentence;
    empty where there are none."""
    found = list(found)
    free = {name.casefold(): name for name in expected if name not in found}
    meant = [(name, free.get(name.casefold())) for name in found if name not in expected]
    told = [f"{name!r} as {column!r}" for name, column in meant if column is not None]
    return f"case counts, so write {', '.join(told)}" if told else ""


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    if pt.is_dictionary(field.type):
        return (
            column.dictionary_encode()
            if fits(column.type, field.type.value_type)
            else _refuse(column, field)
        )
    if not fits(column.type, field.type):
        return _refuse(column, field)
    try:
        return without_views(_decoded(column)).cast(field.type, safe=True)
    except pa.ArrowException as error:
        raise Invalid(
            f"column {field.name!r} of type {column.type} cannot be written as {field.type} "
            f"without loss: {error}"
        ) from None


def _decoded(column: pa.Array) -> pa.Array:
    """The column without an extension wrapper, a dictionary or run-ends, which casts do not look
    into."""
    import pyarrow.compute as pc

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pt.is_dictionary(column.type):
        return column.dictionary_decode()
    if pt.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    return column


def _refuse(column: pa.Array, field: pa.Field) -> pa.Array:
    raise Invalid(
        f"column {field.name!r} has the type {column.type}, expected {field.type}: cast it, "
        "or widen the table's column with alter"
    )


def _refuse_nulls(column: pa.Array, name: str, why: str, first_row: int) -> None:
    import pyarrow.compute as pc

    if column.null_count:
        row = first_row + pc.index(pc.is_null(column), True).as_py()
        raise Invalid(
            f"column {name!r} is null in row {row:,} (counted from 0), expected a value because "
            f"it {why}: give every row one",
            row=row,
        )


def _texts(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that hold text."""
    return tuple(field.name for field in schema if holds_text(field.type))


def _refuse_other_than_text(column: pa.Array, name: str, first_row: int) -> None:
    row = first_not_text(column)
    if row is not None:
        raise Invalid(
            f"{other_than_text(column, row, name, first_row)}: decode it from its own encoding "
            "(Latin-1, perhaps), or keep "
            "such bytes in a binary column"
        )


def _limited(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that can hold what cannot be stored."""
    return tuple(field.name for field in schema if is_limited(field.type))


def _refuse_what_cannot_be_stored(column: pa.Array, name: str) -> None:
    found = not_storable(column)
    if found is not None:
        raise Invalid(
            f"column {name!r} holds {found}: mend the value, or give the column a type that holds "
            "it"
        )


def _added(field: pa.Field) -> pa.Field:
    fresh = canonical_field(field)
    if (fresh.metadata or {}).get(NOT_NULL) == b"true":
        raise Invalid(
            f"column {field.name!r} is to be added as not null, but the rows already written have "
            "no value for it: "
            "add it as nullable"
        )
    return fresh


def _widened(field: pa.Field, kind: pa.DataType) -> pa.Field:
    wanted = canonical_type(kind, field.name)
    if not can_widen(field.type, wanted) or field.type.equals(wanted):
        raise Invalid(
            f"column {field.name!r} cannot be widened from {field.type} to {wanted}: integers go "
            "into larger "
            "integers, float into double, decimals into more digits at the same scale"
        )
    if pt.is_nested(field.type):
        raise Invalid(
            f"column {field.name!r} is nested ({field.type}): only plain columns can be widened"
        )
    return field.with_type(wanted)


def _index(schema: pa.Schema) -> tuple[dict[int, pa.Field], dict[str, pa.Field]]:
    by_id = {own: field for field in schema if (own := field_id(field)) is not None}
    return by_id, {field.name: field for field in schema}


def _positions(schema: pa.Schema) -> tuple[dict[int, int], dict[str, int]]:
    """Where each field stands, by id, and by name for those without one."""
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


def _columns(names: list[str]) -> str:
    """One column or several, by name."""
    return f"column{'s' if len(names) > 1 else ''} {_names(names)}"


def _names(names: Iterable[str], shown: int = 12) -> str:
    every = [repr(name) for name in names]
    return ", ".join(every[:shown]) + (
        f" and {len(every) - shown} more" if len(every) > shown else ""
    )

"""Casts a caller's rows to the schema of their table.

Rules:
- What is written has the table's own types, by name: encodings, nullability and session time zones
  of the incoming data are taken off; a widening is done; a missing column is filled with its
  default; anything else, a missing column without a default or an extra one, is refused.
- New text must be UTF-8, and new values must be what Parquet stores unchanged, at any depth, and
  must meet the rules of their columns (``constraints.py``). Rows of stored blocks, which have
  reserved columns, are not checked: a merge or a rewrite must be able to copy them, whichever
  writer made them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.coded import with_codes
from blockstore.format.constraints import BrokenRule, Rule, check_rows, rules_on_rows
from blockstore.format.defaults import defaults_of
from blockstore.format.definition import Definition
from blockstore.format.features import COLUMNS
from blockstore.format.fields import RESERVED, check_names, named, required
from blockstore.format.identity import DELETED
from blockstore.format.schema import with_reserved
from blockstore.format.storable import is_limited, not_storable
from blockstore.format.types import fits
from blockstore.format.utf8 import first_not_text, holds_text
from blockstore.format.views import without_views

_SHOWN_BYTES = 40


def cast_batch(
    batch: pa.RecordBatch,
    definition: Definition,
    *,
    extra: tuple[str, ...] = (),
    coded: Collection[str] = (),
    first_row: int = 0,
) -> pa.RecordBatch:
    """Return the batch under the table's schema.

    Args:
        batch: The rows, with the columns of the schema and of ``extra`` in any order.
        definition: The table's definition.
        extra: Reserved columns that follow the schema's.
        coded: Text columns to return as codes of a dictionary.
        first_row: The number of the batch's first row, for messages.

    Raises:
        Invalid: A column does not fit; says what was found and what is expected.
    """
    schema = with_codes(with_reserved(definition.schema, extra), coded)
    if not batch.schema.equals(schema):
        batch = _cast_columns(batch if extra else _filled(batch, definition), schema)
    if DELETED in extra:
        return batch  # a tombstone's columns are null; new rows were cast before without extra
    if not extra:
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
        if COLUMNS in definition.requires:
            check_rows(rules_of(definition), batch, first_row)
    return batch


def rules_of(definition: Definition) -> tuple[Rule, ...]:
    """Return the rules that new rows of the table are checked by, but for nulls. Where the table
    does not require the feature, such metadata is the user's own."""
    return definition.memo("rules", lambda: rules_on_rows(definition.schema))


def defaults_in(definition: Definition) -> Mapping[str, pa.Scalar]:
    """Return the defaults of the columns that rows may come without."""
    if COLUMNS not in definition.requires:
        return {}
    return definition.memo("defaults", lambda: defaults_of(definition.schema))


def _filled(batch: pa.RecordBatch, definition: Definition) -> pa.RecordBatch:
    """Return the batch with the columns that it lacks and that have a default."""
    defaults = defaults_in(definition)
    if not defaults:
        return batch
    found = {name.lower() for name in batch.schema.names}
    for name, value in defaults.items():
        if name.lower() not in found:
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch


def other_than_text(column: pa.Array, row: int, name: str, first_row: int) -> str:
    """Return a clause that says what a column holds in a row whose text is not UTF-8; rows count
    from ``first_row``."""
    found = "bytes"
    if not pt.is_nested(column.type):
        value = column[row].as_buffer().to_pybytes()
        found = repr(value[:_SHOWN_BYTES]) + ("…" if len(value) > _SHOWN_BYTES else "")
    return (
        f"column {name!r} holds {found} in row {first_row + row:,} (counted from 0), expected "
        "text that is UTF-8"
    )


def _cast_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    if names != schema.names:
        _check_columns(names, schema.names)
    columns = [
        _cast(batch.column(name), field) for name, field in zip(schema.names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def refuse_doubled(names: list[str]) -> None:
    """Raise Invalid for columns of one name."""
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise Invalid(
            f"the data has {_columns(twice)} twice, expected each name once: rename or drop one "
            "of each"
        )


def _check_columns(found: list[str], expected: list[str]) -> None:
    refuse_doubled(found)
    missing = [name for name in expected if name not in set(found)]
    if missing:
        remedy = other_case(found, expected) or "add what is missing, as nulls if need be"
        raise Invalid(
            f"the data has {_columns(found)} and lacks {_columns(missing)}, expected all of the "
            f"table's, {named(expected)}: {remedy}"
        )
    check_names(name for name in found if name not in RESERVED or name not in expected)
    extra = [name for name in found if name not in set(expected)]
    if extra:
        raise Invalid(
            f"the data has {_columns(extra)}, expected only the table's, {named(expected)}: drop "
            "the others, or add them to the table with alter"
        )


def other_case(found: Iterable[str], expected: Collection[str]) -> str:
    """Return what to do about names that differ from columns only in case, as half a sentence;
    empty if there are none."""
    found = list(found)
    free = {name.casefold(): name for name in expected if name not in found}
    meant = [(name, free.get(name.casefold())) for name in found if name not in expected]
    renamed = [f"{name!r} as {column!r}" for name, column in meant if column is not None]
    return f"case counts, so write {', '.join(renamed)}" if renamed else ""


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    if pt.is_dictionary(field.type):
        return (
            without_views(column).dictionary_encode()
            if fits(column.type, field.type.value_type)
            else _refuse(column, field)
        )
    if not fits(column.type, field.type):
        return _refuse(column, field)
    try:
        return decoded(column).cast(field.type, safe=True)
    except pa.ArrowException as error:
        raise Invalid(
            f"column {field.name!r} of type {column.type} cannot be written as {field.type} "
            f"without loss: {error}"
        ) from None


def decoded(column: pa.Array) -> pa.Array:
    """Return the column without an extension wrapper, a dictionary, run-ends or views, which casts
    do not decode."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    column = without_views(column)
    return column.dictionary_decode() if pt.is_dictionary(column.type) else column


def _refuse(column: pa.Array, field: pa.Field) -> pa.Array:
    raise Invalid(
        f"column {field.name!r} has the type {column.type}, expected {field.type}: cast it, "
        "or widen the table's column with alter"
    )


def _refuse_nulls(column: pa.Array, name: str, why: str, first_row: int) -> None:
    import pyarrow.compute as pc

    if column.null_count:
        row = first_row + pc.index(pc.is_null(column), True).as_py()
        raise BrokenRule(
            f"column {name!r} is null in row {row:,} (counted from 0), expected a value because "
            f"it {why}: give every row one",
            row=row,
            column=name,
            value="null",
            rule="not null",
        )


def _texts(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that hold text."""
    return tuple(field.name for field in schema if holds_text(field.type))


def _refuse_other_than_text(column: pa.Array, name: str, first_row: int) -> None:
    row = first_not_text(column)
    if row is not None:
        raise Invalid(
            f"{other_than_text(column, row, name, first_row)}: decode it from its own encoding "
            "(Latin-1, perhaps), or store such bytes in a binary column"
        )


def _limited(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that can hold values that cannot be stored."""
    return tuple(field.name for field in schema if is_limited(field.type))


def _refuse_what_cannot_be_stored(column: pa.Array, name: str) -> None:
    found = not_storable(column)
    if found is not None:
        raise Invalid(
            f"column {name!r} holds {found}: correct the value, or give the column a type that "
            "can store it"
        )


def _columns(names: list[str]) -> str:
    """Return "column" or "columns" with the names."""
    return f"column{'s' if len(names) > 1 else ''} {named(names)}"

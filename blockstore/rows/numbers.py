"""Numbers that a program computed, as numbers of the table's columns, where nothing is lost.

Spark chooses the types of literals and of what it computes: 5 is an ``int``, and 1.5 a
``decimal(2,1)``, whatever the type of the column that they are for.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.rows.reading import column_like

_ALL_INTEGERS = pa.decimal128(20, 0)


def numbers_as(rows: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns of rows, numbers with the types that the wanted columns have."""
    fields = []
    for field in rows:
        at = wanted.get_field_index(field.name)
        if at >= 0 and _is_number(field.type) and _is_number(wanted.field(at).type):
            field = field.with_type(wanted.field(at).type)
        fields.append(field)
    return pa.schema(fields, rows.metadata)


def with_numbers(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return the rows with numbers of the types of the wanted columns. Raises Invalid for a number
    that the column's type does not have."""
    schema = numbers_as(batch.schema, wanted)
    columns = [
        column if column.type == field.type else _as(column, field.type, field.name)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _as(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    # Arrow asks of a decimal that it has room for all integers of the type, not for these.
    wide = pt.is_integer(column.type) and pt.is_decimal(kind)
    found = column_like(column.cast(_ALL_INTEGERS) if wide else column, kind, name)
    if pt.is_integer(kind) or not (pt.is_floating(kind) or pt.is_floating(column.type)):
        return found  # such a cast refuses what it would change; those of other floats round
    try:
        same = pc.equal(found.cast(column.type), column)
        if pt.is_floating(column.type):
            same = pc.or_(same, pc.is_nan(column))
        kept = pc.all(same).as_py() is not False
    except pa.ArrowException:
        kept = False
    if not kept:
        raise Invalid(
            f"column {name!r} has the type {kind}, which does not have all numbers that "
            f"are written as {column.type}: cast or round them in the statement"
        )
    return found

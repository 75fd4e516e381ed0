"""Record batches as Spark demands them: its schema to the letter, every value as it was or an error."""

from __future__ import annotations

import pyarrow as pa

from blockstore.errors import Invalid

__all__ = ["conform"]


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema`` out of ``batch``, by name and cast without loss; raises Invalid naming the column."""
    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        what = "nanoseconds" if _finer(column.type, field.type) else "values"
        raise Invalid(
            f"column {field.name!r} of type {column.type} holds {what} that Spark's {field.type} cannot: read the "
            f"other columns with option('columns', 'a,b,…') ({error})."
        ) from None


def _finer(found: pa.DataType, expected: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(found) and found.unit == "ns" and pa.types.is_timestamp(expected))

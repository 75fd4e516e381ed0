"""Record batches as Spark demands them: its schema to the letter, every value as it was or an
error."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema`` out of ``batch``, by name and cast without loss; raises Invalid
    naming the column, also where one that is declared ``not null`` holds a null: Spark would read
    another value there, and say nothing."""
    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise Invalid(
            f"column {field.name!r} is declared not null and holds {column.null_count:,} nulls: "
            "read it without a schema that says so; "
            "if option('not_null', 'true') did, the statistics of a block are wrong, and "
            "blockstore verify names it."
        )
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        cast = column.cast(field.type)
    except pa.ArrowInvalid as error:
        what = "nanoseconds" if _finer(column.type, field.type) else "values"
        raise _lossy(column, field, what, f" ({error})") from None
    # Arrow rounds a double to a float, and makes infinity of one that is too large, without a word.
    if (
        pa.types.is_float64(column.type)
        and pa.types.is_float32(field.type)
        and not _same(column, cast)
    ):
        raise _lossy(column, field, "values")
    return cast


def _lossy(column: pa.Array, field: pa.Field, what: str, cause: str = "") -> Invalid:
    return Invalid(
        f"column {field.name!r} of type {column.type} holds {what} that Spark's {field.type} "
        "cannot: if this is a stream, and the "
        "column was widened since it began, start the query again; else read the other columns "
        "with "
        f"option('columns', 'a,b,…'){cause}."
    )


def _same(column: pa.Array, cast: pa.Array) -> bool:
    """Whether every number is what it was; NaN is NaN."""
    same = pc.or_(pc.equal(cast.cast(column.type), column), pc.is_nan(column))
    return pc.all(same).as_py() is not False


def _finer(found: pa.DataType, expected: pa.DataType) -> bool:
    return bool(
        pa.types.is_timestamp(found) and found.unit == "ns" and pa.types.is_timestamp(expected)
    )

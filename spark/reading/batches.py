"""Record batches in the exact schema that Spark requires: every value unchanged, or an error."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema`` from ``batch``, by name and cast without loss.

    Raises Invalid with the column's name if a value does not fit, or if a column that is declared
    ``not null`` contains a null: Spark would read another value there without an error.
    """
    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise Invalid(
            f"column {field.name!r} is declared not null and contains {column.null_count:,} nulls: "
            "read it without a schema that declares this. If option('not_null', 'true') declared "
            "it, the statistics of a block are wrong: run blockstore verify to find it."
        )
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        cast = column.cast(field.type)
    except pa.ArrowInvalid as error:
        what = "nanoseconds" if _finer(column.type, field.type) else "values"
        raise _lossy(column, field, what, f" ({error})") from None
    # Arrow rounds a double to a float, or to infinity if it is too large, without an error.
    if (
        pa.types.is_float64(column.type)
        and pa.types.is_float32(field.type)
        and not _same(column, cast)
    ):
        raise _lossy(column, field, "values")
    return cast


def _lossy(column: pa.Array, field: pa.Field, what: str, cause: str = "") -> Invalid:
    return Invalid(
        f"column {field.name!r} of type {column.type} contains {what} that Spark's {field.type} "
        "cannot store: if this is a stream and the column was widened after it started, restart "
        f"the query; otherwise read the other columns with option('columns', 'a,b,…'){cause}."
    )


def _same(column: pa.Array, cast: pa.Array) -> bool:
    """Whether every number is unchanged; NaN equals NaN."""
    same = pc.or_(pc.equal(cast.cast(column.type), column), pc.is_nan(column))
    return pc.all(same).as_py() is not False


def _finer(found: pa.DataType, expected: pa.DataType) -> bool:
    return bool(
        pa.types.is_timestamp(found) and found.unit == "ns" and pa.types.is_timestamp(expected)
    )

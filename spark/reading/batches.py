"""What a task reads, as record batches in the exact schema that Spark requires: every value
unchanged, or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from blockstore.bucket import open_bucket
from blockstore.errors import Invalid
from blockstore.scan.execute import read_part, read_plan
from blockstore.scan.plan import ScanPlan
from blockstore.spark.reading.shares import Share
from blockstore.spark.types import batch_schema
from blockstore.spark.worker import task_world


def run_batches(
    url: str, plan: ScanPlan, run: Sequence[Share], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Read one task's shares of a plan, in this task's process."""
    world = task_world()
    bucket = open_bucket(url, world)
    wanted = batch_schema(schema)
    mine = replace(plan, chunks=tuple(share.chunk for share in run))
    if len(run) == 1 and run[0].parts > 1:
        batches: Iterable[pa.RecordBatch] = read_part(
            bucket, mine, world, part=run[0].part, parts=run[0].parts
        )
    else:
        batches = read_plan(bucket, mine, world)
    for batch in batches:
        yield conform(batch, wanted)


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

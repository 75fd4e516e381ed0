"""A plan as a DataFrame over Spark's own Parquet reader, which is faster than rows through Python.

- It returns exactly the plan's rows, or an obstacle that says why it cannot. There is one DataFrame
  for the chunks that are treated alike (schema, labels, hidden sources), and the result is their
  union.
- Rows that newer versions hide are left out by their file and position, which Spark's reader knows
  (``_metadata``): an anti join with the positions that the driver found.
- Spark must fail if a chunk is missing or damaged, and must not guess at times. The reader's
  options enforce this whatever the session's settings are.
- Spark lists the files in this process: for more than 32 paths it would otherwise run a job of one
  task a path.
- A ``select`` is left out where it changes nothing: each column of it is a dozen calls into the
  JVM, which is the time of a short query.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from blockstore.bucket import ReadBucket
from blockstore.predicate.nodes import TRUE
from blockstore.scan.chunk import HIDDEN, ColumnRead, ScanChunk, ScanGroup
from blockstore.scan.nans import may_hold_nan
from blockstore.scan.plan import ScanPlan
from blockstore.spark.reading.filters import has_counterpart, to_spark
from blockstore.spark.reading.reach import PATTERN_CHARACTERS, path_of_chunks
from blockstore.spark.settings import held
from blockstore.spark.types import native_can_read, quoted, spark_schema

SOURCE = "_source"
MOST_GROUPS = 32
MOST_HIDDEN = 1_000_000
"""The limit of the hidden rows that Spark sends to every executor, with the names of their
files."""

_METADATA = "_metadata"
"""Spark's column of a file's path and a row's position in it."""
_CHUNK, _POSITION = "_blockstore_chunk", "_blockstore_position"

_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # It compares boxed numbers, for which -0.0 is not 0.0: for x = 0 it drops a row group that
    # contains only -0.0.
    "parquet.filter.dictionary.enabled": "false",
}
_LIST_HERE = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1)}


def obstacle(session: Any, plan: ScanPlan, bucket: ReadBucket) -> str | None:
    """Why Spark's reader cannot read this plan, which is resolved, as the end of a sentence; None
    if it can."""
    hidden = sorted(set(plan.needed) & set(HIDDEN.names))
    if hidden:
        return f"{', '.join(hidden)} must be computed from the index"
    unreadable = [
        name
        for name in plan.needed
        if name in plan.columns.table.names and not _readable(plan, name)
    ]
    if unreadable:
        return f"Spark's Parquet reader does not read the type of {', '.join(unreadable)}"
    doubtful = [
        name
        for name in plan.needed
        if name in plan.columns.table.names and _may_hold_nan(plan, name)
    ]
    if doubtful:
        return f"{', '.join(doubtful)} may contain NaN, which Spark's Parquet reader prunes away"
    if plan.predicate.extra is not None or not has_counterpart(plan.predicate.node):
        return "the condition has no counterpart in Spark"
    if len(plan.groups()) > MOST_GROUPS:
        return f"its chunks must be read in {len(plan.groups())} different ways"
    if not plan.chunks:
        return None
    against = _keeps_positions(plan)
    if against is not None:
        return against
    path_of = path_of_chunks(session, bucket, plan.chunks[0].key)
    if isinstance(path_of, str):
        return path_of
    for chunk in plan.chunks:
        path = path_of(chunk.key)
        if not PATTERN_CHARACTERS.isdisjoint(path):
            return f"Spark reads {path} as a pattern"
    return None


def native_frame(
    session: Any, plan: ScanPlan, bucket: ReadBucket, schema: st.StructType
) -> DataFrame:
    """The rows of a resolved plan that has no obstacle, as a DataFrame of ``schema``."""
    if not plan.chunks:
        return session.createDataFrame([], schema)
    with held(session, _LIST_HERE):
        frames = [_group_frame(session, plan, group, bucket) for group in plan.groups()]
    frame = reduce(lambda above, below: above.unionAll(below), frames)
    condition = None if plan.predicate.node == TRUE else to_spark(plan.predicate.node)
    if condition is not None:
        frame = frame.where(condition)
    if plan.needed == tuple(schema.names) and not any(field.metadata for field in schema.fields):
        return frame
    return frame.select(*(_named(field) for field in schema.fields))


def _group_frame(session: Any, plan: ScanPlan, group: ScanGroup, bucket: ReadBucket) -> DataFrame:
    """The rows of one group, with every column that the plan needs, in its order."""
    reads = plan.reads(group.schema_id)
    stored = plan.schemas[group.schema_id]
    columns: list[Column | str] = []
    fields: list[pa.Field] = []
    as_stored = group.sources is None and group.excepted is None
    for name in plan.needed:
        read = None if name in group.labels else reads[name]
        if read is not None and read.stored_as is not None:
            fields.append(stored.field(read.stored_as))
        if read is not None and read.stored_as == name and not read.widened:
            columns.append(quoted(name))
            continue
        as_stored = False
        columns.append(_derived(name, group, read))
    if group.sources is not None or group.excepted is not None:
        fields.append(pa.field(SOURCE, pa.string()))
    path_of = path_of_chunks(session, bucket, group.chunks[0].key)
    assert not isinstance(path_of, str), "a plan whose chunks Spark does not reach has an obstacle"
    paths = [path_of(chunk.key) for chunk in group.chunks]
    frame = session.read.options(**_OPTIONS).schema(spark_schema(pa.schema(fields))).parquet(*paths)
    if group.sources is not None:
        frame = frame.where(sf.col(SOURCE).isin(sorted(group.sources)))
    if group.excepted is not None:
        frame = frame.where(~sf.col(SOURCE).isin(sorted(group.excepted)))
    if group.chunks[0].hidden is not None:
        frame = _without_hidden(session, frame, group.chunks)
    return frame if as_stored else frame.select(*columns)


def _keeps_positions(plan: ScanPlan) -> str | None:
    """Why rows of the plan cannot be left out by their positions; None if they can, or if none is
    hidden."""
    rows = sum(len(chunk.hidden) for chunk in plan.chunks if chunk.hidden is not None)
    if not rows:
        return None
    if rows > MOST_HIDDEN:
        return f"newer versions hide {rows:,} of the rows in its files"
    taken = [
        name
        for schema_id in {chunk.schema_id for chunk in plan.chunks}
        for name in plan.schemas[schema_id].names
        if name.lower() == _METADATA
    ]
    return f"column {taken[0]!r} hides the positions of rows from Spark" if taken else None


def _without_hidden(session: Any, frame: DataFrame, chunks: Sequence[ScanChunk]) -> DataFrame:
    """The rows that newer versions do not hide.

    The last three parts of a path are the chunk's key. Spark shows paths as URLs, in which the name
    of a folder may look different; keys have no character that does.
    """
    positions = [chunk.hidden for chunk in chunks if chunk.hidden is not None]
    keys = pa.array([chunk.key for chunk in chunks])
    places = np.repeat(np.arange(len(chunks)), [len(own) for own in positions])
    table = pa.table({_CHUNK: keys.take(pa.array(places)), _POSITION: np.concatenate(positions)})
    path = sf.col(f"{_METADATA}.file_path")
    marked = frame.select(
        "*",
        sf.substring_index(path, "/", -3).alias(_CHUNK),
        sf.col(f"{_METADATA}.row_index").alias(_POSITION),
    )
    hidden = sf.broadcast(session.createDataFrame(table))
    return marked.join(hidden, [_CHUNK, _POSITION], "left_anti").drop(_CHUNK, _POSITION)


def _derived(name: str, group: ScanGroup, read: ColumnRead | None) -> Column:
    """A column that the group's files do not store as the table defines it: a label (``read`` is
    None), a missing one, or one that was renamed or widened later."""
    if read is None:
        return sf.lit(group.labels[name]).cast("string").alias(name)
    kind = spark_schema(pa.schema([(name, read.type)]))[name].dataType
    column = sf.lit(None) if read.stored_as is None else sf.col(quoted(read.stored_as))
    return (column.cast(kind) if read.widened or read.stored_as is None else column).alias(name)


def _readable(plan: ScanPlan, name: str) -> bool:
    """Whether Spark reads the column's type in every schema of the plan's chunks."""
    for schema_id in {chunk.schema_id for chunk in plan.chunks}:
        read = plan.reads(schema_id)[name]
        if not native_can_read(read.type):
            return False
        if read.stored_as is not None and not native_can_read(
            plan.schemas[schema_id].field(read.stored_as).type
        ):
            return False
    return True


def _may_hold_nan(plan: ScanPlan, name: str) -> bool:
    """Whether the column may contain NaN in a chunk. Spark prunes by bounds that leave NaN out, and
    this cannot be turned off for one read."""
    for group in plan.groups():
        stored = plan.reads(group.schema_id)[name].stored_as
        if stored is not None and may_hold_nan(
            group.chunks, plan.schemas[group.schema_id].field(stored)
        ):
            return True
    return False


def _named(field: st.StructField) -> Column | str:
    name = quoted(field.name)
    return sf.col(name).alias(field.name, metadata=field.metadata) if field.metadata else name

"""The plan of a write, made on the driver before any task starts.

- One job = one block: its ULID is drawn here, and all tasks write chunks into its directory.
- A missing table is only planned here, from the DataFrame's schema; the commit creates it, so that a job that fails
  leaves no empty table behind.
- A DataFrame that does not fit the table is refused here, in one sentence, before a row moves.
- A job whose batch the table has committed already plans nothing: its tasks write no byte. A batch that can no longer
  be committed is refused here, not after an hour of writing.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from blockstore.bucket import open_bucket
from blockstore.errors import Invalid, NotFound
from blockstore.format import Definition, Job
from blockstore.format.labels import check_labels
from blockstore.format.schema import cast_batch
from blockstore.index.change import Append, Done
from blockstore.index.rules import decide
from blockstore.operations.append import AppendedBlock, earlier_block
from blockstore.table import Table, open_any
from blockstore.world import World
from spark.options import WriteOptions
from spark.plan import WritePlan
from spark.types import arrow_schema

__all__ = ["plan_write"]


def plan_write(schema: st.StructType, options: WriteOptions, world: World) -> WritePlan:
    """The plan for writing rows of a DataFrame's ``schema``; raises Invalid if they do not fit the table."""
    rows = arrow_schema(schema)
    try:
        table: Table | None = open_any(options.url, world=world)
    except NotFound:
        table = None
    check_labels(options.labels)
    if table is None:
        definition = _new_definition(rows, options)
    else:
        definition = table.definition
        _check_agreement(definition, options)
    _check_fit(rows, definition)
    return WritePlan(
        url=open_bucket(options.url, world).url,
        ulid=world.ids.ulid(),
        definition=definition,
        creates=table is None,
        labels=dict(options.labels or definition.labels),
        job=options.job,
        buffer_bytes=options.buffer_bytes,
        chunk_bytes=options.chunk_bytes,
        done=None if table is None else _done(table, options.job),
    )


def _done(table: Table, job: Job | None) -> AppendedBlock | None:
    """The block by which the job was committed, or None; raises Invalid for a batch that can no longer be."""
    if job is None:
        return None
    state = table.log.state  # Invalid without an index, where no write happens once
    if not isinstance(decide(state, Append(commit=table.world.ids.ulid(), blocks=(), job=job)), Done):
        return None
    return earlier_block(state, job) or AppendedBlock(ulid=None, version=None, published=True, already=True)


def _new_definition(rows: pa.Schema, options: WriteOptions) -> Definition:
    return Definition.create(
        rows, time_column=options.time_column, sort_by=options.sort_by, labels=options.labels
    )


def _check_agreement(definition: Definition, options: WriteOptions) -> None:
    """Options that define a table serve its first write; later ones may repeat them, not contradict them."""
    for name, asked, found in (
        ("time_column", options.time_column, definition.time_column),
        ("sort_by", ",".join(options.sort_by), ",".join(definition.sort_by)),
    ):
        if asked and asked != found:
            raise Invalid(
                f"option {name}={asked!r}, but {options.url} was created with {name}={found or None!r}: "
                "drop the option, or write to a new table."
            )


def _check_fit(rows: pa.Schema, definition: Definition) -> None:
    """Raise what the first batch of such rows would raise in a task."""
    empty = [pa.array([], column.type) for column in rows]
    cast_batch(pa.RecordBatch.from_arrays(empty, schema=rows), definition)

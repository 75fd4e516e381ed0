"""Make the plan of a write, on the driver, before any task starts.

- One job is one block: its ULID is drawn here, and all tasks write chunks into its directory.
- A missing table is only planned here, from the DataFrame's schema. The commit creates it, so that
  a job that fails leaves no empty table behind.
- With ``evolve`` the table gets the columns of the DataFrame that it lacks, by the entry that makes
  the rows visible.
- A table that was dropped is not created again by a write.
- A DataFrame that does not fit the table is refused here, before a row moves.
- A job whose batch was committed before writes nothing. A batch that can no longer be committed is
  refused here, not after an hour of writing.
- What the table's rows are decides which writes fit: ``identity`` checks it.
- An overwrite begins here: changes of others from now on are judged at its end.
- The check of ``if_exists`` here only saves work; the commit decides.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from blockstore.bucket import open_bucket
from blockstore.errors import Conflict, Invalid, NotFound, TableDropped
from blockstore.format import Definition, Job
from blockstore.format.casting import cast_batch
from blockstore.format.evolution import evolved_for
from blockstore.format.identity import Key
from blockstore.format.labels import check_new_labels
from blockstore.index.change import Append, Done
from blockstore.index.rules import decide
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.append import earlier_block
from blockstore.operations.distributed_overwrite import Begun, begin_anew, begun_on
from blockstore.rows.numbers import numbers_as
from blockstore.spark.types import arrow_schema
from blockstore.spark.writing.first_write import already_written, contains_a_write
from blockstore.spark.writing.identity import check_mode, without_deleted
from blockstore.spark.writing.options import IfExists, WriteMode, WriteOptions
from blockstore.spark.writing.plan import PRODUCER, WritePlan
from blockstore.spark.writing.result import Written
from blockstore.table import Table, open_any
from blockstore.world import World


def plan_write(
    schema: st.StructType, options: WriteOptions, world: World, *, exchanged: bool = False
) -> WritePlan:
    """Plan the write of rows of a DataFrame's ``schema``; ``exchanged`` says that the rows of each
    key of an upsert reach one task.

    Raises Invalid if they do not fit the table, and Conflict if the table contains a write and
    ``if_exists`` is ``error``.
    """
    started = world.clock.monotonic_s()
    rows = without_deleted(arrow_schema(schema), options)
    try:
        table: Table | None = open_any(options.url, world=world)
    except TableDropped:
        raise  # only a person creates another one there: then nothing brings this one back
    except NotFound:
        table = None
    if table is None:
        definition = _new_definition(rows, options)
    else:
        definition = table.definition
        _check_agreement(definition, options)
        if options.evolve:
            definition = evolved_for(definition, rows)
        check_new_labels(options.labels, definition.schema.names)
    check_mode(definition, options)
    if options.mode is WriteMode.MERGE or options.any_numbers:
        rows = numbers_as(rows, definition.schema)
    _check_fit(rows, definition)
    done = None if table is None else _done(table, options)
    begun = None
    if options.overwrite and done is None:
        begun = _begun(table, definition, options, world)
        definition = begun.definition
    return WritePlan(
        url=open_bucket(options.url, world).url,
        ulid=world.ids.ulid() if begun is None else begun.source,
        definition=definition,
        creates=table is None,
        read=None if table is None or definition is table.definition else table.definition,
        labels=dict(options.labels or definition.labels),
        job=options.job,
        any_order=options.any_order,
        if_exists=options.if_exists,
        begun=begun,
        mode=options.mode,
        sequence_by=options.sequence_by,
        read_version=options.read_version,
        exchanged=exchanged,
        any_numbers=options.any_numbers,
        message=options.message,
        buffer_bytes=options.buffer_bytes,
        chunk_bytes=options.chunk_bytes,
        done=done,
        plan_s=world.clock.monotonic_s() - started,
        planned_ms=world.clock.now_ms(),
    )


def _begun(
    table: Table | None, definition: Definition, options: WriteOptions, world: World
) -> Begun:
    """Begin the overwrite, on the table or on the one that the commit will create."""
    overwrite = Begun(
        source=world.ids.ulid(),
        definition=definition,
        labels=dict(options.labels or definition.labels),
        where=options.where,
        isolation=options.isolation,
        job=options.job,
        ordered=not options.any_order,
        message=options.message,
        producer=PRODUCER,
    )
    if table is None:
        if options.read_version is not None:
            raise NotFound(
                f"read_version is {options.read_version}, but there is no table at {options.url}: "
                "check the URL"
            )
        return begin_anew(overwrite)
    return begun_on(Access.of(table.bucket, world, table.log), overwrite, options.read_version)


def _done(table: Table, options: WriteOptions) -> Written | None:
    """The result if there is nothing to write, else None.

    Raises Invalid for a batch that can no longer be committed.
    """
    if options.job is not None:
        # Raises Invalid for a table without an index, where no write can count once.
        earlier = _committed_before(table.log.state, table, options.job, options.any_order)
        if earlier is not None:
            table.log.confirm()
            return earlier
    if options.if_exists is IfExists.APPEND or not contains_a_write(table.log.state):
        return None
    if options.if_exists is IfExists.ERROR:
        raise Conflict(already_written(table.url, table.log.state.version))
    return Written(url=table.url, ignored=True)


def _committed_before(state: State, table: Table, job: Job, any_order: bool) -> Written | None:
    append = Append(commit=table.world.ids.ulid(), blocks=(), job=job, ordered=not any_order)
    if not isinstance(decide(state, append), Done):
        return None
    found, app = earlier_block(state, job), state.batches.get(job.app)
    written = None if app is None else app.written(job.batch)
    version = None if written is None else written.version
    if found is None:
        return Written(url=table.url, version=version, published=True, already=True)
    return Written(
        url=table.url,
        ulid=found.ulid,
        version=found.version or version,
        published=True,
        already=True,
        rows=found.rows,
        bytes=found.bytes,
        chunks=found.chunks,
    )


def _new_definition(rows: pa.Schema, options: WriteOptions) -> Definition:
    return Definition.create(
        rows,
        time_column=options.time_column,
        sort_by=options.sort_by,
        labels=options.labels,
        key=options.key,
    )


def _check_agreement(definition: Definition, options: WriteOptions) -> None:
    """Raise Invalid for an option that contradicts the table's definition."""
    identity = definition.identity
    key = identity.columns if isinstance(identity, Key) else ()
    for name, given, found in (
        ("time_column", options.time_column, definition.time_column),
        ("sort_by", ",".join(options.sort_by), ",".join(definition.sort_by)),
        ("key", ",".join(options.key), ",".join(key)),
    ):
        if given and given != found:
            raise Invalid(
                f"option {name}={given!r}, but {options.url} was created with "
                f"{name}={found or None!r}: remove the option, or write to a new table."
            )


def _check_fit(rows: pa.Schema, definition: Definition) -> None:
    """Raise the error that the first batch of such rows would raise in a task."""
    empty = [pa.array([], column.type) for column in rows]
    cast_batch(pa.RecordBatch.from_arrays(empty, schema=rows), definition)

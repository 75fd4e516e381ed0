"""``append``, ``upsert`` and ``overwrite``: a write as one Spark action in the user's own process.

The write is planned, run by tasks over ``mapInArrow`` and committed.

- The action returns the results of accepted attempts only, and none of it stays lazy: using a
  result later cannot write again.
- Spark's Arrow batches are tuned around the action (``settings``), and the session's own settings
  are restored after it.
- With ``cluster``, rows are first exchanged between tasks by ranges of the table's sort key, and
  sorted within them by Spark, which spills. So no two chunks of the block overlap, however much
  data a task has.
- The rows of an upsert are exchanged by the columns of the key, so those of one key reach one task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from blockstore.errors import Invalid, RowConflict
from blockstore.format import Definition, Job
from blockstore.format.identity import ROW_ID, RowIds
from blockstore.spark.options import checked_url, column_names
from blockstore.spark.settings import batch_settings, held
from blockstore.spark.types import quoted
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.in_order import in_order
from blockstore.spark.writing.options import (
    DEFAULT_BUFFER_BYTES,
    DEFAULT_CHUNK_BYTES,
    WriteMode,
    WriteOptions,
    if_exists_of,
)
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.progress import progress
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import RESULT, result_task
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def append(
    df: DataFrame,
    url: str,
    *,
    job: Job | None = None,
    any_order: bool = False,
    if_exists: str = "append",
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    cluster: bool = False,
    evolve: bool = False,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Append the DataFrame's rows to the table at ``url`` as one block, visible all at once.

    Args:
        df: the rows; columns are matched by name.
        url: the table; a missing one is created from the DataFrame's schema.
        job: counts once: if it was committed before, nothing is written and the earlier block is
            returned.
        any_order: let the job's batches be committed in any order (a backfill).
        if_exists: ``"append"``, ``"error"`` or ``"ignore"``: what to do if the table already
            contains a write, decided at the commit.
        time_column: the time column of a table that this write creates.
        sort_by: the sort key of a table that this write creates.
        labels: constants of the block; also the defaults of a table that this write creates.
        cluster: exchange the rows by ranges of the sort key first.
        evolve: add the columns that the table lacks, and widen types, in the same version.
        buffer_bytes: the bytes of rows that each task buffers and sorts in memory.
        chunk_bytes: the largest chunk.
        tune: hold Arrow settings around the action that make it fast.
        message: a text for the table's history.

    Raises:
        Invalid: the rows or the arguments do not fit the table.
        Conflict: the table contains a write and ``if_exists`` is ``"error"``.
        BlockstoreError: any error of ``Table.append``.
    """
    options = WriteOptions(
        url=checked_url(url),
        job=job,
        any_order=any_order,
        time_column=time_column,
        sort_by=column_names(sort_by),
        labels=dict(labels or {}),
        buffer_bytes=buffer_bytes,
        chunk_bytes=chunk_bytes,
        if_exists=if_exists_of(if_exists),
        evolve=evolve,
        message=message,
    )
    return run(df, options, tune=tune, cluster=cluster)


def upsert(
    df: DataFrame,
    url: str,
    *,
    key: Iterable[str] = (),
    sequence_by: str | None = None,
    job: Job | None = None,
    any_order: bool = False,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Make each row of the DataFrame the current one of its key, in one version.

    It reads nothing of the table and never conflicts: the later of two upserts wins. A key that
    occurs twice in the DataFrame is refused, unless ``sequence_by`` says which row counts.

    Args:
        df: the rows; columns are matched by name. A row whose column ``_deleted`` is true deletes
            the row of its key.
        url: the table; with ``key`` a missing one is created.
        key: the columns of the key of a table that this write creates.
        sequence_by: the column whose highest value says which of several rows of a key counts.

    The other arguments are those of ``append``.

    Raises:
        Invalid: the rows or the arguments do not fit the table, or a key occurs twice.
        RowConflict: the table's definition was changed meanwhile: run it again.
    """
    options = WriteOptions(
        url=checked_url(url),
        job=job,
        any_order=any_order,
        time_column=time_column,
        sort_by=column_names(sort_by),
        labels=dict(labels or {}),
        buffer_bytes=buffer_bytes,
        chunk_bytes=chunk_bytes,
        mode=WriteMode.UPSERT,
        key=column_names(key),
        sequence_by=sequence_by,
        message=message,
    )
    return run(df, options, tune=tune, cluster=False)


def overwrite(
    df: DataFrame,
    url: str,
    *,
    where: str | None = None,
    isolation: str | None = None,
    read_version: int | None = None,
    job: Job | None = None,
    any_order: bool = False,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    cluster: bool = False,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Replace all rows of the table at ``url``, or those for which ``where`` is true, by the
    DataFrame's, in one version.

    Args:
        df: the new rows; each must satisfy ``where``.
        url: the table.
        where: the condition of the rows to replace; default: all rows.
        isolation: ``"serializable"`` makes rows that others append meanwhile a conflict; otherwise
            they stay. Default: the table's property.
        read_version: the version that the DataFrame was computed from. Changes of others count from
            it, and rows that they removed since are a conflict too.

    The other arguments are those of ``append``.

    Raises:
        Invalid: the rows or the arguments do not fit the table.
        Conflict: meanwhile others replaced rows that match, or dropped and recreated the table.
    """
    options = WriteOptions(
        url=checked_url(url),
        job=job,
        any_order=any_order,
        time_column=time_column,
        sort_by=column_names(sort_by),
        labels=dict(labels or {}),
        buffer_bytes=buffer_bytes,
        chunk_bytes=chunk_bytes,
        overwrite=True,
        where=where,
        isolation=isolation,
        read_version=read_version,
        message=message,
    )
    return run(df, options, tune=tune, cluster=cluster)


def run(
    df: DataFrame,
    options: WriteOptions,
    *,
    tune: bool,
    cluster: bool,
    read_under: Definition | None = None,
) -> Written:
    """Write the DataFrame's rows with these options. ``read_under`` is the definition of the
    version that a merge has read.

    Raises RowConflict if the table has another one by now; Conflict for a batch of a stream after
    which a later one was committed."""

    def write() -> Written:
        return _written(df, options, tune=tune, cluster=cluster, read_under=read_under)

    return in_order(options.url, options.job, World.real(), write)


def _written(
    df: DataFrame,
    options: WriteOptions,
    *,
    tune: bool,
    cluster: bool,
    read_under: Definition | None,
) -> Written:
    world = World.real()
    exchanged = options.mode is not WriteMode.APPEND
    plan = plan_write(df.schema, options, world, exchanged=exchanged)
    if plan.done is not None:
        return commit(plan, [], world)
    if read_under is not None and plan.definition != read_under:
        raise RowConflict(
            f"the definition of {plan.url} was changed while its rows were read: read them again"
        )
    rows = _exchanged(df, plan) if exchanged else _clustered(df, plan) if cluster else df
    settings = batch_settings(df.schema) if tune else {}
    with held(df.sparkSession, settings), progress(df.sparkSession, plan.url, world):
        # By place: mapInArrow resolves names as expressions, in which a dot is a field of a struct.
        placed = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
        results = placed.mapInArrow(result_task(plan, rows.columns), RESULT).collect()
    return commit(plan, [pickle.loads(result.written) for result in results], world)


def _exchanged(df: DataFrame, plan: WritePlan) -> DataFrame:
    """The rows of each identity in one task."""
    identity = plan.definition.identity
    assert identity is not None, "only rows that have an identity change"
    if isinstance(identity, RowIds):
        from pyspark.sql import functions as sf

        # New rows have no id yet. What spreads them is the same in each attempt of a task.
        return df.repartition(sf.coalesce(ROW_ID, sf.xxhash64(*map(quoted, df.columns))))
    return df.repartition(*(quoted(name) for name in identity.columns))


def _clustered(df: DataFrame, plan: WritePlan) -> DataFrame:
    if not plan.definition.sort_by:
        raise Invalid(
            f"cluster=True exchanges rows by the sort key, and {plan.url} has none: create the "
            "table with sort_by=[…], or remove cluster"
        )
    keys = [quoted(name) for name in plan.definition.sort_by]
    return df.repartitionByRange(*keys).sortWithinPartitions(*keys)

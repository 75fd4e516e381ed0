"""One write as one Spark action in the user's own process: planned, run by tasks over
``mapInArrow``, committed.

- What the action answers comes from winning attempts only, and nothing of it stays lazy, so that no
  later use of a result can write again.
- Spark's Arrow batches are tuned around the action (``tuning``), and the session is left as it was
  found.
- With ``cluster`` rows are exchanged between tasks first, by ranges of the table's sort key, and
  sorted within them by Spark, which spills: so no two chunks of the block overlap, however much a
  task has.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.format import Job
from blockstore.spark.options import checked_url, column_names
from blockstore.spark.settings import batch_settings, held
from blockstore.spark.types import quoted
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.options import (
    DEFAULT_BUFFER_BYTES,
    DEFAULT_CHUNK_BYTES,
    WriteOptions,
    if_exists_of,
)
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.progress import progress
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import ANSWER, answering_task
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
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Append the DataFrame's rows to the table at ``url`` as one block, visible all at once.

    A missing table is created from the DataFrame's schema with ``time_column``, ``sort_by`` and
    ``labels``. A ``job`` that was committed before writes nothing and answers the earlier block;
    with ``any_order`` its batches may come in any order (a backfill). ``if_exists`` is
    ``"append"``, ``"error"`` or ``"ignore"``: what happens where the table holds a write already,
    judged when the write is committed. ``cluster`` exchanges the rows by ranges of the sort key
    first. Each task sorts at most ``buffer_bytes`` of rows in memory. Raises Invalid if the rows do
    not fit the table, and what ``Table.append`` raises.
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
        message=message,
    )
    return run(df, options, tune=tune, cluster=cluster)


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

    Every new row must meet ``where``. What others append after this call began stays, unless
    ``isolation`` (default: the table's property) is ``"serializable"``: then it conflicts.
    ``read_version`` is the version that the DataFrame was computed from: what others did is judged
    from there on, and rows that they took away since conflict too. The other arguments are those of
    ``append``. Raises Conflict where others replaced rows that it is about, or the table was
    dropped and made anew, while it ran.
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


def run(df: DataFrame, options: WriteOptions, *, tune: bool, cluster: bool) -> Written:
    """Write the DataFrame's rows as the options say."""
    world = World.real()
    plan = plan_write(df.schema, options, world)
    if plan.done is not None:
        return commit(plan, [], world)
    rows = _clustered(df, plan) if cluster else df
    settings = batch_settings(df.schema) if tune else {}
    with held(df.sparkSession, settings), progress(df.sparkSession, plan.url, world):
        answers = rows.mapInArrow(answering_task(plan), ANSWER).collect()
    return commit(plan, [pickle.loads(answer.written) for answer in answers], world)


def _clustered(df: DataFrame, plan: WritePlan) -> DataFrame:
    if not plan.definition.sort_by:
        raise Invalid(
            f"cluster=True exchanges rows by the sort key, and {plan.url} has none: create it "
            "with sort_by=[…], or drop "
            "cluster"
        )
    keys = [quoted(name) for name in plan.definition.sort_by]
    return df.repartitionByRange(*keys).sortWithinPartitions(*keys)

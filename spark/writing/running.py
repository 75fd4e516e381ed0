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
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.spark.reading.filters import quoted
from blockstore.spark.settings import held
from blockstore.spark.tuning import batch_settings
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.progress import progress
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import ANSWER, answering_task
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["run"]


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

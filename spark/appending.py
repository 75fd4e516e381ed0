"""``append(df, url)``: a DataFrame becomes one block, written by Spark's tasks and committed in this process.

- The whole write is one Spark action over ``mapInArrow``: what it answers comes from winning attempts only, and
  nothing of it stays lazy, so that no later use of a result can write again.
- Spark's Arrow batches are tuned around the action (``tuning``); ``tune=False`` leaves the session alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from blockstore.format import Job
from blockstore.operations.append import AppendedBlock
from blockstore.world import World
from spark.commit import commit
from spark.options import DEFAULT_BUFFER_BYTES, DEFAULT_CHUNK_BYTES, WriteOptions, checked_url
from spark.planning import plan_write
from spark.settings import held
from spark.task import ANSWER, answering_task
from spark.tuning import batch_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["append"]


def append(
    df: DataFrame,
    url: str,
    *,
    job: Job | None = None,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
) -> AppendedBlock:
    """Append the DataFrame's rows to the table at ``url`` as one block, visible all at once.

    A missing table is created from the DataFrame's schema with ``time_column``, ``sort_by`` and ``labels``. A ``job``
    that was committed before writes nothing and answers the earlier block. Each task sorts at most ``buffer_bytes``
    of rows in memory. Raises Invalid if the rows do not fit the table, and what ``Table.append`` raises.
    """
    options = WriteOptions(
        url=checked_url(url),
        job=job,
        time_column=time_column,
        sort_by=(sort_by,) if isinstance(sort_by, str) else tuple(sort_by),
        labels=dict(labels or {}),
        buffer_bytes=buffer_bytes,
        chunk_bytes=chunk_bytes,
    )
    world = World.real()
    plan = plan_write(df.schema, options, world)
    if plan.done is not None:
        return commit(plan, [], world)
    with held(df.sparkSession, batch_settings(df.schema) if tune else {}):
        answers = df.mapInArrow(answering_task(plan), ANSWER).collect()
    return commit(plan, [pickle.loads(answer.written) for answer in answers], world)

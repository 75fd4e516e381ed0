"""The streaming sink: each micro-batch of a query becomes one block and one version, exactly once.

- The job is ``stream/<query id>`` with the number of the micro-batch, both kept in the query's
  checkpoint: the index remembers what was committed, so a batch that Spark runs again after a
  crash, at whatever point, counts once. No role is claimed: two runs of one query write the same
  batches, and the index takes the first of each.
- Spark makes a writer to plan a batch, another to commit it, and tells neither the query's name:
  tasks read it from their local properties, and their answers bring the commit the plan under which
  they wrote.
- What a batch wrote that was not committed is debris that no reader sees and that cleaning removes;
  ``abort`` deletes nothing, since Spark also calls it after a commit whose answer was lost.
- A batch without rows writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from blockstore.errors import BlockstoreError, Invalid, Unavailable
from blockstore.format import WrittenChunks
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

QUERY = "sql.streaming.queryId"
"""The local property in which Spark tells a task which query it serves."""

_log = logging.getLogger("blockstore.spark")


@dataclass(frozen=True)
class BatchAnswer(WriterCommitMessage):
    """What one task attempt hands to the commit: for which query, under which plan, and its chunks,
    if it had rows."""

    query: str
    plan: WritePlan
    written: WrittenChunks | None


class BatchWriter(DataSourceStreamArrowWriter):
    """One micro-batch's write, as Spark drives it."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._url = options.url
        self._plan: WritePlan | BlockstoreError
        try:
            self._plan = plan_write(schema, options, World.real())
        except BlockstoreError as error:
            # The writer that commits needs no plan: a table that was altered since then is none of
            # its business.
            self._plan = error

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks. Raises what keeps the batch from being written at all."""
        if isinstance(self._plan, BlockstoreError):
            raise self._plan
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchAnswer:
        assert isinstance(self._plan, WritePlan), "a writer without a plan does not travel"
        return BatchAnswer(_query(), self._plan, write_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        # Here, because a task's process has no use for the index.
        from blockstore.spark.streaming.batch import commit_batch, stream_job

        answers = [message for message in messages if isinstance(message, BatchAnswer)]
        if len(answers) != len(messages):
            raise Unavailable(
                f"Spark handed {len(messages)} task answers to the commit of batch {batchId} and "
                f"{len(messages) - len(answers)} are not ours, so rows could be missing: nothing "
                "was committed, restart the query"
            )
        written = [answer.written for answer in answers if answer.written is not None]
        if not written:
            _log.info("%s: batch %d has no rows, so no block was written", self._url, batchId)
            return
        plan = replace(answers[0].plan, job=stream_job(answers[0].query, batchId))
        commit_batch(plan, written, World.real())

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete nothing: the chunks may belong to a block that is visible already."""


def _query() -> str:
    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty(QUERY)
    if not query:
        raise Invalid(
            f"Spark does not say which query this task serves (its property {QUERY!r} is empty), "
            "and without it a batch could "
            "count twice: write with foreachBatch(blockstore.spark.foreach_batch(url, stream='a "
            "name of your own'))"
        )
    return str(query)

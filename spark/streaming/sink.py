"""The streaming sink: each micro-batch of a query becomes one block and one version, exactly once.

- The job is ``stream/<query id>`` with the number of the micro-batch, both kept in the query's
  checkpoint. The index records what was committed, so a batch that Spark runs again after a crash
  at any point counts once. No role is claimed: two runs of one query write the same batches, and
  the index accepts the first of each.
- Spark makes one writer to plan a batch and another to commit it, and gives neither the query's
  name. Tasks read the name from their local properties, and their results carry the plan under
  which they wrote to the commit.
- What an uncommitted batch wrote is debris that no reader sees and that cleaning removes. ``abort``
  deletes nothing, since Spark also calls it after a commit whose response was lost.
- A batch without rows writes nothing.
- With ``write_mode=upsert`` the block is one of changes. Spark does not exchange rows for a sink,
  so tasks report the keys that they wrote, and a key that two tasks have ends the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from blockstore.errors import BlockstoreError, Invalid
from blockstore.spark.writing.data_source import own_results
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.spark.writing.task import TaskWritten

QUERY = "sql.streaming.queryId"
"""The local property of a task that contains the id of its query."""

_log = logging.getLogger("blockstore.spark")


@dataclass(frozen=True)
class BatchResult(WriterCommitMessage):
    """What one task attempt sends to the commit: its query, its plan, and its chunks if it had
    rows."""

    query: str
    plan: WritePlan
    written: TaskWritten | None


class BatchWriter(DataSourceStreamArrowWriter):
    """One micro-batch's write, as Spark drives it."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        self._url = options.url
        self._plan: WritePlan | BlockstoreError
        try:
            self._plan = plan_write(schema, options, World.real())
        except BlockstoreError as error:
            # The writer that commits needs no plan, so it must not fail on a table that was altered
            # since.
            self._plan = error

    def __getstate__(self) -> dict[str, Any]:
        """The state for the tasks. Raises the error that the plan met."""
        if isinstance(self._plan, BlockstoreError):
            raise self._plan
        return dict(self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchResult:
        assert isinstance(self._plan, WritePlan), "a writer without a plan does not travel"
        return BatchResult(_query(), self._plan, write_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        # Imported here, because a task's process does not need the index.
        from blockstore.spark.streaming.batch import commit_batch, stream_job

        results = own_results(messages, BatchResult, f"restart the query (batch {batchId})")
        written = [result.written for result in results if result.written is not None]
        if not written:
            _log.info("%s: batch %d has no rows, so no block was written", self._url, batchId)
            return
        plan = replace(results[0].plan, job=stream_job(results[0].query, batchId))
        commit_batch(plan, written, World.real())

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete nothing: the chunks may belong to a block that is visible already."""


def _query() -> str:
    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty(QUERY)
    if not query:
        raise Invalid(
            f"Spark does not provide the query of this task (its property {QUERY!r} is empty), and "
            "without it a batch could count twice: write with "
            "foreachBatch(blockstore.spark.foreach_batch(url, stream='a name of your own'))"
        )
    return str(query)

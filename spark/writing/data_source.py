"""The data source's write side: how Spark drives a plan, its tasks and its commit.

Spark makes the writer in a planning process, runs ``write`` in tasks and ``commit`` in a process of
its own. Pickles of the plan and of the tasks' results travel between them.

- ``commit`` receives the results of the accepted attempts only. It runs R3 and publishes: it makes
  the block visible.
- ``abort`` deletes nothing. Spark also calls it, with every result, when ``commit`` failed after
  meta.json was written. What a failed job leaves is debris that readers never see and that the
  compactor removes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from blockstore.errors import Unavailable
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.task import write_task
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.spark.writing.task import TaskWritten

Result = TypeVar("Result", bound=WriterCommitMessage)


@dataclass(frozen=True)
class TaskResult(WriterCommitMessage):
    """What one task attempt sends to the commit: its chunks, or None if it had no rows."""

    written: TaskWritten | None


class TasksWriter(DataSourceArrowWriter):
    """One job's write, as Spark drives it."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        return TaskResult(write_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Imported here, because a task's process does not need the index.
        from blockstore.spark.writing.commit import commit
        from blockstore.spark.writing.in_order import in_order

        results = own_results(messages, TaskResult, "run the job again")
        _start_logging()
        plan, world = self._plan, World.real()
        written = [result.written for result in results if result.written]
        in_order(plan.url, plan.job, world, lambda: commit(plan, written, world))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete nothing: the chunks may belong to a block that is complete already."""


def own_results(
    messages: Sequence[WriterCommitMessage | None], kind: type[Result], remedy: str
) -> list[Result]:
    """The results of the accepted attempts. Raises Unavailable if one is not of this kind."""
    results = [message for message in messages if isinstance(message, kind)]
    if len(results) != len(messages):
        raise Unavailable(
            f"Spark passed {len(messages)} task results to the commit, of which "
            f"{len(messages) - len(results)} are not from this writer, so rows could be missing: "
            f"nothing was committed, {remedy}"
        )
    return results


def _start_logging() -> None:
    """Log to stderr in the commit's process: Spark creates it without a log handler."""
    logger = logging.getLogger("blockstore")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)

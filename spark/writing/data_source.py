"""The data source's write side: how Spark drives a plan, its tasks and its commit.

Spark makes the writer in a planning process, runs ``write`` in tasks and ``commit`` in a process of
its own; what travels between them are pickles of the plan and of the tasks' answers.

- ``commit`` is handed the answers of winning attempts only. It runs R3 and publishes: it makes the
  block visible.
- ``abort`` deletes nothing: Spark also calls it, with every answer, when ``commit`` failed after
  meta.json was written. What a failed job leaves is debris that readers never see and that the
  compactor removes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from blockstore.errors import Unavailable
from blockstore.format import WrittenChunks
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.task import write_task
from blockstore.world import World


@dataclass(frozen=True)
class TaskAnswer(WriterCommitMessage):
    """What one task attempt hands to the commit: its chunks, or None where it had no rows."""

    written: WrittenChunks | None


class TasksWriter(DataSourceArrowWriter):
    """One job's write, as Spark drives it."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskAnswer:
        return TaskAnswer(write_task(self._plan, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Here, because a task's process has no use for the index.
        from blockstore.spark.writing.commit import commit

        answers = [message for message in messages if isinstance(message, TaskAnswer)]
        if len(answers) != len(messages):
            raise Unavailable(
                f"Spark handed {len(messages)} task answers to the commit and "
                f"{len(messages) - len(answers)} are not ours, so "
                "rows could be missing: nothing was committed, run the job again"
            )
        _be_heard()
        commit(self._plan, [answer.written for answer in answers if answer.written], World.real())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete nothing: the chunks may belong to a block that is complete already."""


def _be_heard() -> None:
    """Let what a write did be read:

    Spark makes the process of the commit, and nobody else gives it a log.
    """
    logger = logging.getLogger("blockstore")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)

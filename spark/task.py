"""What one Spark task does: its rows become chunks in the job's block.

- Rows are cast to the table's schema and sorted within the task; memory is bounded by the plan's
  buffer, and by what waits to be uploaded while the next chunk is encoded (``uploads.py``).
- A chunk's name holds the partition, the attempt and a random token: a retried or a speculative
  attempt, a zombie executor or the same numbers in another SparkContext never write the same
  object.
- A task publishes nothing and deletes nothing: what it answers reaches the commit only if Spark
  takes this attempt, and chunks of the others are debris that meta.json does not list.
- It answers only once every chunk lies whole in the bucket.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import Invalid
from blockstore.format import BlockWriter, WrittenChunks
from blockstore.spark.plan import PRODUCER, WritePlan
from blockstore.spark.uploads import UploadsBeside
from blockstore.spark.worker import task_world
from blockstore.world import World

__all__ = ["ANSWER", "answering_task", "write_task"]

_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"

ANSWER = "written binary"
"""The columns, in Spark's words, of what an answering task yields."""


def write_task(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> WrittenChunks | None:
    """Write the rows of one task as chunks;

    None where there are none, or there is nothing to write.
    """
    if plan.done is not None:
        return None
    world = task_world()
    uploads = UploadsBeside(open_bucket(plan.url, world))
    writer: BlockWriter | None = None
    try:
        for batch in _rows(plan, batches):
            if batch.num_rows == 0:
                continue
            if writer is None:
                writer = _writer(plan, uploads, world)
            writer.write(batch)
        written = None if writer is None else writer.finish()
        uploads.settle()
    except BaseException:
        if writer is not None:
            writer.abort()
        uploads.drop()
        raise
    return written


def answering_task(
    plan: WritePlan,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """``write_task`` as a function for ``mapInArrow``: its answer is one row, or none where it
    wrote nothing."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_task(plan, batches)
        if written is not None:
            # Not pa.array: given a list, it imports pandas, which costs a worker more than a small
            # write does.
            answer = pa.repeat(pa.scalar(pickle.dumps(written), pa.binary()), 1)
            yield pa.record_batch([answer], names=["written"])

    return task


def _rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as the block holds them: an overwrite's are judged, and name their write."""
    if plan.begun is None:
        return iter(batches)
    # Here, because an append's task has no use for what an overwrite stands on.
    from blockstore.operations.distributed_overwrite import rows_of

    _check_dynamic(plan)
    return rows_of(plan.begun, batches)


def _check_dynamic(plan: WritePlan) -> None:
    """Raise Invalid where the session asks that an overwrite keep the partitions of which there are
    no new rows, and this one would replace all. Only a task hears of the session's settings: the
    data source is not told."""
    task = TaskContext.get()
    mode = None if task is None else task.getLocalProperty(_OVERWRITE_MODE)
    if plan.begun is not None and plan.begun.where is None and (mode or "").lower() == "dynamic":
        raise Invalid(
            f"{_OVERWRITE_MODE} is 'dynamic', and a table has no partitions: this overwrite would "
            f"replace all rows of {plan.url}. Say "
            "which it is about with where (\"day = '2024-01-01'\"; 'true' is all), or set it to "
            "'static'; nothing was changed"
        )


def _writer(plan: WritePlan, bucket: Bucket, world: World) -> BlockWriter:
    return BlockWriter(
        bucket,
        world,
        plan.ulid,
        plan.definition,
        labels=plan.labels,
        producer=PRODUCER,
        job=plan.job,
        chunk_size=plan.chunk_bytes,
        buffer_bytes=plan.buffer_bytes,
        token=_attempt(world),
        extra_columns=() if plan.begun is None else ("_source",),
    )


def _attempt(world: World) -> str:
    """A name for this attempt, in the order of partitions: files of a block are listed in the order
    of names."""
    task = TaskContext.get()
    partition, attempt = (task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)
    return f"{partition:06d}-{attempt}-{world.ids.token()}"

"""One Spark task of a write: its rows become chunks in the job's block.

- Rows are cast to the table's schema and sorted within the task. Memory is bounded by the plan's
  buffer, and by the data that waits for upload while the next chunk is encoded (``uploads``).
- A chunk's name contains the partition, the attempt and a random token. A retried or speculative
  attempt, a zombie executor or the same numbers in another SparkContext never write the same
  object.
- A task publishes nothing and deletes nothing. Its result reaches the commit only if Spark accepts
  this attempt; the chunks of the others are debris that meta.json does not list.
- It returns only after every chunk is stored completely in the bucket.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import Invalid
from blockstore.files.look import FileLook
from blockstore.format import BlockWriter, WrittenChunks
from blockstore.spark.worker import task_world
from blockstore.spark.writing.options import WriteMode
from blockstore.spark.writing.plan import PRODUCER, WritePlan
from blockstore.spark.writing.uploads import BackgroundUploads
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.rows.parts import Part, PartRows

    TaskWritten = WrittenChunks | Part

_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"

RESULT = "written binary"
"""The columns, in Spark's notation, that a task yields."""


def write_task(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> TaskWritten | None:
    """Write the rows of one task as chunks; return None if there is nothing to write."""
    if plan.done is not None:
        return None
    world = task_world()
    uploads = BackgroundUploads(open_bucket(plan.url, world))
    changes = _changes(plan)
    rows = _rows(plan, batches) if changes is None else changes.take(batches)
    extra = ("_source",) if plan.begun is not None else ()
    writer: BlockWriter | None = None
    try:
        for batch in rows:
            if batch.num_rows == 0:
                continue
            if writer is None:
                writer = _writer(plan, uploads, world, extra if changes is None else changes.extra)
            writer.write(batch)
        written = None if writer is None else writer.finish()
        uploads.settle()
    except BaseException:
        if writer is not None:
            writer.abort()
        uploads.drop()
        raise
    return written if written is None or changes is None else _part(written, changes)


def result_task(
    plan: WritePlan, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """``write_task`` as a function for ``mapInArrow``, which calls the columns otherwise: it yields
    one row, or none if it wrote nothing."""
    names = list(names)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_task(plan, (batch.rename_columns(names) for batch in batches))
        if written is not None:
            # Not pa.array: with a list it imports pandas, which costs more than a small write.
            result = pa.repeat(pa.scalar(pickle.dumps(written), pa.binary()), 1)
            yield pa.record_batch([result], names=["written"])

    return task


def _changes(plan: WritePlan) -> PartRows | None:
    """What makes changes of the rows of an upsert or a merge; None for other writes."""
    if plan.mode is WriteMode.APPEND:
        return None
    from blockstore.rows.parts import PartRows

    return PartRows(
        plan.definition,
        plan.labels,
        sequence_by=plan.sequence_by,
        alone=plan.exchanged,
        reads=plan.read_version is not None,
        hold_bytes=plan.buffer_bytes,
    )


def _part(written: WrittenChunks, changes: PartRows) -> Part:
    from blockstore.rows.parts import Part

    return Part(chunks=written, hashes=changes.hashes(), counts=changes.counts)


def _rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as the block stores them: those of an overwrite are checked and name their write."""
    if plan.any_numbers:
        from blockstore.rows.numbers import with_numbers

        batches = (with_numbers(batch, plan.definition.schema) for batch in batches)
    if plan.begun is None:
        return iter(batches)
    from blockstore.operations.distributed_overwrite import rows_of

    _check_dynamic(plan)
    return rows_of(plan.begun, batches)


def _check_dynamic(plan: WritePlan) -> None:
    """Raise Invalid if the session's mode keeps partitions without new rows, and this overwrite
    would replace all rows.

    It is checked here because Spark gives the session's settings to tasks, not to the data source.
    """
    task = TaskContext.get()
    mode = None if task is None else task.getLocalProperty(_OVERWRITE_MODE)
    if plan.begun is not None and plan.begun.where is None and (mode or "").lower() == "dynamic":
        raise Invalid(
            f"{_OVERWRITE_MODE} is 'dynamic', and a table has no partitions: this overwrite would "
            f"replace all rows of {plan.url}. Nothing was changed. Choose the rows with where "
            "(\"day = '2024-01-01'\"; 'true' is all rows), or set the mode to 'static'"
        )


def _writer(plan: WritePlan, bucket: Bucket, world: World, extra: tuple[str, ...]) -> BlockWriter:
    files = FileLook.of(bucket, world, plan.ulid, plan.definition)
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
        extra_columns=extra,
        accept=None if files is None else files.take,
    )


def _attempt(world: World) -> str:
    """A name for this attempt. Names sort in the order of partitions, as the block lists its
    files."""
    task = TaskContext.get()
    partition, attempt = (task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)
    return f"{partition:06d}-{attempt}-{world.ids.token()}"

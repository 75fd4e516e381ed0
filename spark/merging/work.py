"""What one Spark task does for a merge: unpack it, do it, pack the result.

- An error of the project is a result: that of one merge, which ends no other merge of the job. Any
  other error fails the attempt, and Spark tries again.
- Attempts never write the same object, and only the result of the attempt that Spark accepts is
  used. What the others wrote is debris in the block's directory, which its meta.json does not list.
- The compactor's tasks, results and pieces are protocols here, because the rooms never import one
  another. They must be picklable, and workers must have the package that defines them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from blockstore.bucket import open_bucket
from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.errors import BlockstoreError
from blockstore.format import BlockMeta
from blockstore.spark.worker import task_world
from blockstore.world import World

COLUMNS = "place int, packed binary"
"""The columns, in Spark's notation, of the rows of tasks and of those of results."""

Packed = tuple[int, bytes]
"""A place in a round, and a pickled task or result."""


class Input(Protocol):
    """A block to merge."""

    @property
    def meta(self) -> BlockMeta: ...


class Task(Protocol):
    """One merge, or a piece of one."""

    @property
    def ulid(self) -> str: ...

    @property
    def inputs(self) -> Sequence[Input]: ...


class MergePieces(Protocol):
    """How merges are cut, done and combined. Their results are only passed on."""

    def cut(self, bucket: ReadBucket, task: Any, count: int) -> Sequence[Any]:
        """Cut the task into at most ``count`` pieces."""
        ...

    def merge(self, bucket: Bucket, world: World, task: Any, options: Any) -> Any:
        """Do one task or piece, in the calling process."""
        ...

    def together(self, task: Any, parts: Sequence[Any]) -> Any | None:
        """Combine the results of the pieces; None if the task must be done in one piece."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The values that all tasks of one Spark job share."""

    url: str
    pieces: MergePieces
    options: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A picklable error: exceptions with arguments of their own do not survive pickle."""

    kind: type[BlockstoreError]
    args: tuple[Any, ...]
    state: dict[str, Any]

    @classmethod
    def of(cls, error: BlockstoreError) -> Failure:
        return cls(kind=type(error), args=error.args, state=dict(vars(error)))

    def error(self) -> BlockstoreError:
        """The error without its traceback, which stays in the worker's log."""
        error = self.kind.__new__(self.kind)
        error.args = self.args
        vars(error).update(self.state)
        return error


def merging_partition(job: Job) -> Callable[[Iterable[Packed]], Iterator[Packed]]:
    """A function for ``mapPartitions``: from places and pickled tasks to places and pickled
    results."""

    def partition(tasks: Iterable[Packed]) -> Iterator[Packed]:
        for place, packed in tasks:
            yield place, _result(job, packed)

    return partition


def merging_batches(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same for ``mapInArrow``, in rows of the columns ``COLUMNS``."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place, packed in zip(batch.column(0), batch.column(1), strict=True):
                yield _row(place, _result(job, packed.as_py()))

    return task


def _result(job: Job, packed: bytes) -> bytes:
    world = task_world()
    try:
        result = job.pieces.merge(
            open_bucket(job.url, world), world, pickle.loads(packed), job.options
        )
    except BlockstoreError as error:
        result = Failure.of(error)
    return pickle.dumps(result)


def _row(place: pa.Scalar, result: bytes) -> pa.RecordBatch:
    # Not pa.array: with a list it imports pandas.
    columns = [pa.repeat(place.cast(pa.int32()), 1), pa.repeat(pa.scalar(result, pa.binary()), 1)]
    return pa.RecordBatch.from_arrays(columns, names=["place", "packed"])

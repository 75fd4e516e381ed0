"""What one Spark task does for a merge: unpack it, do it, pack the answer.

- An error that the project raises on purpose is an answer: the merge's own, which ends no other
  merge of the job. Anything else fails the attempt, and Spark tries again.
- Attempts never write the same object, and only the answer of the one that Spark takes is used:
  what the others wrote is debris inside the block's directory, which its meta.json does not list.
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
from blockstore.world import World

ANSWERS = "place int, answer binary"
"""The columns, in Spark's words, of what a task yields."""


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
    """How merges are cut, done and put together; what they answer is only carried."""

    def cut(self, bucket: ReadBucket, task: Any, count: int) -> Sequence[Any]:
        """The task as at most ``count`` pieces."""
        ...

    def merge(self, bucket: Bucket, world: World, task: Any, options: Any) -> Any:
        """One task or piece, in the calling process."""
        ...

    def together(self, task: Any, parts: Sequence[Any]) -> Any | None:
        """What the pieces make; None where the task must be done in one piece."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all tasks of one Spark job share."""

    url: str
    pieces: MergePieces
    options: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as it travels: exceptions with arguments of their own do not survive pickle by
    themselves."""

    kind: type[BlockstoreError]
    args: tuple[Any, ...]
    state: dict[str, Any]

    @classmethod
    def of(cls, error: BlockstoreError) -> Failure:
        return cls(kind=type(error), args=error.args, state=dict(vars(error)))

    def error(self) -> BlockstoreError:
        """The error again, without the traceback, which stays in the worker's log."""
        error = self.kind.__new__(self.kind)
        error.args = self.args
        vars(error).update(self.state)
        return error


def merging_task(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: rows of place and packed task in, rows of place and packed
    answer out."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place, packed in zip(batch.column(0), batch.column(1), strict=True):
                yield _row(place, pickle.dumps(_answer(job, pickle.loads(packed.as_py()))))

    return task


def _answer(job: Job, task: Any) -> Any:
    world = World.real()
    try:
        return job.pieces.merge(open_bucket(job.url, world), world, task, job.options)
    except BlockstoreError as error:
        return Failure.of(error)


def _row(place: pa.Scalar, answer: bytes) -> pa.RecordBatch:
    # Not pa.array: given a list, it imports pandas.
    columns = [pa.repeat(place.cast(pa.int32()), 1), pa.repeat(pa.scalar(answer, pa.binary()), 1)]
    return pa.RecordBatch.from_arrays(columns, names=["place", "answer"])

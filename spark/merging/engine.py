"""The merge engine on Spark: the merges of a pass are the tasks of a Spark job.

- One merge is one task. A merge of more input than ``piece_bytes`` is cut by ranges of its leading
  key into several tasks, whose chunks are one block, sorted across its chunks. It stays whole if
  the others of its round occupy the other cores as long, and it is not many times as large.
- The engine writes chunks and nothing else. It commits nothing: the caller publishes the results by
  the rules that it applies to those of the local engine. A driver, an executor or a worker that
  dies leaves debris, and a table that reads as before.
- An error of one merge is the result of that merge and ends no other.
- A pass runs in rounds of a few merges for each core, so that finished merges are published while
  the rest continues.
- The results of a round come at its end. Until then the caller is informed of each task that ends,
  where Spark reports it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from blockstore.bucket.api import Bucket
from blockstore.errors import BlockstoreError, MissingExtra, Unavailable
from blockstore.spark.merging.progress import Progress, reporting
from blockstore.spark.merging.work import (
    COLUMNS,
    Failure,
    Job,
    MergePieces,
    Task,
    merging_batches,
    merging_partition,
)
from blockstore.spark.options import checked_url, size
from blockstore.world import World

PIECE_SIZE = "spark.blockstore.merge.pieceSize"
"""The session's setting of the size above which a merge is cut."""

_PIECE_BYTES = 1 << 30
_ROUND = 32
_ROUND_A_CORE = 4
_UNEVEN = 1.25
"""A merge may be this much larger than its share of the round's bytes by cores, and stay whole."""

_WHOLE_PIECES = 8
"""A merge of more bytes than so many pieces is always cut: a task that is lost is done again, and
is silent until its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """A merge, its place in the pass, and the pieces in which it is done."""

    place: int
    task: Any
    pieces: tuple[Any, ...]


@dataclass(slots=True, kw_only=True)
class SparkMergeEngine:
    """Merges on the given Spark session, or on the one that is running or configured at the first
    merge."""

    pieces: MergePieces
    session: Any = field(default=None, repr=False)
    piece_bytes: int | None = None
    _own: bool = field(default=False, repr=False)
    """Whether the engine found or started the session itself."""

    def merge(self, bucket: Bucket, world: World, task: Any, options: Any) -> Any:
        """Do one merge. Raises the error that ended it."""
        ((_, result),) = self.merge_all(bucket, world, [task], options)
        if isinstance(result, BlockstoreError):
            raise result
        return result

    def merge_all(
        self,
        bucket: Bucket,
        world: World,
        tasks: Sequence[Any],
        options: Any,
        report: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Do merges in parallel; yield the place of each with its result, or with its error.

        ``report`` is called from another thread with the share of all tasks that have ended,
        whenever one more has. Across Spark Connect it is not called.
        """
        job = Job(url=checked_url(bucket.url), pieces=self.pieces, options=options)
        session, most = self._started(), self._piece_bytes()
        for first in range(0, len(tasks), self._round(session)):
            part = range(first, min(first + self._round(session), len(tasks)))
            cores = _cores(session)
            total = sum(_bytes(tasks[place]) for place in part)
            share = int(_UNEVEN * total / cores) if cores else 0
            whole = max(most, min(share, _WHOLE_PIECES * most))
            merges = [self._cut(bucket, place, tasks[place], most, whole) for place in part]
            progress = (
                None
                if report is None
                else Progress(call=report).part(part.start, part.stop, len(tasks))
            )
            unfit = yield from self._done(session, job, merges, progress)
            if unfit:
                again = [
                    _Merge(place=one.place, task=one.task, pieces=(one.task,)) for one in unfit
                ]
                yield from self._done(session, job, again, progress)

    def _done(
        self, session: Any, job: Job, merges: Sequence[_Merge], progress: Progress | None
    ) -> Generator[tuple[int, Any], None, list[_Merge]]:
        """Yield the results of one round; return the merges whose pieces could not be combined."""
        try:
            results = iter(
                _run(session, job, [piece for merge in merges for piece in merge.pieces], progress)
            )
        except ImportError as error:
            raise MissingExtra(
                f"merging on Spark needs a package that is not installed here: {error}"
            ) from error
        except Exception as error:  # noqa: BLE001 - Spark gave up for any reason: a worker that dies each time, memory, disk
            if len(merges) == 1:
                yield merges[0].place, _given_up(merges[0].task, error)
                return []
            half = len(merges) // 2
            of = len(merges)
            first = yield from self._done(
                session, job, merges[:half], progress and progress.part(0, half, of)
            )
            return first + (
                yield from self._done(
                    session, job, merges[half:], progress and progress.part(half, of, of)
                )
            )
        unfit = []
        for merge in merges:
            parts = [next(results) for _ in merge.pieces]
            failed = next((part for part in parts if isinstance(part, Failure)), None)
            if failed is not None:
                yield merge.place, failed.error()
            elif len(parts) == 1:
                yield merge.place, parts[0]
            elif (merged := self.pieces.together(merge.task, parts)) is not None:
                yield merge.place, merged
            else:
                unfit.append(merge)
        return unfit

    def _cut(self, bucket: Bucket, place: int, task: Task, most: int, whole: int) -> _Merge:
        """A merge of at most ``whole`` bytes as one piece, a larger one in pieces of about
        ``most``."""
        total = _bytes(task)
        count = 1 if total <= whole else -(-total // most)
        pieces = tuple(self.pieces.cut(bucket, task, count)) if count > 1 else (task,)
        return _Merge(place=place, task=task, pieces=pieces)

    def _started(self) -> Any:
        if self._own and _is_stopped(self.session):
            # The cluster ended the application while the compactor continues.
            self.session.stop()
            self.session = None
        if self.session is None:
            self._own = True
            from pyspark.sql import SparkSession

            self.session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        return self.session

    def _piece_bytes(self) -> int:
        if self.piece_bytes is not None:
            return self.piece_bytes
        said = self.session.conf.get(PIECE_SIZE, None)
        return _PIECE_BYTES if said is None else size({PIECE_SIZE: said}, PIECE_SIZE, _PIECE_BYTES)

    def _round(self, session: Any) -> int:
        return max(_ROUND, _ROUND_A_CORE * _cores(session))


def _cores(session: Any) -> int:
    """How many tasks run at once, as far as the driver knows; 0 across Spark Connect."""
    context = getattr(session, "_sc", None)
    return 0 if context is None else max(1, int(context.defaultParallelism))


def _bytes(task: Task) -> int:
    return sum(one.meta.bytes for one in task.inputs)


def _is_stopped(session: Any) -> bool:
    java = getattr(getattr(session, "_sc", None), "_jsc", None)
    return session is not None and java is not None and bool(java.sc().isStopped())


def _given_up(task: Task, error: Exception) -> Unavailable:
    """The error of a merge whose tasks failed until Spark gave up."""
    lines = [line.strip() for line in str(error).splitlines()] or [""]
    said = next(
        (
            line
            for line in reversed(lines)
            if re.match(r"(Caused by: )?[\w.]+(Error|Exception): ", line)
        ),
        lines[0],
    )
    return Unavailable(
        f"Spark gave up on the merge of {len(task.inputs)} blocks, first "
        f"{task.inputs[0].meta.ulid} ({type(error).__name__}: {said[:300]}): look at the "
        "executors' logs; give workers more memory (spark.executor.memoryOverhead) or disk "
        "(work_dir), or lower memory in the configuration"
    )


def _run(session: Any, job: Job, tasks: Sequence[Any], progress: Progress | None) -> list[Any]:
    """Run the tasks as one Spark job, one task each, and return their results in order."""
    packed = [(place, pickle.dumps(task)) for place, task in enumerate(tasks)]
    context = getattr(session, "_sc", None)
    with reporting(session, progress, f"blockstore-merges-{tasks[0].ulid}-{len(tasks)}"):
        if context is not None:
            # A third of the cost of a DataFrame, and without pandas, which createDataFrame imports.
            rows = context.parallelize(packed, len(packed))
            results = rows.mapPartitions(merging_partition(job)).collect()
        else:
            frame = session.createDataFrame(packed, COLUMNS).repartitionById(len(packed), "place")
            results = frame.mapInArrow(merging_batches(job), COLUMNS).collect()
    return [pickle.loads(result) for _, result in sorted(results, key=lambda row: int(row[0]))]

"""The merge engine on Spark: the merges of a pass are the tasks of a Spark job.

- One merge, one task. A merge of more input than ``piece_bytes`` is cut by ranges of its leading
  key into several tasks, whose chunks are one block, sorted across its chunks.
- The engine writes chunks and nothing else. It commits nothing: what it answers is published by
  whoever asked, by the same rules as what the local engine answers. A driver, an executor or a
  worker that dies leaves debris, and a table that reads as before.
- An error of one merge is that merge's answer and ends no other.
- A pass is done in rounds of a few merges for each core, so that what is done is published while
  the rest goes on.
- The answers of a round come at its end. Until then whoever asked is told of each task that ends,
  where Spark tells it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from blockstore.bucket.api import Bucket
from blockstore.errors import BlockstoreError, MissingExtra, Unavailable
from blockstore.spark.merging.progress import Told, telling
from blockstore.spark.merging.work import ANSWERS, Failure, Job, MergePieces, Task, merging_task
from blockstore.spark.options import checked_url, size
from blockstore.world import World

PIECE_SIZE = "spark.blockstore.merge.pieceSize"
"""The setting of a session that says from what size on a merge is cut."""

_PIECE_BYTES = 1 << 30
_ROUND = 32
_ROUND_A_CORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """A merge, its place in the pass, and the pieces that it is done in."""

    place: int
    task: Any
    pieces: tuple[Any, ...]


@dataclass(slots=True, kw_only=True)
class SparkMergeEngine:
    """Merges on a Spark session: the one given, or the one that is running or configured when the
    first merge comes."""

    pieces: MergePieces
    session: Any = field(default=None, repr=False)
    piece_bytes: int | None = None
    _own: bool = field(default=False, repr=False)
    """Whether the session was found or started here, and not given."""

    def merge(self, bucket: Bucket, world: World, task: Any, options: Any) -> Any:
        """One merge. Raises what ended it."""
        ((_, answer),) = self.merge_all(bucket, world, [task], options)
        if isinstance(answer, BlockstoreError):
            raise answer
        return answer

    def merge_all(
        self,
        bucket: Bucket,
        world: World,
        tasks: Sequence[Any],
        options: Any,
        told: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Merges side by side: the place of each and its answer, or the error that ended it, as
        they are done.

        ``told`` hears from another thread how much of all has ended, whenever one more task has;
        across Spark Connect nothing.
        """
        job = Job(url=checked_url(bucket.url), pieces=self.pieces, options=options)
        session, most = self._started(), self._piece_bytes()
        for first in range(0, len(tasks), self._round(session)):
            part = range(first, min(first + self._round(session), len(tasks)))
            wholes = [self._cut(bucket, place, tasks[place], most) for place in part]
            report = (
                None if told is None else Told(call=told).part(part.start, part.stop, len(tasks))
            )
            unfit = yield from self._done(session, job, wholes, report)
            if unfit:
                again = [
                    _Whole(place=one.place, task=one.task, pieces=(one.task,)) for one in unfit
                ]
                yield from self._done(session, job, again, report)

    def _done(
        self, session: Any, job: Job, wholes: Sequence[_Whole], told: Told | None
    ) -> Generator[tuple[int, Any], None, list[_Whole]]:
        """The answers of one round; returns the merges whose pieces did not make a whole."""
        try:
            answers = iter(
                _run(session, job, [piece for whole in wholes for piece in whole.pieces], told)
            )
        except ImportError as error:
            raise MissingExtra(
                f"merging on Spark needs a package that is not installed here: {error}"
            ) from error
        except Exception as error:  # noqa: BLE001 - whatever Spark gave up on: a worker that dies each time, no memory, no disk
            if len(wholes) == 1:
                yield wholes[0].place, _given_up(wholes[0].task, error)
                return []
            half = len(wholes) // 2
            of = len(wholes)
            first = yield from self._done(
                session, job, wholes[:half], told and told.part(0, half, of)
            )
            return first + (
                yield from self._done(session, job, wholes[half:], told and told.part(half, of, of))
            )
        unfit = []
        for whole in wholes:
            parts = [next(answers) for _ in whole.pieces]
            failed = next((part for part in parts if isinstance(part, Failure)), None)
            if failed is not None:
                yield whole.place, failed.error()
            elif len(parts) == 1:
                yield whole.place, parts[0]
            elif (merged := self.pieces.together(whole.task, parts)) is not None:
                yield whole.place, merged
            else:
                unfit.append(whole)
        return unfit

    def _cut(self, bucket: Bucket, place: int, task: Task, most: int) -> _Whole:
        total = sum(one.meta.bytes for one in task.inputs)
        count = -(-total // most)
        pieces = tuple(self.pieces.cut(bucket, task, count)) if count > 1 else (task,)
        return _Whole(place=place, task=task, pieces=pieces)

    def _started(self) -> Any:
        if self._own and _is_stopped(self.session):
            # The cluster ended the application under a compactor that goes on.
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
        context = getattr(session, "_sc", None)
        return (
            _ROUND
            if context is None
            else max(_ROUND, _ROUND_A_CORE * int(context.defaultParallelism))
        )


def _is_stopped(session: Any) -> bool:
    java = getattr(getattr(session, "_sc", None), "_jsc", None)
    return session is not None and java is not None and bool(java.sc().isStopped())


def _given_up(task: Task, error: Exception) -> Unavailable:
    """What a merge is answered whose tasks failed until Spark gave up."""
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
        f"the merge of {len(task.inputs)} blocks, first {task.inputs[0].meta.ulid}, failed on "
        "Spark until it gave up "
        f"({type(error).__name__}: {said[:300]}): look at the executors' logs; give workers more "
        "memory "
        "(spark.executor.memoryOverhead) or disk (work_dir), or lower memory in the configuration"
    )


def _run(session: Any, job: Job, tasks: Sequence[Any], told: Told | None) -> list[Any]:
    """The answers of the tasks, in their order: one Spark job, one task each."""
    packed = [(place, pickle.dumps(task)) for place, task in enumerate(tasks)]
    rows = session.createDataFrame(packed, "place int, task binary").repartitionById(
        len(tasks), "place"
    )
    with telling(session, told, f"blockstore-merges-{tasks[0].ulid}-{len(tasks)}"):
        answers = rows.mapInArrow(merging_task(job), ANSWERS).collect()
    return [pickle.loads(row.answer) for row in sorted(answers, key=lambda row: row.place)]

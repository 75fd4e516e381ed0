"""A micro-batch as a job that counts once: its name, its commit, and the recipe for
``foreachBatch``.

- A batch that was committed is done, and nothing of it is written again.
- Spark runs only its last batch again. An earlier one that comes after a later one was committed is
  not the same batch any more: its checkpoint was set back, or the name serves another stream. Taken
  for done, its rows would be lost without a word; so it is a Conflict, also where the later one
  came in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockstore.errors import Conflict, Invalid, NotFound
from blockstore.format import Job, WrittenChunks
from blockstore.format.chunk_size import check_chunk_size
from blockstore.index.batches import STREAM
from blockstore.spark.options import checked_url, column_names
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.dataframe import append
from blockstore.spark.writing.options import DEFAULT_BUFFER_BYTES, DEFAULT_CHUNK_BYTES
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.result import Written
from blockstore.table import open_any
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
"""What Spark calls the jobs of one run of a query."""

_written: dict[tuple[str, str, str], tuple[int, object]] = {}
"""The batch that was written last and the function that did, by run, URL and name of the stream."""

_log = logging.getLogger("blockstore.spark")


def stream_job(stream: str, batch: int) -> Job:
    """The job of one micro-batch."""
    return Job(app=f"{STREAM}{stream}", batch=batch)


def commit_batch(plan: WritePlan, written: Sequence[WrittenChunks], world: World) -> None:
    """Make one visible block of what the tasks of a micro-batch wrote, unless it is there
    already."""
    assert plan.job is not None, "a micro-batch is a job"
    block = _in_order(plan.url, plan.job, world, lambda: commit(plan, written, world))
    if block.already:
        _log.info(
            "%s: batch %d was committed before, by block %s", plan.url, plan.job.batch, block.ulid
        )


def _in_order(url: str, job: Job, world: World, write: Callable[[], Written]) -> Written:
    """Write a batch. Raises Conflict if a later one of the stream was committed before it."""
    check_not_set_back(url, job, world)
    written = write()
    if written.already:
        # It was done before, or a later one came in after the first look.
        check_not_set_back(url, job, world)
    return written


def check_not_set_back(url: str, job: Job, world: World) -> None:
    """Raise Conflict if a later batch of the stream was committed."""
    try:
        table = open_any(url, world=world)
    except NotFound:
        return
    app = table.log.state.batches.get(job.app)
    if app is not None and job.batch < app.last:
        raise Conflict(
            f"batch {job.batch} of {job.app!r} comes to {url}, which has its batch {app.last} "
            "already: the stream's checkpoint "
            "was set back or made anew, or another run of it is ahead, and nothing was written; "
            "start with a new checkpoint "
            "location (and, with foreach_batch, another name), or stop the other run"
        )


def foreach_batch(
    url: str,
    *,
    stream: str | None = None,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch`` that appends each micro-batch to the table at
    ``url`` exactly once.

    ``stream`` names the stream in the index; by default it is the query's id. Across Spark Connect,
    where the function runs away from the query, it must be given. The other arguments are those of
    ``append``.
    """
    target = checked_url(url)
    check_chunk_size(chunk_bytes, "chunk_bytes")
    keys = column_names(sort_by)

    def write(batch: DataFrame, number: int) -> None:
        job = stream_job(stream or _query(batch), number)
        alone = _Alone(_run(batch), target, job, write)
        alone.check()
        _in_order(
            target,
            job,
            World.real(),
            lambda: append(
                batch,
                target,
                job=job,
                time_column=time_column,
                sort_by=keys,
                labels=labels,
                buffer_bytes=buffer_bytes,
                chunk_bytes=chunk_bytes,
                tune=tune,
            ),
        )
        alone.done()

    return write


@dataclass(frozen=True, slots=True)
class _Alone:
    """One function's turn at a batch. A second function that writes the same stream to the same
    table in one run would be told that its batch was committed before, and its rows would be lost.
    """

    run: str | None
    url: str
    job: Job
    function: object

    def check(self) -> None:
        """Raise Invalid if another function has written this batch in this run."""
        number, function = _written.get(self._key, (-1, None))
        if self.run is not None and number == self.job.batch and function is not self.function:
            raise Invalid(
                f"two functions of foreach_batch write {self.job.app!r} to {self.url} in one "
                "query, and the rows of the second "
                "would be taken for done: write each batch once, or give the second one a name of "
                "its own, "
                "foreach_batch(url, stream='…')"
            )

    def done(self) -> None:
        """The batch is written."""
        if self.run is not None:
            _written[self._key] = self.job.batch, self.function

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.run or "", self.url, self.job.app


def _run(batch: DataFrame) -> str | None:
    """The run of the query that a batch is of; None where Spark does not say."""
    context = getattr(getattr(batch, "sparkSession", None), "_sc", None)
    return None if context is None else context.getLocalProperty(_RUN)


def _query(batch: DataFrame) -> str:
    """The id of the query that a batch is of."""
    context = getattr(batch.sparkSession, "_sc", None)
    query = None if context is None else context.getLocalProperty(_QUERY)
    if not query:
        raise Invalid(
            "Spark does not say here which query a batch is of, and without a name it could count "
            "twice: give one, "
            "foreach_batch(url, stream='a name of its own')"
        )
    return str(query)

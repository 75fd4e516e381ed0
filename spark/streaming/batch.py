"""A micro-batch as a job that counts once: its name, its commit, and ``foreach_batch``.

If a batch was committed before, nothing of it counts again; ``foreach_batch`` does not write it
again either. One that comes after a later one is a Conflict (``in_order``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.format import Job
from blockstore.format.chunk_size import check_chunk_size
from blockstore.index.batches import STREAM
from blockstore.spark.options import checked_url, column_names
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.dataframe import run
from blockstore.spark.writing.in_order import in_order
from blockstore.spark.writing.options import (
    DEFAULT_BUFFER_BYTES,
    DEFAULT_CHUNK_BYTES,
    WriteOptions,
    write_mode_of,
)
from blockstore.spark.writing.plan import WritePlan
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from blockstore.spark.writing.task import TaskWritten


_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
"""The local property that identifies one run of a query."""

_written: dict[tuple[str, str, str], int] = {}
"""The last batch that was written, by run, URL and name of the stream."""

_log = logging.getLogger("blockstore.spark")


def stream_job(stream: str, batch: int) -> Job:
    """The job of one micro-batch."""
    return Job(app=f"{STREAM}{stream}", batch=batch)


def commit_batch(plan: WritePlan, written: Sequence[TaskWritten], world: World) -> None:
    """Make one visible block of what the tasks of a micro-batch wrote, unless it was committed
    before."""
    assert plan.job is not None, "a micro-batch is a job"
    block = in_order(plan.url, plan.job, world, lambda: commit(plan, written, world))
    if block.already:
        _log.info(
            "%s: batch %d was committed before, by block %s", plan.url, plan.job.batch, block.ulid
        )


def foreach_batch(
    url: str,
    *,
    stream: str | None = None,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    write_mode: str = "append",
    key: Iterable[str] = (),
    sequence_by: str | None = None,
    evolve: bool = False,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch`` that writes each micro-batch to the table
    at ``url`` exactly once.

    ``stream`` names the stream in the index; the default is the query's id. It is required across
    Spark Connect, where the function does not run with the query. With
    ``write_mode="upsert"`` a batch is an ``upsert`` with ``key`` and ``sequence_by``. The other
    arguments are those of ``append``.
    """
    target = checked_url(url)
    check_chunk_size(chunk_bytes, "chunk_bytes")
    sort_key, key_columns = column_names(sort_by), column_names(key)
    mode = write_mode_of(write_mode)

    def write(batch: DataFrame, number: int) -> None:
        job = stream_job(stream or _query(batch), number)
        writer = _OnlyWriter(_run(batch), target, job)
        writer.check()
        options = WriteOptions(
            url=target,
            job=job,
            time_column=time_column,
            sort_by=sort_key,
            labels=dict(labels or {}),
            buffer_bytes=buffer_bytes,
            chunk_bytes=chunk_bytes,
            mode=mode,
            key=key_columns,
            sequence_by=sequence_by,
            evolve=evolve,
        )
        run(batch, options, tune=tune, cluster=False)
        writer.done()

    return write


@dataclass(frozen=True, slots=True)
class _OnlyWriter:
    """A check that a batch of a stream is written to a table once in one run.

    What a second call writes, of the same function or of another, would be taken as committed
    before, and its rows would be lost. Spark runs a batch again in another run only.
    """

    run: str | None
    url: str
    job: Job

    def check(self) -> None:
        """Raise Invalid if this batch was written in this run."""
        if self.run is not None and _written.get(self._key) == self.job.batch:
            raise Invalid(
                f"foreach_batch has written batch {self.job.batch} of {self.job.app!r} to "
                f"{self.url} in this query, and the rows of a second call would be lost: write "
                "each batch once, or each part of it by a function with a name of its own, "
                "foreach_batch(url, stream='…')"
            )

    def done(self) -> None:
        """Record that the batch was written."""
        if self.run is not None:
            _written[self._key] = self.job.batch

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.run or "", self.url, self.job.app


def _run(batch: DataFrame) -> str | None:
    """The run of the query that a batch belongs to; None if Spark does not provide it."""
    context = getattr(getattr(batch, "sparkSession", None), "_sc", None)
    return None if context is None else context.getLocalProperty(_RUN)


def _query(batch: DataFrame) -> str:
    """The id of the query that a batch belongs to."""
    context = getattr(batch.sparkSession, "_sc", None)
    query = None if context is None else context.getLocalProperty(_QUERY)
    if not query:
        raise Invalid(
            "Spark does not provide the query of a batch here, and without a name the batch could "
            "count twice: pass one, foreach_batch(url, stream='a name of its own')"
        )
    return str(query)

"""The batches of a stream are written in their order, also where a later one is committed meanwhile
(``blockstore.index.batches.check_in_order``).
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.errors import NotFound, TableDropped
from blockstore.format import Job
from blockstore.index.batches import STREAM, check_in_order
from blockstore.spark.writing.result import Written
from blockstore.table import open_any
from blockstore.world import World


def in_order(url: str, job: Job | None, world: World, write: Callable[[], Written]) -> Written:
    """Write. Raises Conflict if the job is a batch of a stream (``stream/…``), and a later one was
    committed before it."""
    if job is None or not job.app.startswith(STREAM):
        return write()
    _check_is_newest(url, job, world)
    written = write()
    if written.already:
        # The batch was committed before, or a later one was after the first check.
        _check_is_newest(url, job, world)
    return written


def _check_is_newest(url: str, job: Job, world: World) -> None:
    try:
        table = open_any(url, world=world)
    except TableDropped:
        raise
    except NotFound:
        return
    check_in_order(table.log.state.batches, job.app, job.batch, url)

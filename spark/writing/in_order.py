"""The batches of a stream are written in their order.

Spark runs only the last batch of a query again. An earlier one that comes after a later one was
committed is not the same batch: the checkpoint was set back, or another stream uses the name.
Treating it as done would lose its rows without an error, so it is a Conflict, also if the later
batch was committed in between.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.errors import Conflict, NotFound, TableDropped
from blockstore.format import Job
from blockstore.index.batches import STREAM
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
    app = table.log.state.batches.get(job.app)
    if app is not None and job.batch < app.last:
        raise Conflict(
            f"{url} already contains batch {app.last} of {job.app!r}, so batch {job.batch} was not "
            "written: the stream's checkpoint was set back or replaced, or another run of it is "
            "ahead. Start with a new checkpoint location (and, if you named the stream, another "
            "name), or stop the other run"
        )

"""The end of a Spark job, on the driver: the winning attempts' chunks become one visible block.

- meta.json lists the files of the attempts that Spark committed and no other file of the directory.
- A missing table is created here; whoever created it in between must have given it the schema that the tasks wrote.
- No rows, no block; that is said as a warning, since ``save`` answers nothing.
- What counts as success, and what an error means, is what ``Table.append`` says: without a job the write succeeds
  once the block is complete; with one it is published, or the job must be retried.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import blockstore as bs
from blockstore.errors import Conflict
from blockstore.format import VisibleBy, WrittenChunks, block_meta
from blockstore.operations.append import NOTHING, AppendedBlock, append_block
from blockstore.table import Table, open_any
from blockstore.world import World
from spark.plan import PRODUCER, WritePlan

__all__ = ["commit"]

_log = logging.getLogger("blockstore.spark")


def commit(plan: WritePlan, written: Sequence[WrittenChunks], world: World) -> AppendedBlock:
    """Make one block of what the tasks wrote, and make it visible."""
    if plan.done is not None:
        _log.info("%s: its job was committed before, nothing was written", plan.url)
        return plan.done
    table = _table(plan, world)
    if not written:
        _log.warning("%s: the DataFrame has no rows, so no block was written", plan.url)
        return NOTHING
    chunks = WrittenChunks.together(sorted(written, key=lambda part: part.files[0].path))
    meta = block_meta(
        chunks,
        ulid=plan.ulid,
        definition=plan.definition,
        visible_by=VisibleBy.AGE if plan.job is None else VisibleBy.INDEX,
        producer=PRODUCER,
        labels=plan.labels,
        uploaded_time=world.clock.now_ms(),
        job=plan.job,
    )
    block = append_block(table.bucket, world, table.log_or_none, meta)
    _log.info(
        "%s: block %s, version %s, %d rows in %d chunks of %d bytes",
        plan.url, block.ulid, block.version, block.rows, block.chunks, block.bytes,
    )  # fmt: skip
    return block


def _table(plan: WritePlan, world: World) -> Table:
    """The table of the plan, created if the plan says so; raises Conflict if another made it another way."""
    if not plan.creates:
        return open_any(plan.url, world=world)
    mine = plan.definition
    try:
        return bs.create(
            plan.url,
            schema=mine.schema,
            time_column=mine.time_column,
            sort_by=mine.sort_by,
            labels=mine.labels,
            world=world,
        )
    except Conflict:
        table = bs.open(plan.url, world=world)
    if table.definition != mine:
        raise Conflict(
            f"{plan.url} was created by another writer while this job ran, with another definition than the "
            f"DataFrame's ({', '.join(mine.schema.names)}): run the job again, it then appends to the table as it is."
        )
    return table

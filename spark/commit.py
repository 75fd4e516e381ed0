"""The end of a Spark job, on the driver: the winning attempts' chunks become one visible block.

- meta.json lists the files of the attempts that Spark committed and no other file of the directory.
- A missing table is created here; whoever created it in between must have given it the schema that
  the tasks wrote, and an overwrite that found no table replaces nothing that came in between: it
  conflicts.
- No rows, no block; that is said as a warning, since ``save`` answers nothing. An overwrite by no
  rows is a delete.
- What counts as success, and what an error means, is what ``Table.append`` says: without a job the
  write succeeds once the block is complete; with one it is published, or the job must be retried.
  An overwrite is published or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import blockstore as bs
from blockstore.errors import Conflict
from blockstore.format import BlockMeta, VisibleBy, WrittenChunks, block_meta
from blockstore.operations.access import Access
from blockstore.operations.append import AppendedBlock, append_block, earlier_block
from blockstore.operations.distributed_overwrite import Begun, begun_on, end
from blockstore.operations.overwrite import done_before
from blockstore.spark.options import IfExists
from blockstore.spark.plan import PRODUCER, WritePlan
from blockstore.spark.publishing import holds_a_write, publish
from blockstore.spark.written import Written
from blockstore.table import Table, open_any
from blockstore.world import World

__all__ = ["commit"]


def commit(plan: WritePlan, written: Sequence[WrittenChunks], world: World) -> Written:
    """Make one block of what the tasks wrote, and make it visible."""
    if plan.done is not None:
        return plan.done.say()
    started, now = world.clock.monotonic_s(), world.clock.now_ms()
    answer = _committed(plan, written, world)
    spent = {
        "plan": plan.plan_s,
        "tasks": max(0, now - plan.planned_ms) / 1000,
        "commit": world.clock.monotonic_s() - started,
    }
    return replace(
        answer, seconds={phase: round(seconds, 3) for phase, seconds in spent.items()}
    ).say()


def _committed(plan: WritePlan, written: Sequence[WrittenChunks], world: World) -> Written:
    chunks = _together(written)
    table = _table(plan, world)
    if plan.begun is not None:
        return _overwritten(plan, table, plan.begun, chunks)
    if chunks is None:
        return Written(url=plan.url)
    first = plan.if_exists is not IfExists.APPEND
    alone = first or plan.any_order
    meta = block_meta(
        chunks,
        ulid=plan.ulid,
        definition=plan.definition,
        visible_by=VisibleBy.INDEX if plan.job is not None or alone else VisibleBy.AGE,
        producer=PRODUCER,
        labels=plan.labels,
        uploaded_time=world.clock.now_ms(),
        job=plan.job,
    )
    if not alone:
        block = append_block(table.bucket, world, table.log_or_none, meta, message=plan.message)
        return _appended(plan, block)
    return _alone(plan, table, meta, first=first)


def _together(written: Sequence[WrittenChunks]) -> WrittenChunks | None:
    parts = sorted((part for part in written if part.rows), key=lambda part: part.files[0].path)
    return WrittenChunks.together(parts) if parts else None


def _alone(plan: WritePlan, table: Table, meta: BlockMeta, *, first: bool) -> Written:
    """An append that asks something of the table, so that it has an entry to itself."""
    try:
        durable, committed = publish(
            table, meta, first=first, any_order=plan.any_order, message=plan.message
        )
    except Conflict:
        if plan.if_exists is IfExists.IGNORE and holds_a_write(table.log.poll()):
            return Written(url=plan.url, ignored=True)
        raise
    if committed.already and plan.job is not None:
        earlier = earlier_block(table.log.state, plan.job)
        if earlier is not None and earlier.ulid != durable.ulid:
            return _appended(plan, earlier)
    return Written(
        url=plan.url,
        ulid=durable.ulid,
        version=committed.version,
        published=True,
        already=committed.already,
        rows=durable.rows,
        bytes=durable.bytes,
        chunks=len(durable.chunks),
    )


def _overwritten(
    plan: WritePlan, table: Table, begun: Begun, chunks: WrittenChunks | None
) -> Written:
    access = Access.of(table.bucket, table.world, table.log)
    if plan.creates:
        begun = begun_on(access, begun)
        if done_before(access.log, begun.job) is None and (
            begun.seen or holds_a_write(table.log.at(begun.version))
        ):
            raise Conflict(
                f"{plan.url} was created by another writer while this overwrite, which had found "
                "no table there, was under "
                "way, and holds rows that it never saw: run it again on the table as it is"
            )
    done = end(access, begun, chunks)
    if done.already:
        assert begun.job is not None, "only a job can have been committed before"
        earlier = earlier_block(table.log.state, begun.job)
        ulid = None if earlier is None else earlier.ulid
        return Written(
            url=plan.url,
            operation="overwrite",
            ulid=ulid,
            version=done.version,
            published=True,
            already=True,
        )
    return Written(
        url=plan.url,
        operation="overwrite",
        ulid=done.added[0] if done.added else None,
        version=done.version,
        published=done.version is not None,
        rows=done.rows_added,
        bytes=0 if chunks is None else chunks.bytes,
        chunks=0 if chunks is None else len(chunks.files),
        removed=done.removed,
        accounted=done.accounted,
        rewritten={old: new for old, new in done.rewritten.items() if new is not None},
        rows_removed=done.rows_removed,
    )


def _appended(plan: WritePlan, block: AppendedBlock) -> Written:
    return Written(
        url=plan.url,
        ulid=block.ulid,
        version=block.version,
        published=block.published,
        already=block.already,
        rows=block.rows,
        bytes=block.bytes,
        chunks=block.chunks,
    )


def _table(plan: WritePlan, world: World) -> Table:
    """The table of the plan, created if the plan says so; raises Conflict if another made it
    another way."""
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
            f"{plan.url} was created by another writer while this job ran, with another "
            "definition than the "
            f"DataFrame's ({', '.join(mine.schema.names)}): run the job again, it then appends to "
            "the table as it is."
        )
    return table

"""The end of a Spark job, on the driver: the chunks of the accepted task attempts become one block.

- meta.json lists the files of the attempts that Spark committed and no other file of the directory.
- A missing table is created here. If another writer created it meanwhile, it must have the schema
  that the tasks wrote; and an overwrite that found no table conflicts with rows written meanwhile.
- Without rows there is no block. This is logged as a warning, since ``save`` returns nothing. An
  overwrite without rows is a delete.
- An upsert or a merge becomes a block of changes (``upsert``).
- Success and errors have the meaning that ``Table.append`` gives them: without a job the write
  succeeds once the block is complete; with a job it is published, or the job must be retried. An
  overwrite is published or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import blockstore as bs
from blockstore.errors import Conflict
from blockstore.files.named import columns_with_files
from blockstore.format import BlockMeta, VisibleBy, WrittenChunks, block_meta, write_segments
from blockstore.format.identity import Key
from blockstore.operations.access import Access
from blockstore.operations.append import AppendedBlock, append_block, earlier_block
from blockstore.operations.distributed_overwrite import Begun, begun_on, end
from blockstore.operations.evolving import EvolvingAppend
from blockstore.operations.overwrite import done_before
from blockstore.rows.parts import Part
from blockstore.spark.writing.first_write import ConditionalAppend, contains_a_write
from blockstore.spark.writing.options import IfExists, WriteMode
from blockstore.spark.writing.plan import PRODUCER, WritePlan
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.upsert import upserted
from blockstore.table import Table, open_any
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.spark.writing.task import TaskWritten


def commit(plan: WritePlan, written: Sequence[TaskWritten], world: World) -> Written:
    """Make one visible block of what the tasks wrote."""
    if plan.done is not None:
        return plan.done.log()
    started, now = world.clock.monotonic_s(), world.clock.now_ms()
    result = _committed(plan, written, world)
    spent = {
        "plan": plan.plan_s,
        "tasks": max(0, now - plan.planned_ms) / 1000,
        "commit": world.clock.monotonic_s() - started,
    }
    seconds = {phase: round(seconds, 3) for phase, seconds in spent.items()}
    return replace(result, seconds=seconds).log()


def _committed(plan: WritePlan, written: Sequence[TaskWritten], world: World) -> Written:
    table = _table(plan, world)
    if plan.mode is not WriteMode.APPEND:
        return upserted(plan, table, [part for part in written if isinstance(part, Part)])
    chunks = _together([part for part in written if isinstance(part, WrittenChunks)])
    if plan.begun is not None:
        return _overwritten(plan, table, plan.begun, chunks)
    if chunks is None:
        return Written(url=plan.url)
    first = plan.if_exists is not IfExists.APPEND
    alone = first or plan.any_order
    by_entry = (
        plan.job is not None
        or alone
        or bool(columns_with_files(plan.definition))
        or (plan.read is not None and table.indexed)
    )
    meta = block_meta(
        chunks,
        ulid=plan.ulid,
        definition=plan.definition,
        visible_by=VisibleBy.INDEX if by_entry else VisibleBy.AGE,
        producer=PRODUCER,
        labels=plan.labels,
        uploaded_time=world.clock.now_ms(),
        job=plan.job,
        segments=write_segments(table.bucket, plan.ulid, chunks),
    )
    if plan.read is not None:
        append = partial(
            EvolvingAppend, read=plan.read, wanted=plan.definition, ordered=not plan.any_order
        )
        block = append_block(
            table.bucket, world, table.log_or_none, meta, message=plan.message, append=append
        )
        return _appended(plan, block)
    if not alone:
        block = append_block(table.bucket, world, table.log_or_none, meta, message=plan.message)
        return _appended(plan, block)
    return _alone(plan, table, meta, first=first)


def _together(written: Sequence[WrittenChunks]) -> WrittenChunks | None:
    parts = sorted((part for part in written if part.rows), key=lambda part: part.files[0].path)
    return WrittenChunks.together(parts) if parts else None


def _alone(plan: WritePlan, table: Table, meta: BlockMeta, *, first: bool) -> Written:
    """An append with a condition, so that it has an entry to itself."""
    append = partial(ConditionalAppend, ordered=not plan.any_order, url=plan.url, first=first)
    try:
        block = append_block(
            table.bucket, table.world, table.log, meta, message=plan.message, append=append
        )
    except Conflict:
        if plan.if_exists is IfExists.IGNORE and contains_a_write(table.log.poll()):
            return Written(url=plan.url, ignored=True)
        raise
    return _appended(plan, block)


def _overwritten(
    plan: WritePlan, table: Table, begun: Begun, chunks: WrittenChunks | None
) -> Written:
    access = Access.of(table.bucket, table.world, table.log)
    if plan.creates:
        begun = begun_on(access, begun)
        if done_before(access.log, begun.job) is None and (
            begun.seen or contains_a_write(table.log.at(begun.version))
        ):
            raise Conflict(
                f"{plan.url} did not exist when this overwrite began; another writer created it "
                "meanwhile, with rows that this overwrite never saw: run it again on the table as "
                "it is"
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
    """The table of the plan, created if necessary.

    Raises Conflict if another writer created it with another definition.
    """
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
            key=mine.identity.columns if isinstance(mine.identity, Key) else (),
            world=world,
        )
    except Conflict:
        table = bs.open(plan.url, world=world)
    if table.definition != mine:
        raise Conflict(
            f"another writer created {plan.url} while this job ran, and its definition differs "
            f"from the DataFrame's ({', '.join(mine.schema.names)}): run the job again to append "
            "to the table as it is."
        )
    return table

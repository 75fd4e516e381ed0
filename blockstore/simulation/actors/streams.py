"""A streaming query: a role of its own, whose holder commits batch after batch, and is fenced by
the next to start.

Two processes run the same query: each claims the role when it starts. A batch is written once, by
either process; a fenced process stops, and starts again after a while.
"""

from __future__ import annotations

from blockstore.errors import Conflict, Fenced, Indeterminate, Unavailable
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.index.change import Append
from blockstore.index.epochs import Held, claim
from blockstore.lifecycle.upload import finish_for_entry
from blockstore.simulation.actors.doors import DISTURBED, met, open_table, until_answered
from blockstore.simulation.ground import Kind
from blockstore.simulation.ledger import Write
from blockstore.simulation.process import Process, Role
from blockstore.simulation.rows import BUFFER_BYTES, batches_of
from blockstore.table import Table

_APP = "stream/clicks"


def stream(process: Process, thread: int) -> None:
    """One life of a streaming query."""
    held: Held | None = None
    while not process.finishing or _pending(process) is not None:
        table = open_table(process)
        try:
            held = held or claim(table.log, process.world, _APP)
            _batch(process, table, held)
        except Fenced as error:
            met(process, error)
            held = None
            process.rest(till_morning=process.draw.chance(0.5))
        except DISTURBED as error:
            met(process, error)
            held = None
        except (Unavailable, Indeterminate, Conflict) as error:
            met(process, error)
        process.rest(till_morning=process.draw.chance(0.2))


def _pending(process: Process) -> Write | None:
    """The batch that a process began and none has ended."""
    state = until_answered(process, lambda: open_table(process).log.poll(), disturbed=True)
    done = state.batches.get(_APP)
    following = 0 if done is None else done.last + 1
    return process.stage.ledger.jobs.get(Job(_APP, following))


def _batch(process: Process, table: Table, held: Held) -> None:
    """Write the batch that follows on the last one committed."""
    jobs = process.stage.ledger.jobs
    done = table.log.poll().batches.get(_APP)
    job = Job(_APP, 0 if done is None else done.last + 1)
    if job not in jobs:
        jobs[job] = process.stage.ledger.write(process.stage.scheduler.now_ms, job)
    write = jobs[job]
    meta = finish_for_entry(
        process.bucket, process.world, _upload(process, table, write), slow=table.log.is_slow
    )
    change = Append(
        commit=process.world.ids.ulid(), blocks=(meta,), job=job, role=held.role, epoch=held.epoch
    )
    table.log.commit(change)
    process.stage.judge.acknowledge_rows(write, process.begun[0])


def _upload(process: Process, table: Table, write: Write) -> BlockMeta:
    with BlockWriter(
        process.bucket,
        process.world,
        process.world.ids.ulid(),
        table.definition,
        producer="stream",
        job=write.job,
        buffer_bytes=BUFFER_BYTES,
    ) as writer:
        for batch in batches_of(write, table.definition.schema):
            writer.write(batch)
        written = writer.finish()
    uploaded_ms = process.world.clock.now_ms()
    return writer.describe(written, visible_by=VisibleBy.INDEX, uploaded_time=uploaded_ms)


STREAM = Role(
    name="stream", act=stream, count=2, sleep=0.2, share=0.9, kinds=(Kind.INDEXED, Kind.WITH_IDS)
)

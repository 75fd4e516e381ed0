"""Processes that append: alone, in a group on one handle, twice the same job, published or left to
their age.

A writer's notes are what its user remembers through a crash: the write that is not settled, and how
to continue with it. A job is tried again until it has a result; an append whose ULID is known is
resumed, or given up with its fate open. So is one whose caller got HistoryReplaced: its block may
be in the bucket, and be discovered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blockstore.errors import (
    BlockstoreError,
    Conflict,
    Corrupt,
    HistoryReplaced,
    Indeterminate,
    Invalid,
    Unavailable,
)
from blockstore.format.block import Job
from blockstore.ids import ulid_at
from blockstore.operations.append import AppendedBlock
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.simulation.actors.doors import met, open_table
from blockstore.simulation.ground import APPENDED, Kind
from blockstore.simulation.ledger import Write
from blockstore.simulation.process import Process, Role
from blockstore.simulation.rows import BUFFER_BYTES, batches_of
from blockstore.simulation.schedule import HOUR_MS
from blockstore.table import Table


class Style(StrEnum):
    """How a write is done."""

    PLAIN = "plain"
    JOB = "job"
    UNPUBLISHED = "unpublished"
    MESSAGE = "with a message"
    LATE = "under a ULID drawn hours ago"


@dataclass(slots=True)
class Ask:
    """A write that is not settled."""

    write: Write
    style: Style
    life: int
    resume: str | None = None
    certain: bool = True
    """Whether every attempt so far has surely left nothing behind."""


def write(process: Process, thread: int) -> None:
    """One life of a writer."""
    note = f"ask {thread}"
    while True:
        table = open_table(process)
        ask = _pending(process, note)
        if ask is None:
            if process.finishing:
                return
            ask = process.notes[note] = _new(process)
        if _settled(process, table, ask):
            del process.notes[note]
        process.rest(till_morning=process.draw.chance(0.1))


def write_twice(process: Process, thread: int) -> None:
    """One life of a writer whose jobs another process does as well."""
    jobs: dict[Job, Write] = process.stage.ledger.jobs
    while True:
        table = open_table(process)
        batch = process.notes.setdefault("batch", 0)
        job = Job("twin", batch)
        if process.finishing and job not in jobs:
            return
        if job not in jobs:
            jobs[job] = process.stage.ledger.write(_event_time(process), job)
        ask = process.notes.setdefault(
            "ask", Ask(jobs[job], Style.JOB, process.life, certain=False)
        )
        if _settled(process, table, ask):
            del process.notes["ask"]
            process.notes["batch"] = batch + 1
        process.rest(till_morning=process.draw.chance(0.3))


def _pending(process: Process, note: str) -> Ask | None:
    """What the last life left behind, if its user can continue with it."""
    ask = process.notes.get(note)
    if ask is None or ask.life == process.life:
        return ask
    ask.life = process.life
    ask.certain = False
    if ask.style is Style.JOB or ask.resume is not None:
        return ask
    del process.notes[note]
    return None


def _new(process: Process) -> Ask:
    draw, stage = process.draw, process.stage
    styles = list(Style) if stage.kind.has_index else [Style.PLAIN, Style.LATE]
    style = draw.choice([Style.PLAIN, *styles])
    if process.role is LAPTOP and Style.JOB in styles and draw.chance(0.7):
        style = Style.JOB
    job = _next_job(process) if style is Style.JOB else None
    ask = Ask(stage.ledger.write(_event_time(process), job), style, process.life)
    if style is Style.LATE:
        ask.resume = _old_ulid(process)
    return ask


def _next_job(process: Process) -> Job:
    """The next batch; now and then one that was left out before, which is too low by now."""
    last: int = process.notes.get("batch", -1)
    left_out: list[int] = process.notes.setdefault("left out", [])
    if left_out and process.draw.chance(0.5):
        return Job(process.name, left_out.pop())
    if process.draw.chance(0.3):
        last += 1
        left_out.append(last)
    process.notes["batch"] = last + 1
    return Job(process.name, last + 1)


def _event_time(process: Process) -> int:
    """When the rows happened: now, or up to a day ago."""
    now = process.stage.scheduler.now_ms
    return now - (process.draw.integer(0, 24 * HOUR_MS) if process.draw.chance(0.2) else 0)


def _old_ulid(process: Process) -> str:
    """A ULID that a device drew some hours ago."""
    clock = process.world.clock
    drawn = process.world.ids.ulid()
    return ulid_at(clock.now_ms() - process.draw.integer(0, 20 * HOUR_MS))[:10] + drawn[10:]


def _settled(process: Process, table: Table, ask: Ask) -> bool:
    """Try once; whether the caller need not try again."""
    judge = process.stage.judge
    process.stage.note(
        process.name, f"begins write {ask.write.number} ({ask.style}), resuming {ask.resume}"
    )
    try:
        answer = _append(table, ask)
    except (HistoryReplaced, Corrupt) as error:
        met(process, error)
        ask.certain = False
        ask.resume = getattr(error, "ulid", None) or ask.resume
        return ask.style is not Style.JOB and (ask.resume is None or _gives_up(process))
    except Indeterminate as error:
        met(process, error)
        ask.certain = False
        ask.resume = error.ulid or ask.resume
        return ask.style is not Style.JOB and (ask.resume is None or _gives_up(process))
    except Unavailable as error:
        met(process, error)
        if not _gives_up(process):
            return False
        return _refused(process, ask, error)
    except (Conflict, Invalid) as error:
        met(process, error)
        return _refused(process, ask, error)
    process.stage.note(
        process.name, f"write {ask.write.number} is {answer.ulid} in version {answer.version}"
    )
    judge.acknowledge(ask.write, answer, process.begun[0])
    return True


def _gives_up(process: Process) -> bool:
    return not process.finishing and process.draw.chance(0.2)


def _refused(process: Process, ask: Ask, error: BlockstoreError) -> bool:
    if ask.certain and not process.struck:
        process.stage.judge.refuse(ask.write, error)
    return True


def _append(table: Table, ask: Ask) -> AppendedBlock:
    """``Table.append``, with chunks of two rows."""
    options = WriteOptions(
        job=ask.write.job,
        resume=ask.resume,
        publish=ask.style is not Style.UNPUBLISHED,
        message="by hand" if ask.style is Style.MESSAGE else "",
        buffer_bytes=BUFFER_BYTES,
    )
    with Writer(table.bucket, table.world, table.log_or_none, table.definition, options) as writer:
        for batch in batches_of(ask.write, table.definition.schema):
            writer.write(batch)
    return writer.finish()


WRITER = Role(name="writer", act=write, count=2, kinds=APPENDED)
LAPTOP = Role(name="laptop", act=write, count=3, sleep=0.3, share=0.9, kinds=APPENDED)
GROUP = Role(name="group", act=write, threads=3, kinds=APPENDED)
TWIN = Role(name="twin", act=write_twice, count=2, sleep=0.1, kinds=(Kind.INDEXED, Kind.WITH_IDS))

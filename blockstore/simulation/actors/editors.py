"""Processes that change what is there: overwrite, delete, revert, restore."""

from __future__ import annotations

from collections.abc import Callable

from blockstore.index.entry import Operation
from blockstore.simulation.actors.doors import open_table
from blockstore.simulation.actors.intents import carry_out, history_of
from blockstore.simulation.ground import Kind
from blockstore.simulation.process import Process, Role
from blockstore.simulation.replaced_history import is_replaced
from blockstore.simulation.rows import batches_of
from blockstore.table import Table


def edit(process: Process, thread: int) -> None:
    """One life of an editor."""
    kinds: list[Callable[[Process, Table], None]] = [_overwrite, _delete, _revert, _restore]
    while not process.finishing:
        process.draw.choice(kinds)(process, open_table(process))
        process.rest(till_morning=process.draw.chance(0.4))


def _overwrite(process: Process, table: Table) -> None:
    ledger, now = process.stage.ledger, process.stage.scheduler.now_ms
    new = ledger.write(now)
    kind = process.draw.unit()
    key = process.draw.integer(0, 9) if kind < 0.5 else None
    only = process.draw.integer(0, new.number - 1) if 0.5 <= kind < 0.9 and new.number else None
    read = _read(process)
    intent = ledger.intend(Operation.OVERWRITE, now, write=new, key=key, only=only, read=read)
    conditions = [f"key = {key}"] * (key is not None) + [f"write = {only}"] * (only is not None)
    where = f"{conditions[0]} or write = {new.number}" if conditions else None
    isolation = _isolation(process)

    def act() -> int | None:
        rows = batches_of(new, table.definition.schema)
        return table.overwrite(
            rows, where=where, isolation=isolation, read_version=read, message=intent.message
        ).version

    carry_out(process, intent, act)


def _delete(process: Process, table: Table) -> None:
    key = process.draw.integer(0, 9)
    read = _read(process)
    intent = process.stage.ledger.intend(
        Operation.DELETE, process.stage.scheduler.now_ms, key=key, read=read
    )
    where, isolation = f"key = {key}", _isolation(process)

    def act() -> int | None:
        return table.delete(
            where, isolation=isolation, read_version=read, message=intent.message
        ).version

    carry_out(process, intent, act)


def _revert(process: Process, table: Table) -> None:
    sources = sorted(process.stage.judge.directories.write_of)
    if not sources:
        return
    chosen = tuple(
        sorted({process.draw.choice(sources) for _ in range(process.draw.integer(1, 2))})
    )
    intent = process.stage.ledger.intend(
        Operation.REVERT, process.stage.scheduler.now_ms, sources=chosen
    )
    carry_out(process, intent, lambda: table.revert(*chosen, message=intent.message).version)


def _restore(process: Process, table: Table) -> None:
    history = history_of(process)
    version = process.draw.integer(max(1, history.boundary - 1), history.latest.state.version)
    if history.kept and process.draw.chance(0.3):
        version = process.draw.choice(sorted(history.kept.values()))
    intent = process.stage.ledger.intend(
        Operation.RESTORE, process.stage.scheduler.now_ms, version=version
    )
    carry_out(
        process, intent, lambda: table.restore(version=version, message=intent.message).version
    )


def _read(process: Process) -> int | None:
    """Whether the caller names a version that was read before, and which: one of the last few. Not
    where histories are replaced: there the number alone does not say which version was read."""
    if is_replaced(process.stage.seed) or not process.draw.chance(0.3):
        return None
    history = history_of(process)
    latest = history.latest.state.version
    return process.draw.integer(max(1, history.boundary + 1, latest - 5), latest)


def _isolation(process: Process) -> str | None:
    """What appends in between mean: what the table says, or a conflict."""
    return process.draw.choice([None, "serializable"])


EDITOR = Role(name="editor", act=edit, count=2, sleep=0.2, share=1.0, kinds=(Kind.INDEXED,))

"""Processes that change what is there: overwrite, delete, revert, restore; and those that tag, mark
and alter.

Each operation opens the books first and carries its name there as its message, so that the oracle
knows what an entry was meant to do. A refusal is certain: an entry that turns up later breaks a
promise.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.errors import (
    BlockstoreError,
    Conflict,
    Corrupt,
    Indeterminate,
    Invalid,
    NotFound,
    Unavailable,
    VersionExpired,
)
from blockstore.index.entry import Operation
from blockstore.simulation.actors.doors import met, open_table
from blockstore.simulation.ground import Kind
from blockstore.simulation.ledger import Fate, Intent
from blockstore.simulation.oracle.history import History
from blockstore.simulation.process import Process, Role
from blockstore.simulation.replaced_history import is_replaced
from blockstore.simulation.rows import batches_of
from blockstore.simulation.violation import Violation
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

    _carry_out(process, intent, act)


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

    _carry_out(process, intent, act)


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
    _carry_out(process, intent, lambda: table.revert(*chosen, message=intent.message).version)


def _restore(process: Process, table: Table) -> None:
    history = _history(process)
    version = process.draw.integer(max(1, history.boundary - 1), history.latest.state.version)
    if history.kept and process.draw.chance(0.3):
        version = process.draw.choice(sorted(history.kept.values()))
    intent = process.stage.ledger.intend(
        Operation.RESTORE, process.stage.scheduler.now_ms, version=version
    )
    _carry_out(
        process, intent, lambda: table.restore(version=version, message=intent.message).version
    )


def _read(process: Process) -> int | None:
    """Whether the caller names a version that was read before, and which: one of the last few. Not
    where histories are replaced: there the number alone does not say which version was read."""
    if is_replaced(process.stage.seed) or not process.draw.chance(0.3):
        return None
    history = _history(process)
    latest = history.latest.state.version
    return process.draw.integer(max(1, history.boundary + 1, latest - 5), latest)


def _isolation(process: Process) -> str | None:
    """What appends in between mean: what the table says, or a conflict."""
    return process.draw.choice([None, "serializable"])


def _carry_out(process: Process, intent: Intent, act: Callable[[], int | None]) -> None:
    """Do it once; what the caller gets goes into the books and is compared with the truth."""
    stage = process.stage
    waiting = frozenset(stage.judge.waiting)
    stage.note(process.name, f"begins {intent}")
    try:
        version = act()
    except (Indeterminate, Corrupt) as error:
        met(process, error)
    except (Conflict, Invalid, NotFound, Unavailable) as error:
        met(process, error)
        _refused(process, intent, error)
    else:
        stage.note(process.name, f"{intent.message} is version {version}")
        _check_answer(process, intent, version, waiting)


def _refused(process: Process, intent: Intent, error: BlockstoreError) -> None:
    if process.struck:
        # A copy of its entry may be on its way, and fit the history that is there now.
        return
    if intent.versions:
        raise Violation(
            f"{intent.message} ({intent.operation}) was refused, and is version "
            f"{intent.versions[0]}: {error}"
        )
    intent.fate = Fate.REFUSED
    if intent.write is not None:
        process.stage.judge.refuse(intent.write, error)
    if isinstance(error, VersionExpired):
        _check_expired(process, intent)


def _check_expired(process: Process, intent: Intent) -> None:
    history = _history(process)
    if intent.version is not None and intent.version > history.boundary:
        raise Violation(
            f"version {intent.version} was called expired, the boundary is {history.boundary}"
        )


def _check_answer(
    process: Process, intent: Intent, version: int | None, waiting: frozenset[int]
) -> None:
    if process.struck:
        _check_crossing(process, intent, version)
        return
    intent.fate = Fate.ACKNOWLEDGED
    if version is not None and intent.versions != [version]:
        raise Violation(
            f"{intent.message} was returned as version {version}, and is {intent.versions}"
        )
    if version is None and intent.versions:
        raise Violation(
            f"{intent.message} was returned as nothing to do, and is version {intent.versions[0]}"
        )
    judge = process.stage.judge
    meaning = _history(process).meaning
    if intent.operation in (Operation.DELETE, Operation.OVERWRITE) and intent.read is None:
        missed = sorted(one for one in waiting & judge.waiting if meaning.matching(one, intent))
        if missed:
            raise Violation(
                f"{intent.message} ({intent.operation}) has returned, and write {missed[0]} was "
                "not looked at"
            )
    if intent.write is not None and version is not None:
        judge.acknowledge_rows(intent.write, process.stage.era)


def _check_crossing(process: Process, intent: Intent, version: int | None) -> None:
    """Answered, and the history was replaced meanwhile: it is in the one that is there, or was in
    one that ended since."""
    ended = process.stage.judge.replaced[process.begun[0] :]
    became = [intent.versions, *(list(one.intents.get(intent.message, ())) for one in ended)]
    if version is not None and [version] not in became:
        raise Violation(
            f"{intent.message} was returned as version {version}, and no history has it: {became}"
        )


def _history(process: Process) -> History:
    history = process.stage.judge.history
    assert history is not None, "only a table with an index is edited"
    return history


EDITOR = Role(name="editor", act=edit, count=2, sleep=0.2, share=1.0, kinds=(Kind.INDEXED,))

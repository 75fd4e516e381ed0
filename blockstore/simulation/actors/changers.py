"""Processes that change rows which have an identity: insert, upsert, update, delete, set cells, put
rows with the versions that were read, merge, overwrite, revert, restore.

What a process knows of rows is what it read some versions ago, so that some of what it expects is
no longer so. Some operations are jobs: they are tried again, in the next life too, until they have
a result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import RowConflict
from blockstore.format.block import Job
from blockstore.format.identity import ROW_ID, VERSION
from blockstore.simulation.actors.conflicts import answered
from blockstore.simulation.actors.doors import open_table
from blockstore.simulation.actors.intents import carry_out, history_of, versions_of
from blockstore.simulation.changes import (
    Counted,
    Delete,
    DeleteRows,
    Insert,
    Merge,
    Overwrite,
    PutRows,
    Restore,
    Revert,
    RowOperation,
    SetCells,
    Update,
    Upsert,
    Where,
)
from blockstore.simulation.draw import Draw
from blockstore.simulation.ground import Kind
from blockstore.simulation.images import KEYS, Image, Row
from blockstore.simulation.ledger import Intent
from blockstore.simulation.process import Process, Role
from blockstore.simulation.report import Section
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.versions import batch_of
from blockstore.simulation.violation import Violation
from blockstore.table import Table

_RIVAL = "rival"
_GOES_ON = 0.85
"""How often the next operation follows at once."""
_BEHIND = 6
"""A process knows rows as they were up to so many versions ago."""


@dataclass(slots=True)
class _Ask:
    """An operation that is not settled."""

    intent: Intent
    life: int
    certain: bool = True


def change(process: Process, thread: int) -> None:
    """One life of a changer."""
    while True:
        table = open_table(process)
        ask = _pending(process)
        if ask is None:
            if process.finishing:
                return
            ask = process.notes["ask"] = _Ask(_new(process), process.life)
        if _settled(process, table, ask):
            del process.notes["ask"]
        if not process.draw.chance(_GOES_ON):
            process.rest(till_morning=process.draw.chance(0.5))


def _pending(process: Process) -> _Ask | None:
    """What the last life left behind, if its user can continue with it."""
    ask: _Ask | None = process.notes.get("ask")
    if ask is None or ask.life == process.life:
        return ask
    ask.life, ask.certain = process.life, False
    if ask.intent.job is not None:
        return ask
    del process.notes["ask"]
    return None


def _settled(process: Process, table: Table, ask: _Ask) -> bool:
    """Try once; whether the caller need not try again."""
    intent = ask.intent
    operation = intent.rows
    assert operation is not None, "an operation of a changer changes rows"
    answers: list[Any] = []
    first = history_of(process).latest.state.version

    def act() -> int | None:
        try:
            answers.append(_DO[type(operation)](table, operation, intent))
        except RowConflict as error:
            if not operation.reads and not process.struck:
                raise Violation(f"{operation} reads nothing, and was refused: {error}") from error
            kind = answered(operation, error)
            if kind is not None:
                process.stage.report.count(Section.CONFLICTS, kind)
            _check_conflict(process, error)
            raise
        version: int | None = answers[0].version
        return version

    certain = carry_out(process, intent, act, certain=ask.certain)
    if answers and certain and not process.struck:
        _check_counts(intent, answers[0])
        if answers[0].version is None:
            _check_nothing(process, operation, first)
    ask.certain = ask.certain and certain
    return certain or intent.job is None


def _check_conflict(process: Process, error: RowConflict) -> None:
    """Rows that an error names really had the version that it names, and not the expected one."""
    if process.struck or process.shared["reported"][0] < process.stage.era:
        return
    chains = versions_of(process).chains
    for one, expected, found in error.rows:
        assert isinstance(one, int), "an identity is a number"
        versions = {event.version for event in chains.get(one, ())}
        if found is not None and (found == expected or found not in versions):
            raise Violation(f"row {one} was never in version {found}: {error}")


def _check_counts(intent: Intent, answer: Any) -> None:
    """What the answer counts is what its entry did; nothing where there is none."""
    if getattr(answer, "already", False):
        return
    counted = intent.counted or Counted()
    names = ["inserted", "updated", "deleted"]
    if isinstance(intent.rows, Update | SetCells | PutRows) and intent.counted is not None:
        names.append("unchanged")
    for name in names:
        found = getattr(answer, name, None)
        if found is not None and found != getattr(counted, name):
            raise Violation(f"{intent.rows} was returned as {answer}, and did {counted}")


def _check_nothing(process: Process, operation: RowOperation, first: int) -> None:
    """Where an operation has changed nothing, there was a version, at some moment since it began,
    at which it had nothing to do."""
    history = history_of(process)
    since = [
        history.versions.get(number) for number in range(first, history.latest.state.version + 1)
    ]
    if None in since:
        return
    could = versions_of(process).could_be_nothing
    if not any(could(operation, one, history.versions) for one in since if one is not None):
        raise Violation(
            f"{operation} was returned as nothing to do, and had to change rows at each version "
            f"from {first} to {history.latest.state.version}"
        )
    process.stage.report.count(Section.EVENTS, "rows left as they were")


def _new(process: Process) -> Intent:
    stage, draw = process.stage, process.draw
    keyed = stage.kind is Kind.KEYED
    kinds = [_update, _update, _cells, _cells, _put, _delete, _delete_rows, _merge, _overwrite]
    kinds += [_revert, _restore]
    kinds += [_upsert, _upsert, _upsert, _insert] if keyed else []
    if _is_rival(process):
        kinds = [_cells, _put, _update, _update, _overwrite, _overwrite, _merge, _restore]
        kinds += [_insert, _insert, _insert, _upsert] if keyed else []
    operation = draw.choice(kinds)(process)
    job = None
    if not isinstance(operation, (Delete, Overwrite, Revert, Restore)) and draw.chance(0.5):
        batch = process.notes["batch"] = process.notes.get("batch", -1) + 1
        job = Job(process.name, batch)
    return stage.ledger.intend(
        operation.operation,
        stage.scheduler.now_ms,
        rows=operation,
        job=job,
        version=operation.version if isinstance(operation, Restore) else None,
    )


def _is_rival(process: Process) -> bool:
    return process.role.name.startswith(_RIVAL)


def _known(process: Process) -> Mapping[int, Row]:
    """The rows as the process knows them."""
    history = history_of(process)
    latest = history.latest.state.version
    behind = 0.7 if _is_rival(process) else 0.3
    version = latest - process.draw.integer(0, _BEHIND) if process.draw.chance(behind) else latest
    return history.versions.get(version, history.latest).rows


def _some(process: Process, rows: Collection[int], most: int = 4) -> list[int]:
    """Some of these rows."""
    wanted = process.draw.integer(1, most)
    return sorted(process.draw.shuffled(sorted(rows))[:wanted])


def _number(process: Process) -> int:
    """A number that no other operation writes."""
    number: int = process.stage.ledger.numbers
    process.stage.ledger.numbers += 1
    return -1 - number


def _images(process: Process, count: int, number: int) -> tuple[Image, ...]:
    """New rows of different keys."""
    draw, now = process.draw, process.stage.scheduler.now_ms
    at_ms = now - (draw.integer(0, 30 * HOUR_MS) if draw.chance(0.3) else 0)
    keys = draw.shuffled(range(KEYS))[:count]
    return tuple(
        Image(at_ms, number, row, key, _cell(draw)) for row, key in enumerate(sorted(keys))
    )


def _cell(draw: Draw) -> int:
    return draw.integer(0, 9)


def _where(process: Process) -> Where:
    draw = process.draw
    column = draw.choice(["key", "key", "key", "cell", "row"])
    return Where(column, draw.integer(0, {"key": KEYS - 1, "cell": 9, "row": 3}[column]))


def _upsert(process: Process) -> RowOperation:
    return Upsert(_images(process, process.draw.integer(1, 5), _number(process)))


def _insert(process: Process) -> RowOperation:
    images = _images(process, process.draw.integer(1, 3), _number(process))
    return Insert(images, ignores=process.draw.chance(0.5))


def _update(process: Process) -> RowOperation:
    return Update(_where(process), _cell(process.draw))


def _delete(process: Process) -> RowOperation:
    return Delete(_where(process))


def _delete_rows(process: Process) -> RowOperation:
    known = _known(process)
    if process.stage.kind is Kind.KEYED:
        keys = process.draw.shuffled(range(KEYS))[: process.draw.integer(1, 3)]
        return DeleteRows(tuple(sorted(keys)), keyed=True)
    given = versions_of(process).chains
    return DeleteRows(tuple(_some(process, known or given, 3)), keyed=False)


def _cells(process: Process) -> RowOperation:
    known, draw = _known(process), process.draw
    expects = draw.chance(0.5)
    return SetCells(
        tuple(
            (one, known[one].version if expects else None, _cell(draw))
            for one in _some(process, known)
        )
    )


def _put(process: Process) -> RowOperation:
    known, draw, number = _known(process), process.draw, _number(process)
    keyed = process.stage.kind is Kind.KEYED
    rows: list[tuple[int | None, int | None, Image]] = []
    for one in _some(process, known):
        row = known[one]
        image = (
            row.image if draw.chance(0.2) else row.image._replace(write=number, cell=_cell(draw))
        )
        rows.append((one, row.version if draw.chance(0.7) else None, image))
    taken = {one for one, _, _ in rows}
    for image in _images(process, draw.integer(0, 2), number):
        if not keyed:
            rows.append((None, None, image))
        elif image.key not in taken:
            rows.append((image.key, None, image))
    return PutRows(tuple(rows), keyed)


def _merge(process: Process) -> RowOperation:
    images = _images(process, process.draw.integer(1, 4), _number(process))
    return Merge(images, process.draw.integer(0, 4), process.stage.kind is Kind.KEYED)


def _overwrite(process: Process) -> RowOperation:
    where = Where(None) if process.draw.chance(0.1) else _where(process)
    images = _images(process, process.draw.integer(1, 3), _number(process))
    return Overwrite(where, images, process.stage.kind is Kind.KEYED)


def _revert(process: Process) -> RowOperation:
    history = history_of(process)
    latest = history.latest.state.version
    first = max(2, history.boundary - 1, latest - 12)
    count = process.draw.integer(1, 2)
    return Revert(frozenset(process.draw.integer(min(first, latest), latest) for _ in range(count)))


def _restore(process: Process) -> RowOperation:
    history = history_of(process)
    version = process.draw.integer(max(1, history.boundary - 1), history.latest.state.version)
    if history.kept and process.draw.chance(0.3):
        version = process.draw.choice(sorted(history.kept.values()))
    return Restore(version)


def _do_upsert(table: Table, operation: Upsert, intent: Intent) -> Any:
    rows = batch_of(operation.images, table.definition.schema)
    return table.upsert(rows, job=intent.job, message=intent.message)


def _do_insert(table: Table, operation: Insert, intent: Intent) -> Any:
    rows = batch_of(operation.images, table.definition.schema)
    on_conflict = "ignore" if operation.ignores else "fail"
    return table.insert(rows, on_conflict=on_conflict, job=intent.job, message=intent.message)


def _do_update(table: Table, operation: Update, intent: Intent) -> Any:
    return table.update(
        {"cell": operation.cell}, operation.where.text, job=intent.job, message=intent.message
    )


def _do_delete(table: Table, operation: Delete, intent: Intent) -> Any:
    return table.delete(operation.where.text, message=intent.message)


def _do_delete_rows(table: Table, operation: DeleteRows, intent: Intent) -> Any:
    return table.delete_rows(operation.identities, job=intent.job, message=intent.message)


def _do_cells(table: Table, operation: SetCells, intent: Intent) -> Any:
    (name,) = _identity(table)
    rows = [
        {name: one, "cell": cell, **({} if expected is None else {VERSION: expected})}
        for one, expected, cell in operation.cells
    ]
    return table.set_cells(rows, job=intent.job, message=intent.message)


def _do_put(table: Table, operation: PutRows, intent: Intent) -> Any:
    rows = pa.Table.from_batches(
        [batch_of([image for _, _, image in operation.rows], table.definition.schema)]
    )
    versions = pa.array([expected for _, expected, _ in operation.rows], pa.int64())
    rows = rows.add_column(0, VERSION, versions)
    if not operation.keyed:
        ids = pa.array([one for one, _, _ in operation.rows], pa.int64())
        rows = rows.add_column(0, ROW_ID, ids)
    return table.put_rows(rows, job=intent.job, message=intent.message)


def _do_merge(table: Table, operation: Merge, intent: Intent) -> Any:
    source = pa.Table.from_batches([batch_of(operation.images, table.definition.schema)])
    low = pc.field("source.cell") < operation.low
    merge = table.merge(source, on="key", job=intent.job, message=intent.message)
    merge = merge.when_matched_delete(condition=low)
    merge = merge.when_matched_update({"cell": "source.cell"})
    return merge.when_not_matched_insert().execute()


def _do_overwrite(table: Table, operation: Overwrite, intent: Intent) -> Any:
    rows = batch_of(operation.images, table.definition.schema)
    return table.overwrite(rows, where=operation.text, message=intent.message)


def _do_revert(table: Table, operation: Revert, intent: Intent) -> Any:
    return table.revert(*sorted(operation.versions), message=intent.message)


def _do_restore(table: Table, operation: Restore, intent: Intent) -> Any:
    return table.restore(version=operation.version, message=intent.message)


_DO: Mapping[type[RowOperation], Callable[[Table, Any, Intent], Any]] = {
    Upsert: _do_upsert,
    Insert: _do_insert,
    Update: _do_update,
    Delete: _do_delete,
    DeleteRows: _do_delete_rows,
    SetCells: _do_cells,
    PutRows: _do_put,
    Merge: _do_merge,
    Overwrite: _do_overwrite,
    Revert: _do_revert,
    Restore: _do_restore,
}


def _identity(table: Table) -> tuple[str, ...]:
    identity = table.definition.identity
    assert identity is not None, "a changer changes rows that have an identity"
    return identity.columns


CHANGER = Role(
    name="changer", act=change, count=3, sleep=0.1, share=1.0, kinds=(Kind.WITH_IDS, Kind.KEYED)
)
RIVALS = tuple(
    Role(name=f"{_RIVAL}-{letter}", act=change, share=1.0, kinds=(Kind.WITH_IDS, Kind.KEYED))
    for letter in "abcdefghij"
)
"""Changers that meet: all of them play, and change few rows, as they were some versions ago."""

"""How actors open a table, how long they keep it, and how they report errors.

A process has a habit for the day on which the history is replaced: it keeps its handle until it
gets HistoryReplaced, and opens the table again, or it follows the table before each operation. A
handle raises it once, and not for nothing (``met``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from blockstore.errors import (
    BlockstoreError,
    BoundaryLost,
    Conflict,
    Corrupt,
    HistoryReplaced,
    Invalid,
    RowConflict,
    Unavailable,
)
from blockstore.index.change import Change, Committed
from blockstore.index.log import Log
from blockstore.operations.unindexed import Unindexed
from blockstore.rows.change import ChangeRows
from blockstore.simulation.actors.conflicts import at_commit
from blockstore.simulation.process import Process
from blockstore.simulation.report import Section
from blockstore.simulation.stage import Stage
from blockstore.simulation.violation import Violation
from blockstore.table import Table

A = TypeVar("A")

DISTURBED = (HistoryReplaced, Corrupt)
"""Errors that any process may get where the history is replaced."""


class Habit(StrEnum):
    """What a process does with its handle."""

    KEEPS = "keeps it until it gets HistoryReplaced"
    FOLLOWS = "follows the table before each operation"


def habit_of(process: Process) -> Habit:
    """That of this life."""
    if process.stage.replacements is None:
        return Habit.KEEPS
    habit = process.shared.get("habit") or process.draw.choice(list(Habit))
    return Habit(process.shared.setdefault("habit", habit))


def open_table(process: Process, *, discovery: str = "index") -> Table:
    """The table as this process holds it, at the beginning of an operation: one handle for all of
    its threads, opened until the store responds."""
    process.begin()
    held: Table | None = process.shared.get(discovery)
    if held is not None and habit_of(process) is Habit.FOLLOWS:
        log = held.log

        def follow() -> Log | None:
            # The boundary fell; a person has started the process again meanwhile.
            return log.follow() if process.shared.get(discovery) is held else None

        followed = until_answered(process, follow, disturbed=True)
        if followed is not log:
            if followed is not None:
                process.stage.report.count(Section.EVENTS, "followed into another history")
            if process.shared.get(discovery) is held:
                del process.shared[discovery]
            held = process.shared.get(discovery)
    if held is None:
        opened, era = until_answered(process, lambda: _open(process, discovery), disturbed=True)
        held = process.shared.setdefault(discovery, opened)
        if held is opened:
            # Whatever began while it was being opened has the earlier handle.
            process.shared["reported"] = era, process.stage.scheduler.steps
    assert isinstance(held, Table)
    return held


class _CountedLog(Log):
    """The index as its users have it; the results of its commits are counted."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.bucket, process.world)
        self._report = process.stage.report

    def commit(self, change: Change) -> Committed:
        try:
            committed = super().commit(change)
        except (Conflict, Invalid) as error:
            self._report.count(Section.REFUSALS, type(error).__name__)
            if isinstance(error, RowConflict) and isinstance(change, ChangeRows):
                kind = at_commit(change, self.state)
                if kind is not None:
                    self._report.count(Section.CONFLICTS, kind)
            raise
        for left in committed.left.values():
            self._report.count(Section.REFUSALS, f"block left out: {left}")
        return committed


def _open(process: Process, discovery: str) -> tuple[Table, int]:
    """A handle, and the era in which its opening began."""
    era = process.stage.era
    if process.stage.kind.has_index:
        log = _CountedLog(process)
        log.poll()
        return Table(process.bucket, process.world, log, discovery=discovery), era
    definition = process.stage.definition
    assert definition is not None
    return Table(process.bucket, process.world, Unindexed(definition, given=True)), era


def until_answered(process: Process, ask: Callable[[], A], *, disturbed: bool = False) -> A:
    """What ``ask`` returns, called again after every lost response; and, if ``disturbed``, after
    any error that a replaced history causes."""
    expected = (Unavailable, *DISTURBED) if disturbed else (Unavailable,)
    while True:
        try:
            return ask()
        except expected as error:
            met(process, error)
            process.rest()
            process.begin()


def met(process: Process, error: BlockstoreError) -> None:
    """Record an error that a caller was given."""
    stage = process.stage
    stage.report.count(Section.ERRORS, type(error).__name__)
    stage.note(process.name, f"gets {type(error).__name__}: {str(error)[:300]}")
    if isinstance(error, HistoryReplaced):
        _check_told(process, error)
        _drop(process)
    elif (
        isinstance(error, BoundaryLost)
        and process.shared.get("reported", (stage.era, 0))[0] < stage.era
    ):
        _drop(process)  # its boundary was further than that of the history that is there now
    elif isinstance(error, Corrupt) and not (
        process.struck or process.saw_strays or _has_late_tag(stage)
    ):
        raise Violation(f"{process.name} got {error!r}, and the table is intact") from error


def _has_late_tag(stage: Stage) -> bool:
    """Whether a tag pins a version that was collected before it came, and could not be removed yet:
    that stops cleaning."""
    history = stage.judge.history
    if history is None:
        return False
    return not all(
        history.is_pinned_whole(version) for version in history.latest.state.tags.values()
    )


def _drop(process: Process) -> None:
    """The process gives its handles up."""
    process.shared.pop("index", None)
    process.shared.pop("list", None)


def _check_told(process: Process, error: HistoryReplaced) -> None:
    """Once for each handle and each time that the history is replaced: to all who had begun
    something by then."""
    era = process.stage.era
    reported, step = process.shared["reported"]
    begun_era, begun_step = process.begun
    if reported == era and begun_era == era and begun_step > step:
        raise Violation(f"{process.name} got HistoryReplaced once more, or for nothing: {error}")
    if reported != era:
        process.shared["reported"] = (era, process.stage.scheduler.steps)

"""How actors come to a table, and how they tell of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from blockstore.errors import BlockstoreError, Conflict, Invalid, Unavailable
from blockstore.index.change import Change, Committed
from blockstore.index.log import Log
from blockstore.operations.unindexed import Unindexed
from blockstore.simulation.process import Process
from blockstore.simulation.report import Section
from blockstore.simulation.stage import Kind
from blockstore.table import Table

__all__ = ["met", "open_table", "until_answered"]

A = TypeVar("A")


def open_table(process: Process, *, discovery: str = "index") -> Table:
    """The table as this process holds it: one handle for all of its threads, opened until the store answers."""
    held = process.shared.get(discovery)
    if held is None:
        held = until_answered(process, lambda: _open(process, discovery))
        held = process.shared.setdefault(discovery, held)
    assert isinstance(held, Table)
    return held


class _CountedLog(Log):
    """The index as its users have it; what it answers to commits is counted."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.bucket, process.world)
        self._report = process.stage.report

    def commit(self, change: Change) -> Committed:
        try:
            committed = super().commit(change)
        except (Conflict, Invalid) as error:
            self._report.count(Section.REFUSALS, type(error).__name__)
            raise
        for left in committed.left.values():
            self._report.count(Section.REFUSALS, f"block left out: {left}")
        return committed


def _open(process: Process, discovery: str) -> Table:
    if process.stage.kind is Kind.INDEXED:
        log = _CountedLog(process)
        log.poll()
        return Table(process.bucket, process.world, log, discovery=discovery)
    definition = process.stage.definition
    assert definition is not None
    return Table(process.bucket, process.world, None, unindexed=Unindexed(definition, given=True))


def until_answered(process: Process, ask: Callable[[], A]) -> A:
    """What ``ask`` answers, asked again after every silence."""
    while True:
        try:
            return ask()
        except Unavailable as error:
            met(process, error)
            process.rest()


def met(process: Process, error: BlockstoreError) -> None:
    """Take note of an error that a caller was given."""
    stage = process.stage
    stage.report.count(Section.ERRORS, type(error).__name__)
    stage.note(process.name, f"is told {type(error).__name__}: {str(error)[:300]}")

"""Readers: by the index, by listing, and of the past; some keep a snapshot for hours and read it
then."""

from __future__ import annotations

from dataclasses import replace

from blockstore.errors import NotFound, Unavailable, VersionExpired
from blockstore.scan.view import TableSnapshot
from blockstore.simulation.actors.doors import (
    DISTURBED,
    Habit,
    habit_of,
    met,
    open_table,
    until_answered,
)
from blockstore.simulation.ground import WITH_INDEX, Kind
from blockstore.simulation.oracle.snapshots import Look, Snapshots
from blockstore.simulation.process import Process, Role
from blockstore.simulation.report import Section
from blockstore.simulation.rows import Masks
from blockstore.simulation.violation import Violation
from blockstore.table import Table


def read(process: Process, thread: int) -> None:
    """One life of a reader by the index."""
    _read(process, by_listing=False)


def read_by_listing(process: Process, thread: int) -> None:
    """One life of a reader that lists."""
    _read(process, by_listing=True)


def read_the_past(process: Process, thread: int) -> None:
    """One life of a reader of earlier versions."""
    judged = _judged(process)
    while not process.finishing:
        _travel(process, judged, open_table(process))
        process.rest(till_morning=process.draw.chance(0.3))


def _judged(process: Process) -> Snapshots:
    """What judges the snapshots of this life."""
    return Snapshots(
        process.stage, since=process.stage.era, follows=habit_of(process) is Habit.FOLLOWS
    )


def _read(process: Process, *, by_listing: bool) -> None:
    judged = _judged(process)
    while not process.finishing:
        before = judged.look()
        table = open_table(process, discovery="list" if by_listing else "index")
        # The first snapshot of a handle shows what was there before it was opened.
        opened = not by_listing and table.log.was_just_read
        look = replace(before, begun=process.begun[0]) if opened else judged.look(process.begun[0])
        try:
            snapshot = table.snapshot()
        except (Unavailable, *DISTURBED) as error:
            met(process, error)
        else:
            expected = judged.expected(snapshot, look, by_listing=by_listing)
            process.stage.report.count(
                Section.CHECKS, f"snapshots {'by listing' if by_listing else 'by the index'}"
            )
            if expected is not None and process.draw.chance(0.15):
                _read_later(process, judged, snapshot, look, expected)
        process.rest(till_morning=process.draw.chance(0.2))


def _travel(process: Process, judged: Snapshots, table: Table) -> None:
    stage = process.stage
    history = stage.judge.history
    assert history is not None
    look = judged.look(process.begun[0])
    version = process.draw.integer(max(1, history.boundary - 3), look.version + 1)
    kept = version > history.boundary or version in history.kept.values()
    try:
        snapshot = table.snapshot(version=version)
    except VersionExpired as error:
        met(process, error)
        wrong = version > history.boundary or (kept and version in history.kept.values())
        if wrong and not process.struck:
            raise Violation(
                f"version {version} was called expired, the boundary is {history.boundary}"
            ) from error
    except NotFound as error:
        met(process, error)
        if version <= look.version and not process.struck:
            raise Violation(
                f"version {version} was called unknown, and {look.version} is there"
            ) from error
    except (Unavailable, *DISTURBED) as error:
        met(process, error)
    else:
        expected = judged.expected(snapshot, look, by_listing=False, latest=False)
        stage.report.count(Section.CHECKS, "snapshots of the past")
        if kept and expected is not None and process.draw.chance(0.3):
            _read_later(process, judged, snapshot, look, expected)


def _read_later(
    process: Process, judged: Snapshots, snapshot: TableSnapshot, look: Look, expected: Masks
) -> None:
    """Read the rows of a snapshot, now or after some time: completely, as long as the table
    promises it."""
    stage = process.stage
    era, promised_ms = judged.era, stage.promised_ms
    if process.draw.chance(0.5):
        process.hold(process.draw.integer(0, promised_ms))
    try:
        rows = until_answered(process, lambda: snapshot.scan(columns=judged.columns).to_table())
    except Exception as error:
        if stage.era != era:
            stage.report.count(Section.EVENTS, "snapshot of a replaced history could not be read")
            return
        if stage.scheduler.now_ms - look.at_ms < promised_ms:
            raise Violation(
                f"a snapshot {promised_ms / 1000:.0f} s old at most could not be read: {error}"
            ) from error
        stage.report.count(Section.EVENTS, "snapshot read too late")
        return
    judged.check_rows(rows, expected)
    stage.report.count(Section.CHECKS, "snapshots read")


READER = Role(name="reader", act=read, count=2, kinds=WITH_INDEX)
LISTER = Role(name="lister", act=read_by_listing, count=2, kinds=(Kind.INDEXED, Kind.LISTED))
HISTORIAN = Role(name="historian", act=read_the_past, share=0.9, kinds=WITH_INDEX)

"""Readers of former versions of rows: each that is kept has an answer, and it is what was
written."""

from __future__ import annotations

from blockstore.errors import BlockstoreError, NotFound, ObjectMissing
from blockstore.format.identity import DELETED, VERSION
from blockstore.simulation.actors.doors import met, open_table
from blockstore.simulation.actors.intents import versions_of
from blockstore.simulation.ground import Kind
from blockstore.simulation.process import Process, Role
from blockstore.simulation.report import Section
from blockstore.simulation.versions import images_of
from blockstore.simulation.violation import Violation
from blockstore.table import Table

_MOST = 4


def fetch(process: Process, thread: int) -> None:
    """One life of a fetcher."""
    while not process.finishing:
        table = open_table(process)
        kept = sorted(versions_of(process).kept)
        began_ms = process.stage.scheduler.now_ms
        try:
            if kept and process.draw.chance(0.5):
                count = process.draw.integer(1, _MOST)
                _fetch(process, table, process.draw.shuffled(kept)[:count])
            elif kept:
                _look_back(process, table, process.draw.choice(kept)[0])
        except ObjectMissing as error:
            met(process, error)
            took_ms = process.stage.scheduler.now_ms - began_ms
            if took_ms < process.stage.promised_ms and not _is_of_another_history(process):
                raise Violation(f"versions of rows could not be read: {error}") from error
        except BlockstoreError as error:
            met(process, error)
        process.rest(till_morning=process.draw.chance(0.2))


def _fetch(process: Process, table: Table, pairs: list[tuple[int, int]]) -> None:
    table.poll()
    try:
        found = table.fetch(pairs)
    except ObjectMissing:
        raise
    except NotFound as error:
        met(process, error)
        if not _is_of_another_history(process) and set(pairs) <= versions_of(process).kept:
            raise Violation(f"{pairs} are kept, and could not be fetched: {error}") from error
        return
    if not _is_of_another_history(process):
        versions = found[VERSION].to_pylist()
        for pair, version, gone, image in zip(
            pairs, versions, found[DELETED].to_pylist(), images_of(found), strict=True
        ):
            _check(process, pair, version, None if gone else image)
        process.stage.report.count(Section.CHECKS, "versions fetched", len(pairs))


def _look_back(process: Process, table: Table, identity: int) -> None:
    table.poll()
    before = _kept(process, identity)
    found = table.row_history(identity)
    if _is_of_another_history(process):
        return
    versions = found[VERSION].to_pylist()
    missing = (before & _kept(process, identity)) - set(versions)
    if missing or versions != sorted(set(versions), reverse=True):
        raise Violation(f"the history of row {identity} is {versions}, and lacks {sorted(missing)}")
    for version, gone, image in zip(
        versions, found[DELETED].to_pylist(), images_of(found), strict=True
    ):
        _check(process, (identity, version), version, None if gone else image)
    process.stage.report.count(Section.CHECKS, "histories of rows")


def _is_of_another_history(process: Process) -> bool:
    """Whether the history was replaced since the handle was opened. As long as there is no next
    entry, the handle may continue with the version that it holds."""
    era: int = process.shared["reported"][0]
    return process.struck or era < process.stage.era


def _check(process: Process, pair: tuple[int, int], version: int, image: object) -> None:
    wanted = versions_of(process).image(*pair)
    if (version, image) != (pair[1], wanted):
        raise Violation(f"row {pair} was fetched as {version}: {image}, expected {wanted}")


def _kept(process: Process, identity: int) -> set[int]:
    return {version for one, version in versions_of(process).kept if one == identity}


FETCHER = Role(name="fetcher", act=fetch, kinds=(Kind.WITH_IDS, Kind.KEYED), share=0.9)

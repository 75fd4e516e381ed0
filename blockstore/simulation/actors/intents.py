"""How an actor carries out an operation that is in the books.

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
from blockstore.simulation.actors.doors import met
from blockstore.simulation.ledger import Fate, Intent
from blockstore.simulation.oracle.history import History
from blockstore.simulation.oracle.masks import matching
from blockstore.simulation.oracle.row_versions import VersionMeaning
from blockstore.simulation.process import Process
from blockstore.simulation.violation import Violation


def carry_out(
    process: Process, intent: Intent, act: Callable[[], int | None], *, certain: bool = True
) -> bool:
    """Do it once; what the caller gets goes into the books and is compared with the truth.

    ``certain``: no earlier attempt may have left anything behind. Returns whether the result is
    certain now.
    """
    stage = process.stage
    waiting = frozenset(stage.judge.waiting)
    stage.note(process.name, f"begins {intent}")
    try:
        version = act()
    except (Indeterminate, Corrupt) as error:
        met(process, error)
        return False
    except (Conflict, Invalid, NotFound, Unavailable) as error:
        met(process, error)
        if certain:
            _refused(process, intent, error)
    else:
        stage.note(process.name, f"{intent.message} is version {version}")
        _check_answer(process, intent, version, waiting)
    return True


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
    history = history_of(process)
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
    if version is not None and [version] not in (intent.versions, [intent.nothing]):
        raise Violation(
            f"{intent.message} was returned as version {version}, and is {intent.versions}"
        )
    if version is None and intent.versions:
        raise Violation(
            f"{intent.message} was returned as nothing to do, and is version {intent.versions[0]}"
        )
    judge = process.stage.judge
    replaces = intent.operation in (Operation.DELETE, Operation.OVERWRITE)
    if replaces and intent.read is None and intent.rows is None:
        ledger = process.stage.ledger
        missed = sorted(one for one in waiting & judge.waiting if matching(ledger, one, intent))
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


def history_of(process: Process) -> History:
    """The index as it really is."""
    history = process.stage.judge.history
    assert history is not None, "only a table with an index is edited"
    return history


def versions_of(process: Process) -> VersionMeaning:
    """What has happened to rows that have an identity."""
    meaning = history_of(process).meaning
    assert isinstance(meaning, VersionMeaning), "the rows of this table have no identity"
    return meaning

"""Which kind of conflict of rows a process met: by what it tried, and by what the table was then.

The first ones are judged at the commit, and plan an operation again; the others are what its
caller is given.
"""

from __future__ import annotations

from enum import StrEnum

from blockstore.errors import RowConflict
from blockstore.index.state import State
from blockstore.rows.change import ChangeRows
from blockstore.simulation.changes import Overwrite, RowOperation


class RowConflictKind(StrEnum):
    """Why a change of rows was refused."""

    TOUCHED = "a row that was read was changed"
    ANY = "a row that was read may have been changed"
    SEEN = "what a serializable operation has read may be otherwise"
    # What the caller is given:
    VERSION = "a row does not have the version that its caller expects"
    EXISTS = "a new row has the key of one that exists"
    OTHER = "an overwrite has the key of a row that it is not about"


def at_commit(change: ChangeRows, state: State) -> RowConflictKind | None:
    """The kind of a conflict with ``state``; None for one that is not about rows."""
    if state.definition != change.definition or change.read_version is None:
        return None
    touches = state.touches
    among = None if touches is None else touches.among(change.named.hashes, change.read_version)
    if among is None:
        return RowConflictKind.ANY
    return RowConflictKind.TOUCHED if len(among) else RowConflictKind.SEEN


def answered(operation: RowOperation, error: RowConflict) -> RowConflictKind | None:
    """The kind of a conflict that names rows; None for one that names none."""
    if not error.rows:
        return None
    if isinstance(operation, Overwrite):
        return RowConflictKind.OTHER
    expected = any(expected is not None for _, expected, _ in error.rows)
    return RowConflictKind.VERSION if expected else RowConflictKind.EXISTS

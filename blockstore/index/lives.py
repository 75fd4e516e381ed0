"""Whether a state is of a table that is there, and of the one that is there now.

``dropped.py`` says what a drop means.
"""

from __future__ import annotations

from datetime import UTC, datetime

from blockstore.errors import NotFound, TableDropped, VersionExpired
from blockstore.index.dropped import Dropped
from blockstore.index.state import State


def check_there(state: State, url: str = "") -> None:
    """Raise TableDropped if the table of this state is dropped."""
    if state.dropped is not None:
        raise TableDropped(_text(state.dropped, url))


def check_own(state: State, latest: State, url: str, dropped: bool = False) -> State:
    """Return a state of the table's past. Raises VersionExpired for one of a table that was dropped
    before this one was created; without ``dropped`` TableDropped for one in which the table was
    dropped."""
    if state.version < latest.created:
        raise VersionExpired(
            f"version {state.version} of {url} is of a table that was dropped; the oldest version "
            f"of the table that is there now is {latest.created}, in which it was created"
        )
    if not dropped:
        check_there(state, url)
    return state


def gone(dropped: Dropped, url: str) -> NotFound:
    """The error for a table that cannot be brought back any more."""
    return NotFound(
        f"the table at {url} was dropped in version {dropped.version} and cannot be brought back: "
        f"its blocks left it in version {dropped.cleared}, a delete_delay later; restore a copy, "
        "or create a new table"
    )


def _text(dropped: Dropped, url: str) -> str:
    moment = datetime.fromtimestamp(dropped.time_ms / 1000, UTC).isoformat(timespec="seconds")
    where = f" at {url}" if url else ""
    what = (
        "undrop it, or create a new one"
        if dropped.cleared is None
        else "create a new one; this one cannot be brought back any more"
    )
    return f"the table{where} was dropped at {moment} by version {dropped.version}: {what}"

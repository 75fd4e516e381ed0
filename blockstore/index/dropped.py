"""That a table was dropped, as a part of its state.

Rules:
- A drop removes no block: the state of a dropped table has all blocks and tags of the version
  before. So the table that is brought back is the one that was dropped, whatever was planned on it
  before.
- The compactor clears a dropped table once ``delete_delay`` has passed: one entry removes all
  blocks and tags, and they go as others that no version names. From then on it cannot be brought
  back.
- A table that is created where one was dropped continues its index: numbers of versions, row ids
  and field ids are never given twice. It forgets the blocks, the tags, the schemas and the batches
  of the table before, and versions before its own are not readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blockstore.errors import NotFound, TableDropped, VersionExpired
from blockstore.format.document import Document

if TYPE_CHECKING:
    from blockstore.index.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The entry that dropped the table."""

    version: int
    time_ms: int
    cleared: int | None = None
    """The version in which the blocks and tags left; None while the table can be brought back."""

    def to_json(self) -> dict[str, int]:
        """Return this as a checkpoint holds it."""
        cleared = {} if self.cleared is None else {"cleared": self.cleared}
        return {"version": self.version, "time": self.time_ms, **cleared}

    @classmethod
    def of(cls, rest: Document) -> Dropped | None:
        """Return what a checkpoint holds. Raises Corrupt."""
        if not rest.has("dropped"):
            return None
        found = rest.document("dropped")
        return cls(
            version=found.integer("version", low=2),
            time_ms=found.integer("time"),
            cleared=found.integer("cleared", low=3) if found.has("cleared") else None,
        )


def check_there(state: State, url: str = "") -> None:
    """Raise TableDropped if the table of this state is dropped."""
    if state.dropped is not None:
        raise TableDropped(_text(state.dropped, url))


def check_own(state: State, latest: State, url: str) -> State:
    """Return a state of the table's past. Raises VersionExpired for one of a table that was dropped
    before this one was created, TableDropped for one in which the table was dropped."""
    if state.version < latest.created:
        raise VersionExpired(
            f"version {state.version} of {url} is of a table that was dropped; the oldest version "
            f"of the table that is there now is {latest.created}, in which it was created"
        )
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

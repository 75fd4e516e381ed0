"""What must be left when all is over.

Promises:
- Every acknowledged write is in the table exactly once, or was replaced by an operation; nothing
  else is there that was refused. A cold reader sees exactly that.
- No debris: each directory belongs to a version that can be requested, and carries no deletion
  mark; no entry is at or below the boundary. What came too late for the index stays: a person
  decides.
"""

from __future__ import annotations

from blockstore.format.marks import MarkReason
from blockstore.lifecycle.cover import cover
from blockstore.names import INDEX, NO_COMPACT_MARK, parse_entry
from blockstore.operations.unindexed import Unindexed
from blockstore.simulation.oracle.directories import Directory
from blockstore.simulation.oracle.snapshots import Snapshots
from blockstore.simulation.stage import Stage
from blockstore.table import Table

_MANUAL = str(MarkReason.MANUAL)


def leftovers(stage: Stage) -> list[str]:
    """What is still to be cleaned, as clauses."""
    directories = stage.judge.directories
    left = [
        f"{directory.ulid} ({why})"
        for directory in directories.by_ulid.values()
        if not _is_late(stage, directory) and (why := _why_debris(stage, directory)) is not None
    ]
    history = stage.judge.history
    if history is not None:
        found = (parse_entry(info.key) for info in stage.store.list(INDEX, recursive=False))
        left += [
            f"entry {entry}" for entry in found if entry is not None and entry <= history.boundary
        ]
        left += [f"write {write} that no entry has named" for write in sorted(stage.judge.waiting)]
    return left


def check_end(stage: Stage) -> None:
    """Raise Violation unless a fresh process reads exactly what is right."""
    judged = Snapshots(stage, since=stage.era)
    ways = ["index"] if stage.kind.has_index else []
    ways += [] if stage.kind.has_identity else ["list"]
    for way in ways:
        table, look = outsider(stage, discovery=way), judged.look()
        snapshot = table.snapshot()
        expected = judged.expected(snapshot, look, by_listing=way == "list")
        assert expected is not None, "nothing is replaced any more"
        judged.check_rows(snapshot.scan(columns=judged.columns).to_table(), expected)


def outsider(stage: Stage, *, discovery: str = "index") -> Table:
    """The run's table, as a process that meets no fault opens it."""
    world = stage.world()
    if stage.judge.history is not None:
        return Table.open_bucket(stage.store, world, discovery=discovery)
    assert stage.definition is not None
    return Table(stage.store, world, Unindexed(stage.definition, given=True))


def quarantined(stage: Stage) -> list[str]:
    """The directories that contradict themselves: a meta.json that arrived after its chunks were
    removed; and blocks with the schema of a table that was replaced. Only a person may have them
    removed."""
    directories = stage.judge.directories.by_ulid.values()
    return [
        one.ulid
        for one in directories
        if one.meta is not None
        and (not one.complete or stage.judge.is_foreign(one))
        and not (one.is_marked and one.reason == _MANUAL)
    ]


def _is_late(stage: Stage, directory: Directory) -> bool:
    history = stage.judge.history
    return history is not None and history.latest.state.below_floor(directory.ulid)


def _why_debris(stage: Stage, directory: Directory) -> str | None:
    """Why the directory should be gone, or its mark; None if it is as it should be."""
    history = stage.judge.history
    if history is not None:
        if history.needed(directory.ulid) is None:
            return "named by no version that can be read"
        return f"marked {directory.reason}" if directory.is_marked else None
    if not directory.complete:
        return None if _waits_for_one_that_stays(stage, directory) else "never completed"
    metas = [
        one.meta
        for one in stage.judge.directories.by_ulid.values()
        if one.complete and one.meta is not None
    ]
    if all(meta.ulid != directory.ulid for meta in cover(metas).superseded):
        return f"marked {directory.reason}" if directory.is_marked else None
    return "superseded"


def _waits_for_one_that_stays(stage: Stage, directory: Directory) -> bool:
    """Whether what is left of a block goes after a block of the same write (R7) that a person keeps
    from merges, so that it stays."""
    return directory.meta is not None and any(
        NO_COMPACT_MARK in one.objects
        and one.complete
        and one.meta is not None
        and not set(one.meta.sources).isdisjoint(directory.meta.sources)
        for one in stage.judge.directories.by_ulid.values()
    )

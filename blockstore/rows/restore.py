"""``restore`` where rows have an identity: each row has the state again that it had at a version.

Rules (design 8.5):
- Blocks are never brought back: a merge under way may have dropped a tombstone that kept a row of
  them away. Rows whose version is not the one of then get a new version with their state of then,
  or a tombstone; others are not touched.
- It is an update: rows are read at one version, and where one of them was touched before the
  commit, all is planned again. Rows that others insert meanwhile stay, unless the table's isolation
  is ``serializable``: then all is planned again for them too.
- What was restored has new versions. So a second restore writes these rows again.
- Schema and properties stay the current ones, and rules of columns hold for rows that come back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.format.identity import VERSION
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.restore import target_of
from blockstore.operations.results import Restored
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.reading import by_stream, ids_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.rows.two_versions import (
    as_now,
    current_plan,
    pinned,
    rows_of,
    shown_elsewhere,
    without,
)
from blockstore.scan.plan import ScanPlan
from blockstore.scan.snapshot import Snapshot

_WHAT = "a restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """From one state to an earlier one."""

    back: ScanPlan
    """The rows that get their former state."""
    gone: ScanPlan
    """The rows that did not exist."""
    changed: int
    """How many of ``back`` exist now, in another version."""


def restore_rows(
    access: Access,
    said: Said,
    *,
    version: int | None = None,
    tag: str | None = None,
    as_of: object = None,
    dry_run: bool = False,
) -> Restored:
    """Give every row the state that it had at a version, named by its number, a tag, or a time.

    Raises:
        NotFound: The version never was.
        VersionExpired: It was collected, with the former versions of its rows.
        Invalid: Rows that come back do not fit the schema of now.
        RowConflict: Others change the same rows all the while.
    """
    target = target_of(access.log, version, tag, as_of)
    state = access.log.poll()
    as_now(target, state.definition)
    with pinned(access, state, [target] if not dry_run else []):
        if dry_run:
            return _restored(target, _counts(_difference(access, state, target)), dry_run=True)
        did = _commit(access, target, said)
        if did.already:
            return Restored(to=target.version, version=did.version, repeated=True)
        return _restored(target, did)


def _commit(access: Access, target: State, said: Said) -> RowsChanged:
    def write(state: State, changes: StreamChanges) -> RowsChanged:
        identity = identity_of(state.definition, _WHAT)
        found = _difference(access, state, target)
        if changes.seen is not None:
            changes.seen.everything()
        for stream, part in by_stream(found.back):
            for batch in rows_of(access, part):
                rows = batch.select(state.definition.schema.names)
                changes.put(stream, rows, ids_of(batch, identity))
        for stream, part in by_stream(found.gone):
            for batch in rows_of(access, part, identity.columns):
                changes.delete(stream, batch)
        return _counts(found)

    named = replace(said, parameters={**said.parameters, "version": target.version})
    return change_rows(access, Operation.RESTORE, write, named, reads=True)


def _difference(access: Access, state: State, target: State) -> _Difference:
    identity = identity_of(state.definition, _WHAT)
    now = current_plan(access, Snapshot.of(state))
    then = current_plan(access, as_now(target, state.definition))
    here, there = shown_elsewhere(now, then), shown_elsewhere(then, now)
    gone = without(access, here, there, identity.columns)
    back = without(access, there, here, (*identity.columns, VERSION))
    same = there.rows - back.rows
    return _Difference(back=back, gone=gone, changed=here.rows - gone.rows - same)


def _counts(found: _Difference) -> RowsChanged:
    return RowsChanged(
        operation=str(Operation.RESTORE),
        inserted=found.back.rows - found.changed,
        updated=found.changed,
        deleted=found.gone.rows,
    )


def _restored(target: State, did: RowsChanged, *, dry_run: bool = False) -> Restored:
    back, gone = did.inserted or 0, did.deleted or 0
    return Restored(
        to=target.version,
        version=did.version,
        dry_run=dry_run,
        rows=back - gone,
        rows_back=back,
        rows_changed=did.updated or 0,
        rows_gone=gone,
    )

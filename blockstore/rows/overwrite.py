"""``overwrite`` where rows have an identity: new rows in the place of all rows, or of those that
meet a condition, as one version.

Rules:
- No block is removed: the rows that go get tombstones, by the same entry as the new rows. So former
  versions stay, the overwrite can be reverted, and merges go on. An overwrite of a large table
  writes a tombstone for each of its rows, which merges drop.
- Rows of all streams go. The new rows have the labels that the caller names, or the table's own.
- On a table with a key, a new row replaces the row of its key and its labels. With a condition, a
  key that a row has which does not meet it is a conflict: that row was not to be replaced.
- On a table with row ids all new rows get new ids; ``put_rows`` replaces rows by their ids.
- It is an update: rows are read at one version, and all is planned again where one of them was
  touched before the commit. Rows that others insert meanwhile stay; where its isolation is
  ``serializable``, all is planned again for those that could meet the condition.
- The identities of the new rows are held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.identity import Identity, Key
from blockstore.format.value_text import plain_keys, row_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import quoted
from blockstore.operations.new_rows import Judge
from blockstore.operations.results import Changed
from blockstore.predicate import Condition, parse
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.reading import current_rows, range_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import Changes, NoChanges, StreamChanges, stream_of
from blockstore.rows.two_versions import identity_values
from blockstore.rows.update import see_where
from blockstore.scan.snapshot import Snapshot

_WHAT = "an overwrite"
_SHOWN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Did:
    """What an overwrite means on one state."""

    added: int
    replaced: int
    """Rows of which a new row has the key."""
    deleted: int


def overwrite_rows(
    access: Access, data: Any, where: Condition, said: Said, *, dry_run: bool = False
) -> Changed:
    """Replace the current rows for which ``where`` is true, or all, by ``data``.

    Raises:
        Invalid: Rows do not fit or do not meet the condition.
        RowConflict: A new row has the key of a row that does not meet the condition; or others
            change the same rows all the while. Nothing is applied.
    """
    rows = Again(data)
    last: list[_Did] = []

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        did = _replace(access, state, rows, where, changes.own, changes)
        last[:] = [did]
        return RowsChanged(
            operation=str(Operation.OVERWRITE),
            inserted=did.added - did.replaced,
            updated=did.replaced,
            deleted=did.deleted,
        )

    if dry_run:
        state = access.log.poll()
        own = stream_of(state.definition, said.labels)
        did = _replace(access, state, rows, where, own, NoChanges())
        return _changed(did, dry_run=True)
    parameters = {} if where is None else {"where": quoted(where)}
    named = replace(said, parameters=parameters)
    done = change_rows(access, Operation.OVERWRITE, write, named, reads=True)
    if done.already:
        return Changed(operation=done.operation, version=done.version, already=True)
    return _changed(last[0], done)


def _replace(
    access: Access,
    state: State,
    rows: Again,
    where: Condition,
    own: StreamKey,
    sink: Changes,
) -> _Did:
    definition = state.definition
    identity = identity_of(definition, _WHAT)
    predicate = parse(where, Snapshot.of(state).columns.all)
    judge = Judge(definition, dict(own.labels), predicate, quoted(where) or "true")
    fresh: list[pa.Array] = []
    for batch in judge.take(iter(rows)):
        sink.put(own, batch)
        if isinstance(identity, Key):
            fresh.append(identity_values(batch, identity))
    new = pa.concat_arrays(fresh) if fresh else None
    replaced: list[pa.Array] = []
    deleted = 0
    see_where(state, sink, predicate)
    for stream, batch in current_rows(access, state, where, columns=identity.columns):
        if new is not None and stream == own:
            values = identity_values(batch, identity)
            again = pc.is_in(values, value_set=new)
            replaced.append(values.filter(again))
            batch = batch.filter(pc.invert(again))
        sink.delete(stream, batch)
        deleted += batch.num_rows
    if new is not None and where is not None:
        there = pa.concat_arrays([new[:0], *replaced])
        _refuse_others(access, state, identity, own, new, there)
    return _Did(added=judge.rows, replaced=sum(map(len, replaced)), deleted=deleted)


def _refuse_others(
    access: Access,
    state: State,
    identity: Identity,
    own: StreamKey,
    new: pa.Array,
    replaced: pa.Array,
) -> None:
    """Raise RowConflict if new rows have keys of rows that are not to be replaced."""
    among = range_of(Snapshot.of(state), identity.columns, new)
    others: list[tuple[object, object, object]] = []
    for _, batch in current_rows(access, state, among, own, identity.columns):
        values = identity_values(batch, identity)
        other = pc.and_not(pc.is_in(values, value_set=new), pc.is_in(values, value_set=replaced))
        for key in plain_keys(batch.filter(other).slice(0, _SHOWN - len(others))):
            others.append((key[0] if len(key) == 1 else key, None, None))
    if others:
        raise RowConflict(
            f"key {row_text(others[0][0])} of the new rows, and perhaps more of them, is that of a "
            "row for which the condition is not true, and which would be replaced as well: widen "
            "the condition, or leave these rows out; nothing was applied",
            rows=others,
        )


def _changed(did: _Did, done: RowsChanged | None = None, *, dry_run: bool = False) -> Changed:
    return Changed(
        operation=str(Operation.OVERWRITE),
        version=None if done is None else done.version,
        dry_run=dry_run,
        added=() if done is None else done.blocks,
        rows_added=did.added,
        rows_removed=did.deleted + did.replaced,
    )


def refuse_read_version(what: str, read_version: int | None) -> None:
    """Raise Invalid for a version to begin at, which only a replacement of whole blocks takes."""
    if read_version is not None:
        raise Invalid(
            f"{what} where rows have an identity takes no read_version: it is planned again where "
            "its rows were changed; to fail instead, use put_rows with the versions that were read"
        )

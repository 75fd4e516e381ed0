"""Inserts with a key, and upserts.

Rules:
- An upsert reads nothing and never conflicts: each row replaces the one of its key, if there is
  one.
- An insert with a key looks whether the keys exist, for some hundred thousand rows at once. It is
  planned again if one of them was touched meanwhile; so of two inserts of a key one comes first,
  and the other finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.format.identity import Key
from blockstore.format.value_text import plain_keys, row_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.labelled import gathered, streams_of
from blockstore.rows.last import last_of_each
from blockstore.rows.reading import rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.rows.twice import finding_twice
from blockstore.scan.identities import identities

FAIL, IGNORE = "fail", "ignore"
_AT_ONCE = 500_000
_HELD_BYTES = 64 << 20
"""So many rows, or rows of so many bytes, are looked up in the table at once."""
_REMEDY = 'use upsert to replace them, or on_conflict="ignore" to leave them'


def upsert(
    access: Access,
    data: Any,
    said: Said,
    *,
    duplicates: str = "fail",
    sequence_by: str | None = None,
) -> RowsChanged:
    """Make each row the current one of its key, as one version. Raises Invalid for rows that do not
    fit, and for a key that occurs twice unless ``duplicates`` or ``sequence_by`` says which of its
    rows counts."""
    identity = identity_of(access.log.state.definition, "an upsert")
    if not isinstance(identity, Key):
        raise Invalid(
            "an upsert finds rows by their key, and this table has row ids: append new rows, and "
            "change rows with update, put_rows or merge"
        )
    rows = Again(data)
    if duplicates not in ("fail", "last"):
        raise Invalid(f'duplicates is {duplicates!r}, expected "fail" or "last"')
    alone = duplicates == "fail" and sequence_by is None

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        now = identity_of(state.definition, "an upsert")
        assert isinstance(now, Key), "a table's kind of identity is for life"
        counting = rows if alone else last_of_each(rows, now, state, changes.own, sequence_by)
        for stream, batch in streams_of(counting, state, changes.own):
            changes.put(stream, batch)
        nothing = not changes.rows
        return RowsChanged(
            operation=str(Operation.UPSERT),
            inserted=0 if nothing else None,
            updated=0 if nothing else None,
        )

    with finding_twice(rows, access):
        return change_rows(access, Operation.UPSERT, write, said, reads=False)


def insert(access: Access, data: Any, said: Said, *, on_conflict: str = FAIL) -> RowsChanged:
    """Insert rows whose keys do not exist, as one version.

    Args:
        access: A table with a key.
        data: The rows.
        said: What the caller says of it.
        on_conflict: What to do with a row whose key exists: ``"fail"`` applies nothing,
            ``"ignore"`` leaves the row out.

    Raises:
        RowConflict: Keys exist; ``rows`` lists them.
    """
    identity = identity_of(access.log.state.definition, "an insert")
    if on_conflict not in (FAIL, IGNORE):
        raise Invalid(f'on_conflict is {on_conflict!r}, expected "fail" or "ignore"')
    if not isinstance(identity, Key):
        raise Invalid(
            "an insert looks whether keys exist, and this table has row ids: append new rows"
        )
    rows = Again(data)

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        unchanged = 0
        names = identity_of(state.definition, "an insert").columns
        given = _cast(streams_of(rows, state, changes.own), state.definition)
        for stream, batch in gathered(given, most_rows=_AT_ONCE, most_bytes=_HELD_BYTES):
            values = identities([batch.column(name) for name in names])
            there = rows_with(access, state, names, values, stream, columns=names).rows
            if len(there) and on_conflict == FAIL:
                raise _exists(there, names)
            if changes.seen is not None:
                changes.seen.rows(stream, [there[name].combine_chunks() for name in names])
            known = identities([there[name] for name in names])
            fresh = pc.invert(pc.is_in(values, value_set=known))
            unchanged += len(batch) - (pc.sum(fresh).as_py() or 0)
            changes.put(stream, batch.filter(fresh))
        return RowsChanged(
            operation=str(Operation.APPEND), inserted=changes.rows, unchanged=unchanged
        )

    with finding_twice(rows, access):
        return change_rows(access, Operation.APPEND, write, said, reads=True)


def _cast(
    rows: Iterable[tuple[StreamKey, pa.RecordBatch]], definition: Definition
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """The rows under the table's schema, so that their keys are compared as they will be stored."""
    taken = 0
    for stream, batch in rows:
        yield stream, cast_batch(batch, definition, first_row=taken)
        taken += len(batch)


def check_new(
    access: Access,
    state: State,
    rows: pa.RecordBatch,
    identity: Key,
    stream: StreamKey,
    *,
    remedy: str = _REMEDY,
) -> None:
    """Raise RowConflict if one of the keys exists; ``remedy`` ends what it says."""
    cast = cast_batch(rows, state.definition)
    values = identities([cast.column(name) for name in identity.columns])
    names = identity.columns
    there = rows_with(access, state, names, values, stream, columns=names).rows
    if len(there):
        raise _exists(there, names, remedy)


def _exists(there: pa.Table, columns: tuple[str, ...], remedy: str = _REMEDY) -> RowConflict:
    keys = plain_keys(there.select(list(columns)).slice(0, 1_000))
    shown = ", ".join(row_text(key) for key in keys[:3])
    return RowConflict(
        f"{len(there):,} of the keys exist already ({shown}{', …' if len(there) > 3 else ''}), and "
        f"an insert brings new ones: {remedy}",
        rows=[(key[0] if len(key) == 1 else key, None, None) for key in keys],
    )

"""Inserts with a key, and upserts.

Rules:
- An upsert reads nothing and never conflicts: each row replaces the one of its key, if there is
  one.
- An insert with a key looks whether the keys exist, and is planned again if one of them was touched
  meanwhile; so of two inserts of a key one comes first, and the other finds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.identity import Key
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.block import ChangesWriter
from blockstore.rows.reading import rows_with
from blockstore.rows.results import RowsChanged
from blockstore.scan.identities import identities

FAIL, IGNORE = "fail", "ignore"


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
    if duplicates == "last" or sequence_by is not None:
        rows = Again(_last_of_each(pa.Table.from_batches(rows.all()), identity, sequence_by))

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        for batch in rows:
            writer.put(batch)
        nothing = not writer.rows
        return RowsChanged(
            operation=str(Operation.UPSERT),
            inserted=0 if nothing else None,
            updated=0 if nothing else None,
        )

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

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        unchanged = 0
        for batch in rows:
            values = identities([batch.column(name) for name in identity.columns])
            there = rows_with(access, state, identity.columns, values, writer.stream)
            if len(there) and on_conflict == FAIL:
                raise _exists(there, identity.columns)
            if len(there):
                known = identities([there[name] for name in identity.columns])
                fresh = pc.invert(pc.is_in(values, value_set=known))
                unchanged += len(batch) - pc.sum(fresh).as_py()
                batch = batch.filter(fresh)
            writer.put(batch)
        return RowsChanged(
            operation=str(Operation.APPEND), inserted=writer.rows, unchanged=unchanged
        )

    return change_rows(access, Operation.APPEND, write, said, reads=True)


def check_new(
    access: Access, state: State, rows: pa.RecordBatch, identity: Key, stream: StreamKey
) -> None:
    """Raise RowConflict if one of the keys exists."""
    values = identities([rows.column(name) for name in identity.columns])
    there = rows_with(access, state, identity.columns, values, stream)
    if len(there):
        raise _exists(there, identity.columns)


def _last_of_each(rows: pa.Table, identity: Key, sequence_by: str | None) -> list[pa.RecordBatch]:
    if sequence_by is not None:
        if sequence_by not in rows.schema.names:
            raise Invalid(
                f"sequence_by names {sequence_by!r}, which the rows do not have: "
                f"{', '.join(rows.schema.names)}"
            )
        order = pc.sort_indices(rows, [(sequence_by, "ascending")], null_placement="at_start")
        rows = rows.take(order)
    codes = identities([rows[name] for name in identity.columns]).dictionary_encode().indices
    places = codes.to_numpy()
    last = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, places, np.arange(len(places)))
    batches: list[pa.RecordBatch] = rows.take(pa.array(np.sort(last))).to_batches()
    return batches


def _exists(there: pa.Table, columns: tuple[str, ...]) -> RowConflict:
    keys = [tuple(row.values()) for row in there.select(list(columns)).slice(0, 1_000).to_pylist()]
    shown = ", ".join(repr(key[0] if len(key) == 1 else key) for key in keys[:3])
    return RowConflict(
        f"{len(there):,} of the keys exist already ({shown}{', …' if len(there) > 3 else ''}), and "
        'an insert brings new ones: use upsert to replace them, or on_conflict="ignore" to leave '
        "them",
        rows=[(key[0] if len(key) == 1 else key, None, None) for key in keys],
    )

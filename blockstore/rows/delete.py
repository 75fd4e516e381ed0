"""Deletes of rows by their identities.

Rules:
- A key is not looked up: its tombstone is written whether there is such a row or not, nothing is
  read, and of two changes the later one wins. So a delete of millions of keys costs no read.
- Row ids are looked up where one delete names at most ten thousand: then those that no row has are
  passed over, be they of a row that was deleted or used up by an entry for something else (an entry
  of changes takes a number for each of its rows, and gives only new rows theirs). Read are only the
  ids, of the chunks that may have one: none for a block of new rows, whose ids follow from the
  index. More ids are not looked up, and then a row that was deleted gets another tombstone.
- Of the rows that are there the later of two changes wins, as without the look. A row that is
  passed over can only come back, by a revert or a restore: if it does so before the commit, the
  rows are looked up again, and the third time not at all. So a delete is before another change with
  all of its rows, or after it with all of them; and it is refused only where versions are named, or
  rows have several sets of labels.
- Ids of a table whose rows have several sets of labels are always looked up, since a tombstone is
  of the stream of its row.
- Where the caller names the version that it has read, the row is looked up and compared, and all is
  planned again if others touch it first. A row that is gone has another version than any.
- An id that is above all that were given is refused, or it would hide a row that comes later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.fields import RESERVED
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.format.value_text import plain_keys, row_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.incoming import table_of
from blockstore.rows.attempts import Said, change_rows, identity_of, refuse_labels
from blockstore.rows.labelled import by_labels, labels_of
from blockstore.rows.named import Named
from blockstore.rows.reading import column_like, rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.rows.twice import finding_twice, refuse_twice
from blockstore.scan.identities import identities

_WHAT = "a delete"
_LOOKED_UP = 10_000
"""So many row ids are looked up."""
_LOOKS = 2
"""So often a delete that reads nothing else looks its row ids up."""
_MOST_REFUSED = 1_000
_SHOWN = 3


def delete_rows(access: Access, rows: Any, said: Said) -> RowsChanged:
    """Delete rows by their identities, as one version.

    Args:
        access: A table whose rows have an identity.
        rows: Row ids, or the values of a key of one column, or a table with the columns of the
            identity, perhaps with ``_version``: the version that was read, or null.
        said: What the caller says of it.

    Rows that do not exist are passed over, unless a version is named. ``deleted`` counts the rows
    that were there, and is None where the rows were not looked up: keys without versions, and more
    than ten thousand row ids.

    Raises:
        Invalid: An id was never given, or a row is named twice.
        RowConflict: A row has another version than the one that was read; ``rows`` lists them. Or
            others change the rows all the while.
    """
    identity = identity_of(access.log.state.definition, _WHAT)
    refuse_labels(identity, said, _WHAT)
    by_id = isinstance(identity, RowIds)
    given = _Given(rows)

    def reads(state: State) -> bool:
        return given.is_strict(state) or (by_id and len(state.blocks.streams()) > 1)

    looks = itertools.count()

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        identity = identity_of(state.definition, _WHAT)
        keys, expected = given.keys(state)
        strict = given.is_strict(state)
        if not keys.num_rows:
            return RowsChanged(operation=str(Operation.DELETE))
        if by_id:
            _check_given(keys.column(0), state)
        few = by_id and len(keys) <= _LOOKED_UP
        looked_up = reads(state) or (few and next(looks) < _LOOKS)
        refused: list[tuple[object, object, object]] = []
        for stream, own, which in _by_stream(keys, identity, state, changes.own):
            if not looked_up:
                changes.delete(stream or next(iter(state.blocks.streams()), changes.own), own)
                continue
            wanted = expected if which is None or expected is None else expected.filter(which)
            look = _Look(access, state, identity, changes)
            refused += look.delete(own, wanted if strict else None, stream)
        if refused:
            raise _refusal(refused)
        return RowsChanged(
            operation=str(Operation.DELETE), deleted=changes.rows if looked_up else None
        )

    with finding_twice(given.batches(access), access):
        return change_rows(access, Operation.DELETE, write, said, reads=reads)


class _Given:
    """The rows that a caller names, by the names that a state gives the columns of the key."""

    def __init__(self, rows: Any) -> None:
        named = hasattr(rows, "schema") or hasattr(rows, "__arrow_c_stream__")
        self._rows = table_of(rows) if named else _listed(rows)
        self._keys: dict[tuple[str, ...], tuple[pa.RecordBatch, pa.Array | None]] = {}

    def keys(self, state: State) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The identities, and the versions that were read. Raises Invalid."""
        columns = identity_of(state.definition, _WHAT).columns
        if columns not in self._keys:
            self._keys[columns] = _keys(self._rows, columns, state.definition.schema)
        return self._keys[columns]

    def is_strict(self, state: State) -> bool:
        """Whether a version is named."""
        _, expected = self.keys(state)
        return expected is not None and expected.null_count < len(expected)

    def batches(self, access: Access) -> Iterator[pa.RecordBatch]:
        """The identities; made only if they are asked for."""
        yield self.keys(access.log.state)[0]


def _listed(rows: Any) -> list[Any]:
    """Rows that are named one by one. Raises Invalid for what would name others: the letters of a
    text, or the columns of a dict."""
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise Invalid(
            f"the rows to delete are {rows!r:.100}, expected a list of row ids or keys, or a table "
            "of them"
        )
    return list(rows)


def _by_stream(
    keys: pa.RecordBatch, identity: Identity, state: State, own: StreamKey
) -> Iterator[tuple[StreamKey | None, pa.RecordBatch, pa.Array | None]]:
    """Yield the keys by their streams, and which of all they are (None: all); ids are of any."""
    if isinstance(identity, RowIds):
        yield None, keys, None
        return
    labels = labels_of(state)
    _check_labels([name for name in keys.schema.names if name not in identity.columns], labels)
    yield from by_labels(keys, labels, own)


class _Look:
    """Looks rows up, and deletes those that are there."""

    def __init__(
        self, access: Access, state: State, identity: Identity, changes: StreamChanges
    ) -> None:
        self._access = access
        self._state = state
        self._identity = identity
        self._changes = changes

    def delete(
        self, keys: pa.RecordBatch, expected: pa.Array | None, stream: StreamKey | None
    ) -> list[tuple[object, object, object]]:
        """Delete the rows of these keys; return those that have another version than expected."""
        names = list(self._identity.columns)
        columns = [keys.column(name) for name in names]
        if self._changes.seen is not None:
            self._changes.seen.rows(stream or self._changes.own, columns)
        named = Named(self._identity, stream or self._changes.own)
        named.add(columns)
        refuse_twice(named, self._identity)
        values = identities(columns)
        read = names if expected is None else [*names, VERSION]
        found = rows_with(self._access, self._state, names, values, stream, columns=read)
        for one, which in found.each():
            for gone in found.rows.select(names).filter(which).combine_chunks().to_batches():
                self._changes.delete(one, gone)
        lost = pc.invert(pc.is_in(values, value_set=identities([found.rows[one] for one in names])))
        self._changes.leave(named.stream, [column.filter(lost) for column in columns])
        return [] if expected is None else self._others(keys, expected, found.rows)

    def _others(
        self, keys: pa.RecordBatch, expected: pa.Array, there: pa.Table
    ) -> list[tuple[object, object, object]]:
        """The rows that have another version than expected, with both."""
        names = self._identity.columns
        own = identities([there[name] for name in names])
        places = pc.index_in(identities([keys.column(name) for name in names]), value_set=own)
        found = there[VERSION].combine_chunks().take(places)
        differs = pc.fill_null(pc.not_equal(expected, found), True)
        bad = pc.and_(expected.is_valid(), differs)
        some = plain_keys(keys.select(list(names)).filter(bad))
        return [
            (row[0] if len(row) == 1 else row, wanted, now)
            for row, wanted, now in zip(
                some, expected.filter(bad).to_pylist(), found.filter(bad).to_pylist(), strict=True
            )
        ]


def _refusal(refused: list[tuple[object, object, object]]) -> RowConflict:
    shown = ", ".join(
        f"row {row_text(key)} was read at version {wanted} and "
        + ("is not in the table" if now is None else f"has version {now}")
        for key, wanted, now in refused[:_SHOWN]
    )
    more = ", …" if len(refused) > _SHOWN else ""
    return RowConflict(
        f"{len(refused):,} of the rows to delete were changed since they were read: {shown}{more}; "
        "nothing was applied, read them again",
        rows=refused[:_MOST_REFUSED],
    )


def _check_labels(said: list[str], labels: tuple[str, ...]) -> None:
    """Raise Invalid for a column that is no label: other rows than those meant would go."""
    strange = [name for name in said if name not in labels]
    if strange:
        raise Invalid(
            f"the rows to delete have the column {strange[0]!r}, which is neither a column nor a "
            "label of the table: drop it"
        )


def _check_given(ids: pa.Array, state: State) -> None:
    """Raise Invalid for an id that is above all that were given: it would hide a row that comes
    later."""
    bounds = pc.min_max(ids).as_py()
    if bounds["min"] < 0 or bounds["max"] >= state.next_row_id:
        strange = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise Invalid(
            f"row id {strange} was never given: the ids of the rows of this table are below "
            f"{state.next_row_id}, name one of these"
        )


def _key_like(values: Any, kind: pa.DataType, name: str) -> pa.Array:
    """Values of a key as Arrow's. Raises Invalid, also for floats that are rounded to decimals: a
    row that nobody named would go."""
    found = column_like(values, kind, name)
    if isinstance(values, pa.ChunkedArray) and pa.types.is_floating(values.type):
        same = pc.equal(found.cast(values.type), values.combine_chunks())
        if not pc.all(same).as_py():
            raise Invalid(f"the values of column {name!r} do not fit {kind}: round them first")
    return found


def _keys(
    rows: Any, columns: tuple[str, ...], schema: pa.Schema
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """The identities of rows, and where a key identifies them the columns that may be labels; and
    the versions that were read, if there are any."""
    said: list[str] = []
    expected: pa.Array | None = None
    kinds = [pa.int64() if name == ROW_ID else schema.field(name).type for name in columns]
    if isinstance(rows, pa.Table):
        table = rows
        missing = [name for name in columns if name not in table.schema.names]
        if missing and len(columns) == table.num_columns == 1:
            table, missing = table.rename_columns(list(columns)), []
        if missing:
            raise Invalid(f"the rows to delete lack {missing[0]!r}, which identifies a row: add it")
        given = [table[name] for name in columns]
        if VERSION in table.schema.names:
            expected = column_like(table[VERSION], pa.int64(), VERSION)
        if ROW_ID not in columns:
            known = {*schema.names, *RESERVED}
            said = [name for name in table.schema.names if name not in known]
    elif len(columns) == 1:
        given = [rows]
    else:
        listed = [tuple(key) for key in rows]
        if any(len(key) != len(columns) for key in listed):
            raise Invalid(f"a key of this table is ({', '.join(columns)}): give one value for each")
        given = [[key[place] for key in listed] for place in range(len(columns))]
    arrays = [
        _key_like(values, kind, name)
        for values, kind, name in zip(given, kinds, columns, strict=True)
    ]
    arrays += [column_like(table[name], pa.string(), name) for name in said]
    return pa.RecordBatch.from_arrays(arrays, names=[*columns, *said]), expected

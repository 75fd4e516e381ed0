"""The rows of a statement's SELECT become a change of a table whose rows have an identity.

This is the one place of the statements that writes blocks of changes; everything about them (what a
change is, when it conflicts, that it is whole or absent) is the business of ``blockstore.rows``.

Rules:
- Rows are read at the version on which the change is planned; after a conflict both are done again,
  so the counts and the rows of RETURNING are those of the attempt that was committed.
- A new key is looked up: a row that exists is never replaced by an INSERT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.cli.schema_text import type_name
from blockstore.errors import Invalid, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, Identity, Key, RowIds
from blockstore.format.value_text import row_text
from blockstore.format.years import YEARS, in_years
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.reader.statements.clauses import Act
from blockstore.reader.statements.images import FIXED, PREFIX, Selected
from blockstore.reader.statements.own_reads import EVERYTHING, Own
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.streams import Streams, those
from blockstore.rows.attempts import Said, change_rows
from blockstore.rows.reading import rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.scan.identities import identities
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

MOST_RETURNED = 64 << 20
"""So many bytes of rows RETURNING gives back at most; they are kept until the commit."""

_AT_ONCE = 500_000
_HELD_BYTES = 64 << 20
"""The keys of so many new rows, or of rows of so many bytes, are looked up at once."""

_COUNTED = {Act.INSERT: "inserted", Act.UPDATE: "updated", Act.DELETE: "deleted"}
_OTHER = "unchanged"

Read = Callable[[Selected, Mapping[str, TableSnapshot]], pa.RecordBatchReader]
"""Runs a SELECT of changes over a snapshot of its table; the query ends with the reader."""


Committing = Callable[[bool], None]
"""Learns whether a statement may still be interrupted: not while it is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What was committed, and the rows that RETURNING asked for."""

    rows: RowsChanged
    returned: pa.Table | None = None


def change(
    access: Access,
    table: str,
    operation: Operation,
    plan: Callable[[Shape], Selected],
    read: Read,
    said: Said,
    *,
    committing: Committing = lambda _: None,
    ignore: bool = False,
    reads: Own = EVERYTHING,
) -> Changed:
    """Carry out a statement as one version.

    Args:
        access: The table.
        table: Its name in SQL.
        operation: What the entry calls it.
        plan: Makes the SELECT, for a shape of the table.
        read: Runs it.
        said: What the caller says of it.
        committing: Called with True once all rows are computed, and with False if they are
            computed again.
        ignore: Whether new rows whose key exists are left out.
        reads: What it reads of the table.

    Raises:
        Invalid: The rows do not fit.
        RowConflict: Keys of new rows exist; or others change the same rows all the time.
    """
    returned: list[pa.Table | None] = [None]

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        committing(False)
        selected = plan(Shape.of(Snapshot.of(state)))
        did, returned[0] = written(
            access, table, operation, selected, read, state, changes, ignore=ignore, reads=reads
        )
        committing(True)
        return did

    done = change_rows(access, operation, write, said, reads=True)
    return Changed(rows=done, returned=None if done.already else returned[0])


def written(
    access: Access,
    table: str,
    operation: Operation,
    selected: Selected,
    read: Read,
    state: State,
    changes: StreamChanges,
    *,
    ignore: bool,
    reads: Own,
) -> tuple[RowsChanged, pa.Table | None]:
    """Write the changes of a statement on one state; return what they do, and the rows that
    RETURNING asked for. Raises as ``change``."""
    assert state.definition.identity is not None, "other tables are changed by blocks"
    taken = TableSnapshot(
        bucket=access.bucket,
        world=access.world,
        snapshot=Snapshot.of(state),
        reads=access.reads,
    )
    if changes.seen is not None:
        reads(changes.seen, taken.snapshot)
    reader = read(selected, {table: taken})
    taking = _Taking(access, state, changes, selected, reader.schema, ignore=ignore)
    for batch in reader:
        taking.take(batch)
    return taking.counted(operation), taking.returned()


def append(
    table: Table,
    name: str,
    selected: Selected,
    query: Callable[[str, Mapping[str, TableSnapshot]], pa.RecordBatchReader],
    own: TableSnapshot,
    others: Callable[[], Mapping[str, TableSnapshot]],
    said: Said,
    committing: Committing = lambda _: None,
) -> Changed:
    """Append the rows of an INSERT to a table without a key: an ordinary write, which never
    conflicts. ``own`` is what the statement reads of the table."""
    reader = query(selected.sql, {**others(), name: own})
    returned = Returned(selected, reader.schema)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            returned.take(batch)
            yield images(batch, selected, own.definition)
        committing(True)

    done = table.append(rows(), job=said.job, message=said.message)
    return Changed(
        rows=RowsChanged(
            operation=str(Operation.APPEND),
            version=done.version,
            blocks=() if done.ulid is None else (done.ulid,),
            already=done.already,
            inserted=done.rows,
        ),
        returned=None if done.already else returned.table(),
    )


class _Taking:
    """Takes the rows of the SELECT, batch by batch."""

    def __init__(
        self,
        access: Access,
        state: State,
        changes: StreamChanges,
        selected: Selected,
        schema: pa.Schema,
        *,
        ignore: bool,
    ) -> None:
        assert state.definition.identity is not None
        self._access = access
        self._state = state
        self._identity: Identity = state.definition.identity
        self._changes = changes
        self._selected = selected
        self._streams = Streams(state, selected, changes.own)
        self._ignore = ignore
        self._counts = Counter[str]()
        self._held: list[pa.RecordBatch] = []
        """New rows of a table with a key that are not written yet."""
        self._returned = Returned(selected, schema)

    def take(self, batch: pa.RecordBatch) -> None:
        """Write what one batch says."""
        did = batch.column(0)
        for number, act in enumerate(self._selected.acts, 1):
            chosen = pc.equal(did, number)
            rows = batch.filter(chosen)
            if not rows.num_rows:
                continue
            if act is Act.INSERT and isinstance(self._identity, Key):
                self._hold(rows)
                continue
            self._counts[_COUNTED.get(act, _OTHER)] += rows.num_rows
            if act in _COUNTED:
                self._write(act, rows)
                self._returned.take(rows)

    def _hold(self, rows: pa.RecordBatch) -> None:
        """Keep new rows until there are many: to look for their keys costs a look at the table."""
        self._held.append(rows)
        many = sum(map(len, self._held)) >= _AT_ONCE
        if many or sum(one.nbytes for one in self._held) >= _HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        if not self._held:
            return
        held, self._held = pa.Table.from_batches(self._held), []
        (rows,) = held.combine_chunks().to_batches()
        for stream, which in self._streams.new(rows):
            fresh = self._new(stream, those(rows, which))
            self._counts["inserted"] += len(fresh)
            self._put(stream, Act.INSERT, fresh)
            self._returned.take(fresh)

    def counted(self, operation: Operation) -> RowsChanged:
        """Write what is held, and return what all rows come to."""
        self._write_held()
        return RowsChanged(
            operation=str(operation),
            inserted=self._counts["inserted"],
            updated=self._counts["updated"],
            deleted=self._counts["deleted"],
            unchanged=self._counts[_OTHER],
        )

    def returned(self) -> pa.Table | None:
        """The rows that RETURNING asked for."""
        return self._returned.table()

    def _write(self, act: Act, rows: pa.RecordBatch) -> None:
        found = self._streams.new if act is Act.INSERT else self._streams.existing
        for stream, which in found(rows):
            self._put(stream, act, those(rows, which))

    def _put(self, stream: StreamKey, act: Act, rows: pa.RecordBatch) -> None:
        if act is Act.DELETE:
            self._changes.delete(stream, self._keys(rows))
            return
        ids = rows.column(1) if isinstance(self._identity, RowIds) and act is Act.UPDATE else None
        self._changes.put(stream, images(rows, self._selected, self._state.definition), ids)

    def _keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if isinstance(self._identity, RowIds):
            return pa.RecordBatch.from_arrays([rows.column(1)], names=[ROW_ID])
        own = images(rows, self._selected, self._state.definition)
        return own.select(list(self._identity.columns))

    def _new(self, stream: StreamKey, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a stream whose key does not exist there. Raises RowConflict unless others are
        left out."""
        columns = self._identity.columns
        own = images(rows, self._selected, self._state.definition)
        values = identities([own.column(name) for name in columns])
        there = rows_with(self._access, self._state, columns, values, stream, columns=columns).rows
        if not len(there):
            return rows
        if not self._ignore:
            raise _exist(there.select(list(columns)))
        if self._changes.seen is not None:
            left = [there[name].combine_chunks() for name in columns]
            self._changes.seen.rows(stream, left)
        known = identities([there[name] for name in columns])
        fresh = pc.invert(pc.is_in(values, value_set=known))
        self._counts[_OTHER] += len(rows) - pc.sum(fresh).as_py()
        return rows.filter(fresh)


def images(rows: pa.RecordBatch, selected: Selected, definition: Definition) -> pa.RecordBatch:
    """The new images among the columns of a SELECT, under the types of the table, without its
    labels."""
    columns, fields = [], []
    for place, name in enumerate(selected.columns, FIXED):
        if name in selected.labels:
            continue
        field = definition.schema.field(name)
        column = rows.column(place)
        if column.type != field.type:
            column = _cast(column, field)
        if pt.is_date(field.type) or pt.is_timestamp(field.type):
            _check_years(column, field)
        columns.append(column)
        fields.append(pa.field(name, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column of DuckDB's type under the type of the table, which can be narrower."""
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise Invalid(
            f"the values of column {field.name!r} do not fit {field.type}: {error}; nothing was "
            "changed"
        ) from None


def _check_years(column: pa.Array, field: pa.Field) -> None:
    """Raise Invalid for a time of another year: DuckDB reads more of them from text, and shows the
    year 0 as 1 BC."""
    try:
        in_years(column)
    except pa.ArrowInvalid:
        raise Invalid(
            f"column {field.name!r} would have a {type_name(field.type)} outside {YEARS}: give it "
            "another value; nothing was changed"
        ) from None


class Returned:
    """Keeps the rows that RETURNING asked for, until the commit."""

    def __init__(self, selected: Selected, schema: pa.Schema) -> None:
        self._places = [
            place
            for place in range(FIXED + len(selected.columns), len(schema))
            # A star also gives the columns before those of the table.
            if not schema.field(place).name.startswith(PREFIX)
        ]
        self._schema = pa.schema([schema.field(place) for place in self._places])
        self._bytes = 0
        self._kept: list[pa.RecordBatch] = []

    def take(self, rows: pa.RecordBatch) -> None:
        """Keep what one batch has of them. Raises Invalid for too many."""
        if not self._places:
            return
        columns = [rows.column(place) for place in self._places]
        own = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._bytes += own.nbytes
        if self._bytes > MOST_RETURNED:
            raise Invalid(
                f"RETURNING gives back more than {MOST_RETURNED >> 20} MiB of rows, and they are "
                "kept until the commit; nothing was changed: return fewer columns, or query the "
                "rows after the statement"
            )
        self._kept.append(own)

    def table(self) -> pa.Table | None:
        """All of them; None without RETURNING."""
        return pa.Table.from_batches(self._kept, self._schema) if self._places else None


def _exist(keys: pa.Table) -> RowConflict:
    listed = [tuple(row.values()) for row in keys.slice(0, 1_000).to_pylist()]
    named = [key[0] if len(key) == 1 else key for key in listed]
    shown = ", ".join(map(row_text, named[:3])) + (", …" if len(keys) > 3 else "")
    return RowConflict(
        f"{len(keys):,} of the keys exist already ({shown}), and an INSERT brings new ones; "
        "nothing was changed: say ON CONFLICT DO NOTHING or DO UPDATE, or use MERGE",
        rows=[(key, None, None) for key in named],
    )

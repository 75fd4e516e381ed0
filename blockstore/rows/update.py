"""Updates and deletes of the rows that meet a condition, and deletes by identity.

Rules:
- Rows are read at one version, and written as they are then; where one of them was touched before
  the commit, all is planned again.
- Rows that come to meet the condition meanwhile follow the operation; where its isolation is
  ``serializable``, all is planned again for them.
- A delete by identity reads nothing and never conflicts, but for this: ids of a table whose rows
  have several sets of labels are looked up, since a tombstone is of the stream of its row.
- An id that was never given is refused, or it would hide a row that comes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.fields import RESERVED
from blockstore.format.identity import ROW_ID, RowIds
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import quoted
from blockstore.operations.results import Changed
from blockstore.predicate import Condition, parse
from blockstore.rows.attempts import Said, change_rows, identity_of, refuse_labels
from blockstore.rows.labelled import by_labels, labels_of
from blockstore.rows.reading import column_like, current_rows, ids_of, range_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import Changes, StreamChanges
from blockstore.scan.snapshot import Snapshot

Value = Any
"""A new value of a column: one of Python's, an expression over the row's columns, or a function
from a record batch to an array."""


def update(
    access: Access, values: Mapping[str, Value], where: Condition, said: Said
) -> RowsChanged:
    """Give columns new values in all current rows that meet a condition, as one version. Raises
    Invalid for a column, a value or a condition that the table cannot take."""
    definition = access.log.state.definition
    identity = identity_of(definition, "an update")
    if not values:
        raise Invalid('an update sets no column, expected at least one: set={"name": value}')
    for name in values:
        if name not in definition.schema.names:
            raise Invalid(
                f"the update sets {name!r}, which the table does not have; its columns are "
                f"{', '.join(definition.schema.names)}"
            )
        if name in identity.columns:
            raise Invalid(
                f"the update sets {name!r}, which is part of the key: delete the row, and insert "
                "one with the new key"
            )

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        see_where(state, changes, where)
        for stream, batch in current_rows(access, state, where):
            columns = [
                evaluated(values[field.name], batch, field)
                if field.name in values
                else batch.column(field.name)
                for field in state.definition.schema
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=state.definition.schema)
            changes.put(stream, rows, ids_of(batch, identity), was=batch)
        return RowsChanged(operation=str(Operation.UPDATE), updated=changes.rows)

    return change_rows(access, Operation.UPDATE, write, _with(said, where), reads=True)


def delete_where(access: Access, where: Condition, said: Said, *, dry_run: bool = False) -> Changed:
    """Delete all current rows that meet a condition, as one version; ``dry_run`` only counts
    them. Raises Invalid for a condition that the table cannot evaluate."""
    identity = identity_of(access.log.state.definition, "a delete")
    if where is None:
        raise Invalid("delete needs a condition: pass one, or 'true' for all rows")
    if dry_run:
        found = current_rows(access, access.log.poll(), where, columns=identity.columns)
        rows = sum(batch.num_rows for _, batch in found)
        return Changed(operation=str(Operation.DELETE), dry_run=True, rows_removed=rows)

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        see_where(state, changes, where)
        for stream, batch in current_rows(access, state, where, columns=identity.columns):
            changes.delete(stream, batch)
        return RowsChanged(operation=str(Operation.DELETE), deleted=changes.rows)

    did = change_rows(access, Operation.DELETE, write, _with(said, where), reads=True)
    return Changed(
        operation=did.operation,
        version=did.version,
        already=did.already,
        added=did.blocks,
        rows_removed=did.deleted,
    )


def delete_rows(access: Access, rows: Any, said: Said) -> RowsChanged:
    """Delete rows by their identities, as one version: row ids, or the values of a key of one
    column, or a table with the columns of the key. Those that do not exist are passed over.

    Raises Invalid for an id that was never given, and RowConflict where others change the rows all
    the while: only ids of a table whose rows have several sets of labels are looked up."""
    definition = access.log.state.definition
    identity = identity_of(definition, "a delete")
    keys = _keys(rows, identity.columns, definition.schema)
    refuse_labels(identity, said, "a delete")

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        if not keys.num_rows:
            return RowsChanged(operation=str(Operation.DELETE))
        if isinstance(identity, RowIds):
            _check_given(keys.column(0), state)
            streams = state.blocks.streams()
            if len(streams) > 1:
                if changes.seen is not None:
                    changes.seen.rows(changes.own, keys.columns)
                for stream, batch in _at(access, state, keys):
                    changes.delete(stream, batch)
                return RowsChanged(operation=str(Operation.DELETE), deleted=changes.rows)
            changes.delete(next(iter(streams), changes.own), keys)
        else:
            labels = labels_of(state)
            _check_labels(
                [name for name in keys.schema.names if name not in identity.columns], labels
            )
            for stream, own, _ in by_labels(keys, labels, changes.own):
                changes.delete(stream, own)
        return RowsChanged(operation=str(Operation.DELETE), deleted=None)

    def reads(state: State) -> bool:
        return isinstance(identity, RowIds) and len(state.blocks.streams()) > 1

    return change_rows(access, Operation.DELETE, write, said, reads=reads)


def _check_labels(said: Sequence[str], labels: Sequence[str]) -> None:
    """Raise Invalid for a column that is no label: other rows than those meant would go."""
    strange = [name for name in said if name not in labels]
    if strange:
        raise Invalid(
            f"the rows to delete have the column {strange[0]!r}, which is neither a column nor a "
            "label of the table: drop it"
        )


def _check_given(ids: pa.Array, state: State) -> None:
    """Raise Invalid for an id that was never given: it would hide a row that comes later."""
    highest = pc.max(ids).as_py()
    if highest >= state.next_row_id or pc.min(ids).as_py() < 0:
        raise Invalid(
            f"row id {highest} was never given, the next one is {state.next_row_id}: name ids of "
            "rows of this table"
        )


def _at(
    access: Access, state: State, ids: pa.RecordBatch
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """Yield the current rows of these ids, by their streams."""
    where = range_of(Snapshot.of(state), (ROW_ID,), ids.column(0))
    for stream, batch in current_rows(access, state, where, columns=(ROW_ID,)):
        yield stream, batch.filter(pc.is_in(batch.column(0), value_set=ids.column(0)))


def see_where(state: State, changes: Changes, where: Condition) -> None:
    """Note that the rows of a condition were read."""
    if changes.seen is not None:
        changes.seen.where(parse(where, Snapshot.of(state).columns.all))


def evaluated(value: Value, rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return the new values of a column for rows. Raises Invalid where they do not fit it."""
    try:
        if isinstance(value, pc.Expression):
            found = _computed(value, rows)
        elif callable(value):
            found = value(rows)
        else:
            return pa.repeat(pa.scalar(value, field.type), rows.num_rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Invalid(
            f"column {field.name!r} cannot be set to {value!r}, expected a value of {field.type}: "
            f"{error}"
        ) from None
    found = column_like(found, field.type, field.name)
    if len(found) != rows.num_rows:
        raise Invalid(
            f"the function for column {field.name!r} returned {len(found)} values for "
            f"{rows.num_rows} rows, expected one for each"
        )
    return found


def _computed(expression: pc.Expression, rows: pa.RecordBatch) -> pa.Array:
    from pyarrow import acero

    source = acero.Declaration(
        "table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([rows]))
    )
    project = acero.Declaration(
        "project", acero.ProjectNodeOptions([expression], ["value"]), inputs=[source]
    )
    return project.to_table(use_threads=False)["value"].combine_chunks()


def _keys(rows: Any, columns: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """The identities of rows, and where a key identifies them the columns that may be labels."""
    said: list[str] = []
    kinds = [pa.int64() if name == ROW_ID else schema.field(name).type for name in columns]
    if hasattr(rows, "schema") or hasattr(rows, "__arrow_c_stream__"):
        table = pa.table(rows)
        missing = [name for name in columns if name not in table.schema.names]
        if missing and len(columns) == table.num_columns == 1:
            table, missing = table.rename_columns(list(columns)), []
        if missing:
            raise Invalid(f"the rows to delete lack {missing[0]!r}, which identifies a row: add it")
        given = [table[name] for name in columns]
        if ROW_ID not in columns:
            known = {*schema.names, *RESERVED}
            said = [name for name in table.schema.names if name not in known]
    elif len(columns) == 1:
        given = [list(rows)]
    else:
        listed = [tuple(key) for key in rows]
        if any(len(key) != len(columns) for key in listed):
            raise Invalid(f"a key of this table is ({', '.join(columns)}): give one value for each")
        given = [[key[place] for key in listed] for place in range(len(columns))]
    arrays = [
        column_like(values, kind, name)
        for values, kind, name in zip(given, kinds, columns, strict=True)
    ]
    arrays += [column_like(table[name], pa.string(), name) for name in said]
    return pa.RecordBatch.from_arrays(arrays, names=[*columns, *said])


def _with(said: Said, where: Condition) -> Said:
    return replace(said, parameters={**said.parameters, "where": quoted(where)})

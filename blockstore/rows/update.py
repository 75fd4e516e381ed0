"""Updates and deletes of the rows that meet a condition, and deletes by identity.

Rules:
- Rows are read at one version, and written as they are then; where one of them was touched before
  the commit, all is planned again.
- A delete by identity reads nothing and never conflicts. An id that was never given is refused, or
  it would hide a row that comes later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.identity import ROW_ID, RowIds
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import quoted
from blockstore.operations.results import Changed
from blockstore.predicate import Condition
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.block import ChangesWriter
from blockstore.rows.reading import column_like, current_rows, ids_of
from blockstore.rows.results import RowsChanged

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

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        for batch in current_rows(access, state, where):
            columns = [
                evaluated(values[field.name], batch, field)
                if field.name in values
                else batch.column(field.name)
                for field in state.definition.schema
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=state.definition.schema)
            writer.put(rows, ids_of(batch, identity), was=batch)
        return RowsChanged(operation=str(Operation.UPDATE), updated=writer.rows)

    return change_rows(access, Operation.UPDATE, write, _with(said, where), reads=True)


def delete_where(access: Access, where: Condition, said: Said, *, dry_run: bool = False) -> Changed:
    """Delete all current rows that meet a condition, as one version; ``dry_run`` only counts
    them. Raises Invalid for a condition that the table cannot evaluate."""
    identity = identity_of(access.log.state.definition, "a delete")
    if where is None:
        raise Invalid("delete needs a condition: pass one, or 'true' for all rows")
    if dry_run:
        rows = sum(batch.num_rows for batch in current_rows(access, access.log.poll(), where))
        return Changed(operation=str(Operation.DELETE), dry_run=True, rows_removed=rows)

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        for batch in current_rows(access, state, where):
            writer.delete(batch.select(list(identity.columns)))
        return RowsChanged(operation=str(Operation.DELETE), deleted=writer.rows)

    did = change_rows(access, Operation.DELETE, write, _with(said, where), reads=True)
    return Changed(
        operation=did.operation,
        version=did.version,
        already=did.already,
        added=() if did.block is None else (did.block,),
        rows_removed=did.deleted,
    )


def delete_rows(access: Access, rows: Any, said: Said) -> RowsChanged:
    """Delete rows by their identities, as one version: row ids, or the values of a key of one
    column, or a table with the columns of the key. Those that do not exist are passed over."""
    definition = access.log.state.definition
    identity = identity_of(definition, "a delete")
    keys = _keys(rows, identity.columns, definition.schema)

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        if isinstance(identity, RowIds) and keys.num_rows:
            highest = pc.max(keys.column(0)).as_py()
            if highest >= state.next_row_id or pc.min(keys.column(0)).as_py() < 0:
                raise Invalid(
                    f"row id {highest} was never given, the next one is {state.next_row_id}: name "
                    "ids of rows of this table"
                )
        writer.delete(keys)
        return RowsChanged(operation=str(Operation.DELETE), deleted=None if keys.num_rows else 0)

    return change_rows(access, Operation.DELETE, write, said, reads=False)


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
    kinds = [pa.int64() if name == ROW_ID else schema.field(name).type for name in columns]
    if hasattr(rows, "schema") or hasattr(rows, "__arrow_c_stream__"):
        table = pa.table(rows)
        missing = [name for name in columns if name not in table.schema.names]
        if missing and len(columns) == table.num_columns == 1:
            table, missing = table.rename_columns(list(columns)), []
        if missing:
            raise Invalid(f"the rows to delete lack {missing[0]!r}, which identifies a row: add it")
        given = [table[name] for name in columns]
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
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _with(said: Said, where: Condition) -> Said:
    return replace(said, parameters={**said.parameters, "where": quoted(where)})

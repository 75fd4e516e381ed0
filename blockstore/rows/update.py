"""Updates and deletes of the rows that meet a condition.

Rules:
- Rows are read at one version, and written as they are then; where one of them was touched before
  the commit, all is planned again.
- A row that is as it should become is left as it is: it gets no version, and is counted as
  unchanged.
- Rows that come to meet the condition meanwhile follow the operation; where its isolation is
  ``serializable``, all is planned again for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.given import array_of
from blockstore.format.identity import Identity
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import quoted
from blockstore.operations.results import Changed
from blockstore.predicate import Condition, parse
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.reading import column_like, current_rows, ids_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.same import same_rows
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
    identity_of(access.log.state.definition, "an update")
    if not values:
        raise Invalid('an update sets no column, expected at least one: set={"name": value}')

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        identity = identity_of(state.definition, "an update")
        _check_set(values, state.definition, identity)
        see_where(state, changes, where)
        unchanged = 0
        for stream, batch in current_rows(access, state, where):
            columns = [
                evaluated(values[field.name], batch, field)
                if field.name in values
                else batch.column(field.name)
                for field in state.definition.schema
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=state.definition.schema)
            same = same_rows(rows, batch, list(values))
            left = pc.sum(same).as_py() or 0
            if left:
                unchanged += left
                as_it_was = batch.filter(same)
                changes.leave(stream, [as_it_was.column(name) for name in identity.columns])
                rows, batch = (one.filter(pc.invert(same)) for one in (rows, batch))
            if len(rows):
                changes.put(stream, rows, ids_of(batch, identity), was=batch)
        return RowsChanged(
            operation=str(Operation.UPDATE), updated=changes.rows, unchanged=unchanged
        )

    return change_rows(access, Operation.UPDATE, write, _with(said, where), reads=True)


def _check_set(values: Mapping[str, Value], definition: Definition, identity: Identity) -> None:
    """Raise Invalid for a column that the table does not have, or that identifies its rows."""
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


def delete_where(access: Access, where: Condition, said: Said, *, dry_run: bool = False) -> Changed:
    """Delete all current rows that meet a condition, as one version; ``dry_run`` only counts
    them. Raises Invalid for a condition that the table cannot evaluate."""
    identity_of(access.log.state.definition, "a delete")
    if where is None:
        raise Invalid("delete needs a condition: pass one, or 'true' for all rows")
    if dry_run:
        now = access.log.poll()
        names = identity_of(now.definition, "a delete").columns
        found = current_rows(access, now, where, columns=names)
        rows = sum(batch.num_rows for _, batch in found)
        return Changed(operation=str(Operation.DELETE), dry_run=True, rows_removed=rows)

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        see_where(state, changes, where)
        names = identity_of(state.definition, "a delete").columns
        for stream, batch in current_rows(access, state, where, columns=names):
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
            return pa.repeat(array_of([value], field.type)[0], rows.num_rows)
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


def _with(said: Said, where: Condition) -> Said:
    return replace(said, parameters={**said.parameters, "where": quoted(where)})

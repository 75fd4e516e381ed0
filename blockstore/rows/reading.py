"""The current rows of a version, as operations read them that change rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.predicate import Condition, parse_filters
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot

_GATHERED = 500_000


def current_rows(
    access: Access, state: State, where: Condition = None, stream: StreamKey | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the current rows that meet a condition, of one stream or of all: the table's columns,
    then ``_row_id`` where rows have ids, then ``_version``. Raises Invalid for a condition that the
    table cannot evaluate."""
    plan = _plan(state, where)
    if stream is not None:
        plan = _of(plan, stream)
    yield from read_plan(access.bucket, plan, access.world, reads=access.reads)


def _plan(state: State, where: Condition) -> ScanPlan:
    snapshot = Snapshot.of(state)
    hidden = (ROW_ID, VERSION) if isinstance(state.definition.identity, RowIds) else (VERSION,)
    return plan_scan(snapshot, columns=(*state.definition.schema.names, *hidden), where=where)


def _of(plan: ScanPlan, stream: StreamKey) -> ScanPlan:
    """The plan of one stream alone."""
    return replace(
        plan,
        chunks=tuple(chunk for chunk in plan.chunks if chunk.stream == stream),
        changes=tuple(chunk for chunk in plan.changes if chunk.stream == stream),
    )


def rows_with(
    access: Access, state: State, on: Sequence[str], values: pa.Array, stream: StreamKey
) -> pa.Table:
    """Return the current rows of a stream whose ``on`` columns are among ``values``, as
    ``identities`` makes one value of them; columns as ``current_rows``."""
    found = []
    where = range_of(Snapshot.of(state), on, values)
    for some in _gathered(current_rows(access, state, where, stream)):
        among = pc.is_in(identities([some[name] for name in on]), value_set=values)
        if pc.any(among).as_py():
            found.append(some.filter(among))
    return pa.concat_tables([schema_of(state).empty_table(), *found])


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches together, some hundred thousand rows each: what is looked up in them is prepared
    once for each."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _GATHERED:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def schema_of(state: State) -> pa.Schema:
    """The columns of ``current_rows``."""
    hidden = (ROW_ID, VERSION) if isinstance(state.definition.identity, RowIds) else (VERSION,)
    own = state.definition.schema
    return pa.schema([*own, *(pa.field(name, pa.int64()) for name in hidden)], own.metadata)


def without_hidden(rows: pa.RecordBatch | pa.Table, state: State) -> pa.RecordBatch | pa.Table:
    """Return the table's own columns."""
    return rows.select(state.definition.schema.names)


def ids_of(rows: pa.RecordBatch, identity: Identity) -> pa.Array | None:
    """Return the row ids, where rows have some."""
    return rows.column(ROW_ID) if isinstance(identity, RowIds) else None


def column_like(values: object, kind: pa.DataType, name: str) -> pa.Array:
    """Return values that a caller gave for a column as Arrow's. Raises Invalid."""
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            return values.cast(kind)
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"the values of column {name!r} do not fit {kind}: {error}") from None


def range_of(snapshot: Snapshot, on: Sequence[str], values: pa.Array) -> Condition:
    """A condition that all rows with these values meet, by which chunks are left out."""
    if len(on) != 1 or not len(values):
        return None
    kind = values.type
    if not (pt.is_integer(kind) or pt.is_string(kind)):
        return None
    bounds = pc.min_max(values).as_py()
    columns = snapshot.columns.all
    return parse_filters([(on[0], ">=", bounds["min"]), (on[0], "<=", bounds["max"])], columns)

"""The row that a condition names by its identity, found without a look at other rows.

Rules:
- A condition names a row if it leaves one value to each column of the identity. It then keeps the
  current row with this identity in each stream, or none.
- Which version is current follows from the versions of this identity alone: in each stream the
  highest counts, and if it is a tombstone, no row does (``current.py``). So of other rows only
  those are read that share a page with one of them.
- Versions are found by the identity, whatever else the condition says: a version that does not
  meet it still hides an older one that does.
- The rows are those that a scan of the same chunks returns, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.fields import RESERVED
from blockstore.format.identity import DELETED, VERSION, RowIds
from blockstore.predicate import Predicate
from blockstore.predicate.nodes import Compare, Op, columns_of, conjunction
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.hiders import identity_bounds, is_compared
from blockstore.scan.plan import ScanPlan

ReadRanges = Callable[[ScanPlan], Iterable[tuple[int, Iterable[pa.RecordBatch]]]]
"""Reads the rows of a plan that is resolved, each batch with the place of its chunk."""


def named_row(plan: ScanPlan) -> Predicate | None:
    """Return the identity that the plan's condition names; None if several rows may meet it."""
    if plan.identity is None:
        return None
    hulls = {name: plan.predicate.hull(name) for name in plan.identity.columns}
    if any(hull.empty or hull.low is None or hull.low != hull.high for hull in hulls.values()):
        return None
    columns = {column.name: column for column in columns_of(plan.predicate.node)}
    tests = (Compare(columns[name], Op.EQ, hull.low) for name, hull in hulls.items())
    return Predicate(node=conjunction(*tests))


def rows_of(plan: ScanPlan, row: Predicate, read: ReadRanges) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan whose condition names ``row``. Raises what ``read`` raises."""
    if not plan.changes:
        for _, batches in read(plan):
            yield from batches
        return
    chunks = tuple(_holders(plan, row))
    by_name = {**RESERVED, **plan.columns.by_name}
    wanted = dict.fromkeys((*plan.needed, VERSION, DELETED))
    versions = replace(
        plan,
        chunks=chunks,
        changes=(),
        predicate=row,
        output_schema=pa.schema([by_name[name] for name in wanted]),
    )
    newest: dict[object, tuple[int, int, pa.RecordBatch]] = {}
    for place, batches in read(versions):
        stream = chunks[place].stream
        for batch in batches:
            for at, version in enumerate(batch.column(VERSION).to_pylist()):
                if stream not in newest or version > newest[stream][0]:
                    newest[stream] = version, place, batch.slice(at, 1)
    own = {chunk.key for chunk in plan.chunks}
    # Where the condition says no more, every version that was read meets it.
    met = plan.predicate.extra is None and plan.predicate.node == row.node
    for _, place, found in sorted(newest.values(), key=lambda one: one[1]):
        if chunks[place].key in own and not found.column(DELETED)[0].as_py():
            kept = found if met else plan.predicate.filtered(found)
            if kept.num_rows:
                kept = kept.select(plan.output_schema.names)
                same = kept.schema.equals(plan.output_schema, check_metadata=True)
                yield kept if same else kept.cast(plan.output_schema)


def _holders(plan: ScanPlan, row: Predicate) -> Iterator[ScanChunk]:
    """Yield the chunks that may hold a version of the row which the plan returns or which hides
    one that it would return, in the order of the plan."""
    own = {chunk.key: chunk for chunk in plan.chunks}
    streams = {chunk.stream for chunk in plan.chunks}
    may_hold = _judge(plan, row)
    found = {
        chunk.key: chunk
        for chunk in plan.changes
        if chunk.key in own or (chunk.stream in streams and may_hold(chunk))
    }
    found |= own
    for chunk in sorted(found.values(), key=lambda one: one.block):
        yield replace(chunk, certain=False)


def _judge(plan: ScanPlan, row: Predicate) -> Callable[[ScanChunk], bool]:
    """Return a function that judges whether a version of the row may be in a chunk, by the bounds
    of its identities."""
    identity = plan.identity
    assert identity is not None, "only a row with an identity is named"
    key = None
    if len(identity.columns) == 1:
        (name,) = identity.columns
        if is_compared(plan.columns.all.field(name).type):
            key = row.hull(name).low

    def may_hold(chunk: ScanChunk) -> bool:
        if key is not None:
            low, high = identity_bounds(chunk, identity)
            if low is not None and high is not None:
                return bool(low <= key <= high)
        if isinstance(identity, RowIds):
            return True
        reads = plan.reads(chunk.schema_id)
        return row.may(
            bounds_from_statistics(
                chunk.file.columns,
                plan.schemas[chunk.schema_id],
                chunk.file.rows,
                names={name: reads[name].stored_as for name in row.columns},
            )
        )

    return may_hold

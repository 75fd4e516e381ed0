"""A plan whose chunks know which of their rows are hidden: what every reader makes of a plan first.

Rules:
- A plan without changes is resolved already, and costs nothing.
- Columns of chunks are read completely, without the plan's condition, as any rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from blockstore.format.fields import RESERVED
from blockstore.predicate import parse
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.current import Columns, ReadColumns, with_hidden
from blockstore.scan.hidden_cache import HiddenCache
from blockstore.scan.hiders import ALL, Range, is_compared
from blockstore.scan.hiding import hidden_rows
from blockstore.scan.plan import ScanPlan

ReadPlan = Callable[[ScanPlan], Iterable[pa.RecordBatch]]
"""Reads the rows of a plan that is resolved."""

_AT_ONCE = 4_000_000
"""Rows of whose identities a reader holds the columns at once, unless one chunk has more."""


def resolved(plan: ScanPlan, read: ReadPlan, cache: HiddenCache | None = None) -> ScanPlan:
    """Return the plan with what is hidden of each chunk; ``cache`` has what was found before.
    Raises what ``read`` raises."""
    if not plan.changes or plan.identity is None:
        return plan
    reader = columns_reader(plan, read)
    asked = identities_asked(plan)
    hidden = hidden_rows(plan.chunks, plan.changes, plan.identity, reader, cache, asked)
    return replace(plan, chunks=with_hidden(plan.chunks, hidden), changes=())


def identities_asked(plan: ScanPlan) -> Range:
    """Return the range to which the plan's condition confines the identities of rows."""
    if plan.identity is None or len(plan.identity.columns) != 1:
        return ALL
    (name,) = plan.identity.columns
    if not is_compared(plan.columns.all.field(name).type):
        return ALL
    hull = plan.predicate.hull(name)
    low, high = (one if isinstance(one, (int, str)) else None for one in (hull.low, hull.high))
    return low, high


def columns_reader(plan: ScanPlan, read: ReadPlan) -> ReadColumns:
    """Return what reads columns of complete chunks of the plan."""
    by_name = {**plan.columns.by_name, **RESERVED}

    def columns(chunks: Sequence[ScanChunk], names: Sequence[str]) -> Iterator[Columns]:
        for some in _runs(chunks):
            complete = replace(
                plan,
                chunks=tuple(replace(chunk, certain=True, hidden=None) for chunk in some),
                changes=(),
                predicate=parse(None, plan.columns.all),
                output_schema=pa.schema([by_name[name] for name in names]),
            )
            rows = pa.Table.from_batches(read(complete), complete.output_schema)
            first = 0
            for chunk in some:
                own = rows.slice(first, chunk.file.rows)
                first += chunk.file.rows
                yield {name: own[name].combine_chunks() for name in names}

    return columns


def _runs(chunks: Sequence[ScanChunk]) -> Iterator[list[ScanChunk]]:
    run: list[ScanChunk] = []
    for chunk in chunks:
        if run and sum(one.file.rows for one in run) + chunk.file.rows > _AT_ONCE:
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run

"""A plan whose chunks know which of their rows are hidden: what every reader makes of a plan first.

Rules:
- A plan without changes is resolved already, and costs nothing.
- Columns of chunks are read completely, without the plan's condition, as any rows are read.
- A chunk of whose rows all are hidden that have an identity for which the condition asks has no row
  of the plan, and is left out where that is known without another read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

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
    cache = HiddenCache() if cache is None else cache
    reader = _kept(plan, columns_reader(plan, read), cache)
    asked = identities_asked(plan)
    hidden = hidden_rows(plan.chunks, plan.changes, plan.identity, reader, cache, asked)
    shown = [
        chunk
        for chunk in with_hidden(plan.chunks, hidden)
        if asked == ALL or chunk.hidden is None or not _hides_all(plan, chunk, cache, asked)
    ]
    return replace(plan, chunks=tuple(shown), changes=())


def _hides_all(plan: ScanPlan, chunk: ScanChunk, cache: HiddenCache, asked: Range) -> bool:
    """Whether it is known that all rows of a chunk are hidden that have identities of a range."""
    assert plan.identity is not None, "only rows with an identity are hidden"
    assert chunk.hidden is not None, "some are"
    stored = _stored_names(plan, chunk, plan.identity.columns)
    kept = None if stored is None else cache.columns(chunk, stored)
    if kept is None:
        return False
    (values,) = kept.values()
    if not pt.is_integer(values.type):
        return False
    low, high = asked
    own = values.to_numpy()
    meeting = np.ones(len(own), dtype=bool)
    if low is not None:
        meeting &= own >= low
    if high is not None:
        meeting &= own <= high
    meeting[chunk.hidden] = False
    return not meeting.any()


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


def _stored_names(
    plan: ScanPlan, chunk: ScanChunk, names: Iterable[str]
) -> Mapping[str, str] | None:
    """Return the names under which a chunk of the plan stores columns; None if it lacks one."""
    reads = plan.reads(chunk.schema_id)
    stored = {name: reads[name].stored_as if name in reads else name for name in names}
    return {name: own for name, own in stored.items() if own} if all(stored.values()) else None


def _kept(plan: ScanPlan, read: ReadColumns, cache: HiddenCache) -> ReadColumns:
    """Return what reads columns as ``read`` does, unless the cache has them."""

    def columns(chunks: Sequence[ScanChunk], names: Sequence[str]) -> Iterator[Columns]:
        stored = [_stored_names(plan, chunk, names) for chunk in chunks]
        kept = [
            None if own is None else cache.columns(chunk, own)
            for chunk, own in zip(chunks, stored, strict=True)
        ]
        missing = [chunk for chunk, found in zip(chunks, kept, strict=True) if found is None]
        others = iter(read(missing, names))
        for chunk, own, found in zip(chunks, stored, kept, strict=True):
            if found is not None:
                yield found
                continue
            made = next(others)
            if own is not None:
                cache.keep_columns(chunk, own, made)
            yield made

    return columns


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

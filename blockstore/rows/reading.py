"""The current rows of a version, as operations read them that change rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.given import array_of, cast
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.format.years import in_years
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.predicate import Condition, Predicate, parse_filters
from blockstore.rows.likely import Likely
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot

_GATHERED = 500_000
_GATHERED_BYTES = 64 << 20


def current_rows(
    access: Access,
    state: State,
    where: Condition = None,
    stream: StreamKey | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """Yield the current rows that meet a condition, those of one stream after those of another, or
    of one alone: ``columns``, or else the table's, then the labels, then ``_row_id`` where rows
    have ids, then ``_version``. Raises Invalid for a condition that the table cannot evaluate."""
    snapshot = Snapshot.of(state)
    names = _schema_of(snapshot).names if columns is None else columns
    plan = plan_scan(snapshot, columns=names, where=where)
    for one, own in by_stream(plan):
        if stream in (None, one):
            for batch in read_plan(access.bucket, own, access.world, reads=access.reads):
                yield one, batch


def by_stream(plan: ScanPlan) -> Iterator[tuple[StreamKey, ScanPlan]]:
    """Yield the part of a plan that is of each stream."""
    chunks: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in plan.chunks:
        chunks.setdefault(chunk.stream, []).append(chunk)
    changes: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in plan.changes:
        changes.setdefault(chunk.stream, []).append(chunk)
    for stream, own in chunks.items():
        hiding = changes.get(stream, [])
        yield stream, replace(plan, chunks=tuple(own), changes=tuple(hiding))


@dataclass(frozen=True, slots=True)
class Found:
    """Current rows, and the stream of each."""

    rows: pa.Table
    """Columns as ``current_rows``."""
    of: npt.NDArray[np.int64]
    """Of each row, the place of its stream among ``streams``."""
    streams: tuple[StreamKey, ...]

    def take(self, places: pa.Array) -> Found:
        """The rows at these places; one that is null gives a row of nulls of the first stream."""
        at = pc.fill_null(places, -1).to_numpy()
        of = np.zeros(len(at), dtype=np.int64)
        of[at >= 0] = self.of[at[at >= 0]]
        return Found(self.rows.take(places), of, self.streams)

    def each(self) -> Iterator[tuple[StreamKey, pa.Array]]:
        """Yield each stream that has rows, and which rows are its."""
        for place in np.unique(self.of).tolist():
            yield self.streams[place], pa.array(self.of == place)


def rows_with(
    access: Access,
    state: State,
    on: Sequence[str],
    values: pa.Array,
    stream: StreamKey | None,
    columns: Sequence[str] | None = None,
) -> Found:
    """Return the current rows whose ``on`` columns are among ``values``, as ``identities`` makes
    one value of them; those of one stream, or of all. ``columns`` as ``current_rows``; they have
    those of ``on``."""
    found, streams = [], []
    for one, some in likely_rows(access, state, on, values, stream, columns):
        among = pc.is_in(identities_of(some, on), value_set=values)
        if pc.any(among).as_py():
            found.append(some.filter(among))
            streams.append(one)
    all_streams = tuple(dict.fromkeys(streams)) or (stream or StreamKey((), 0),)
    places = [
        np.full(len(rows), all_streams.index(one)) for one, rows in zip(streams, found, strict=True)
    ]
    return Found(
        pa.concat_tables([schema_of(state, columns).empty_table(), *found]),
        np.concatenate([np.zeros(0, dtype=np.int64), *places]),
        all_streams,
    )


def likely_rows(
    access: Access,
    state: State,
    on: Sequence[str],
    values: pa.Array,
    stream: StreamKey | None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[StreamKey, pa.Table]]:
    """Yield the rows that ``rows_with`` returns, some hundred thousand together, and some others
    that it has still to leave out."""
    where, known = range_of(Snapshot.of(state), on, values), Likely(values)
    read = current_rows(access, state, where, stream, columns)
    for one, pairs in groupby(read, lambda pair: pair[0]):
        likely = (batch.filter(known.among(identities_of(batch, on))) for _, batch in pairs)
        for some in gathered(likely, len(values)):
            yield one, some


def identities_of(rows: pa.Table | pa.RecordBatch, on: Sequence[str]) -> pa.Array:
    """Return one value for each row, of its ``on`` columns."""
    return identities([rows.column(name) for name in on])


def gathered(batches: Iterable[pa.RecordBatch], values: int) -> Iterator[pa.Table]:
    """Batches together, about as many rows as there are ``values`` to look up in them, and some
    hundred thousand at least: the values are prepared once for each. Not more than some bytes."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= max(values, _GATHERED) or size >= _GATHERED_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def schema_of(state: State, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the columns of ``current_rows``."""
    return _schema_of(Snapshot.of(state), names)


def _schema_of(snapshot: Snapshot, names: Sequence[str] | None = None) -> pa.Schema:
    if names is not None:
        return snapshot.columns.select(names)
    hidden = (ROW_ID, VERSION) if isinstance(snapshot.definition.identity, RowIds) else (VERSION,)
    columns = snapshot.columns
    return columns.select([*columns.visible.names, *hidden])


def ids_of(rows: pa.RecordBatch, identity: Identity) -> pa.Array | None:
    """Return the row ids, where rows have some."""
    return rows.column(ROW_ID) if isinstance(identity, RowIds) else None


def column_like(values: object, kind: pa.DataType, name: str) -> pa.Array:
    """Return values that a caller gave for a column as Arrow's. Raises Invalid."""
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            found = cast(values, kind)
            from_text = pt.is_string(values.type) or pt.is_large_string(values.type)
            timed = pt.is_date(kind) or pt.is_timestamp(kind)
            return in_years(found) if from_text and timed else found
        return array_of(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"the values of column {name!r} do not fit {kind}: {error}") from None


def range_of(snapshot: Snapshot, on: Sequence[str], values: pa.Array) -> Predicate | None:
    """A condition that all rows with these values meet, by which chunks are left out."""
    if len(on) != 1 or not len(values):
        return None
    kind = values.type
    if not (pt.is_integer(kind) or pt.is_string(kind)):
        return None
    bounds = pc.min_max(values).as_py()
    columns = snapshot.columns.all
    return parse_filters([(on[0], ">=", bounds["min"]), (on[0], "<=", bounds["max"])], columns)

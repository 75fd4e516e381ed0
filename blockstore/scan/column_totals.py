"""What is known of each column over all blocks of a snapshot, by the statistics of their chunks
alone: for people who look at a table. Pure: no byte is read.

Rules:
- Bounds are those of the stored rows: texts are cut to 64 characters, and rows that newer versions
  hide count as well. Blocks that no query reads do not.
- One chunk without a statistic of a column makes the total unknown: it is None, not a guess.
- A histogram spreads the rows of each chunk evenly over the range of the chunk. It is a picture,
  not a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.types import is_primitive
from blockstore.predicate.literals import TIMED, Kind, kind_of, unit_ns
from blockstore.predicate.nodes import Column
from blockstore.scan.columns import Schemas
from blockstore.scan.snapshot import Snapshot

BINS = 24
_MEASURED = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, *TIMED})
_WHOLE = frozenset({Kind.INTEGER, Kind.DATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTotal:
    """One column over all blocks. Bounds of times are nanoseconds."""

    name: str
    kind: Kind
    low: Any = None
    """No value is below; None where it is unknown, or there is no value."""
    high: Any = None
    nulls: int | None = None
    nans: int | None = None
    bins: tuple[int, ...] = ()
    """About how many values are in each part of the range from ``low`` to ``high``, all of one
    width; empty for values that have no distance, and where the range is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All columns over all blocks that queries read."""

    rows: int
    """The stored rows of these blocks."""
    columns: tuple[ColumnTotal, ...]
    """Those of the table."""
    labels: Mapping[str, Mapping[str | None, int]]
    """Of each label how many stored rows have each value."""


@dataclass(slots=True)
class _Spans:
    """The ranges of a column in the chunks that have values of it."""

    lows: list[Any] = field(default_factory=list)
    highs: list[Any] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    nulls: int = 0
    nans: int = 0
    known: bool = True
    counted: bool = True


def totals(snapshot: Snapshot) -> Totals:
    """The totals of a snapshot. Every block becomes an object: not for hundreds of thousands."""
    schemas = Schemas(snapshot.definition)
    columns = [
        Column(field.name, field.type)
        for field in snapshot.definition.schema
        if is_primitive(field.type)
    ]
    spans = {column.name: _Spans() for column in columns}
    labels: dict[str, Counter[str | None]] = {name: Counter() for name in snapshot.columns.labels}
    rows = 0
    for meta in _read(snapshot):
        rows += meta.rows
        for name, values in labels.items():
            values[meta.labels.get(name)] += meta.rows
        schema_id = schemas.id_of(meta.schema_id, meta.schema, meta.ulid)
        schema, names = schemas.schema(schema_id), schemas.stored_names(schema_id)
        for file in meta.chunks:
            bounds_of = bounds_from_statistics(file.columns, schema, file.rows, names=names)
            for column in columns:
                _add(spans[column.name], bounds_of(column))
    made = tuple(_total(column, spans[column.name]) for column in columns)
    return Totals(rows=rows, columns=made, labels=labels)


def _read(snapshot: Snapshot) -> Iterator[BlockMeta]:
    """The blocks that queries of current rows read."""
    for block in snapshot.live():
        meta = block.meta
        if meta.kind is not BlockKind.HISTORY and not block.excepted.issuperset(meta.sources):
            yield meta
    for chosen in snapshot.listed:
        yield chosen.meta


def _add(spans: _Spans, bounds: Any) -> None:
    if bounds.nulls is None or bounds.nans is None:
        spans.counted = spans.known = False
        return
    spans.nulls += bounds.nulls
    spans.nans += bounds.nans
    values = bounds.rows - bounds.nulls - bounds.nans
    if values <= 0:
        return
    if bounds.low is None or bounds.high is None:
        spans.known = False
        return
    spans.lows.append(bounds.low)
    spans.highs.append(bounds.high)
    spans.values.append(values)


def _total(column: Column, spans: _Spans) -> ColumnTotal:
    kind = kind_of(column.type)
    counts = (spans.nulls, spans.nans) if spans.counted else (None, None)
    if not spans.known or not spans.values:
        return ColumnTotal(name=column.name, kind=kind, nulls=counts[0], nans=counts[1])
    low, high = min(spans.lows), max(spans.highs)
    step = unit_ns(column.type) if kind is Kind.DATE else 1
    return ColumnTotal(
        name=column.name,
        kind=kind,
        low=low,
        high=high,
        nulls=counts[0],
        nans=counts[1],
        bins=_bins(spans, low, high, kind, step) if kind in _MEASURED else (),
    )


def _bins(spans: _Spans, low: Any, high: Any, kind: Kind, step: int) -> tuple[int, ...]:
    """The rows of each span spread over it; a whole number takes the place up to the next one."""
    room = step if kind in _WHOLE else 0
    width = _distance(low, high) + room
    if not np.isfinite(width):
        return ()
    if width <= 0:
        return (sum(spans.values),)
    size = min(BINS, round(width / step)) if kind in _WHOLE else BINS
    starts = np.array([_distance(low, one) for one in spans.lows])
    ends = np.array([_distance(low, one) for one in spans.highs]) + room
    values = np.array(spans.values, dtype=float)
    lengths = ends - starts
    points = lengths <= 0
    lengths[points] = 1.0
    below = []
    for edge in np.linspace(0, width, size + 1)[1:-1]:
        shares = np.clip((edge - starts) / lengths, 0.0, 1.0)
        shares[points] = starts[points] < edge
        below.append(float((shares * values).sum()))
    found = np.diff(np.round([0.0, *below, float(values.sum())]))
    return tuple(int(one) for one in found)


def _distance(low: Any, value: Any) -> float:
    """How far a value is above another. Decimals and whole numbers are subtracted as such."""
    if isinstance(low, int | Decimal) and isinstance(value, int | Decimal):
        return float(value - low)
    return float(value) - float(low)

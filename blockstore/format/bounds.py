"""Statistics of a chunk as bounds for the pruner.

A column that the chunk's schema lacks was added later and reads as null. A column without
statistics is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from blockstore.format.block import ColumnStats, StatValue
from blockstore.format.statistics import decode
from blockstore.predicate.literals import TIMED, kind_of, unit_ns
from blockstore.predicate.nodes import Column, Key
from blockstore.predicate.prune import Bounds, BoundsOf


def bounds_from_statistics(
    stats: Mapping[str, ColumnStats],
    schema: pa.Schema,
    rows: int,
    *,
    names: Mapping[str, str | None] | None = None,
) -> BoundsOf:
    """Return the bounds of every column of a chunk whose own schema is ``schema``.

    ``names`` maps a column to its name in the chunk where that differs; None = the chunk lacks it.
    """

    memo: dict[str, Bounds] = {}

    def bounds_of(column: Column) -> Bounds:
        if column.name not in memo:
            memo[column.name] = read(column)
        return memo[column.name]

    def read(column: Column) -> Bounds:
        name = column.name if names is None else names.get(column.name, column.name)
        found = stats.get(name) if name is not None else None
        if found is None:
            lacking = name is None or schema.get_field_index(name) < 0
            return Bounds.constant(None, rows) if lacking else Bounds(rows=rows)
        assert name is not None
        type_ = schema.field(name).type
        return Bounds(
            low=_key(type_, found.min),
            high=_key(type_, found.max),
            nulls=found.nulls,
            nans=found.nans,
            rows=rows,
        )

    return bounds_of


def _key(type_: pa.DataType, stat: StatValue | None) -> Key | None:
    value = decode(type_, stat)
    if value is not None and kind_of(type_) in TIMED:
        assert isinstance(value, int)
        return value * unit_ns(type_)
    return value

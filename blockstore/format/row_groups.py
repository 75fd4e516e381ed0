"""The statistics of a chunk's row groups by its footer, to skip groups that cannot match.

Rules:
- Only bounds that all writers of Parquet files mean alike are used: of signed integers, dates,
  timestamps and texts, and only together with the number of nulls. All others are unknown:
  Parquet's bounds of floats ignore NaN, and unsigned numbers and seconds are stored as other types.
- A bound has the form of meta.json, in the unit of the file's own type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from blockstore.format.block import ColumnStats
from blockstore.format.statistics import Tally

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def row_group_statistics(
    parquet: pq.ParquetFile, columns: Iterable[pa.Field]
) -> list[tuple[int, dict[str, ColumnStats]]]:
    """Return the rows of each row group, and the statistics of those of ``columns`` that the file
    has with the same type."""
    leaves = bounded_columns(parquet, columns)
    return [
        (
            group.num_rows,
            {name: stats for name, leaf in leaves.items() if (stats := _stats(group.column(leaf)))},
        )
        for group in map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
    ]


def bounded_columns(parquet: pq.ParquetFile, columns: Iterable[pa.Field]) -> dict[str, int]:
    """Return the index among the file's leaves of those columns that have usable bounds.

    A part of a nested column may have the path of a plain column: then both are left out.
    """
    found = parquet.schema_arrow
    plain = {
        field.name
        for field in columns
        if _has_bounds(field.type)
        and found.get_field_index(field.name) >= 0
        and found.field(field.name).type.equals(field.type)
    }
    leaves: dict[str, int] = {}
    for leaf, column in enumerate(map(parquet.schema.column, range(len(parquet.schema)))):
        if column.path not in plain:
            continue
        if column.path in leaves or not _stored_as_named(column, found.field(column.path).type):
            plain.discard(column.path)
            leaves.pop(column.path, None)
            continue
        leaves[column.path] = leaf
    return leaves


def _has_bounds(kind: pa.DataType) -> bool:
    if pt.is_timestamp(kind):
        return kind.unit != "s"
    return pt.is_signed_integer(kind) or pt.is_date32(kind) or pt.is_string(kind)


def _stored_as_named(column: pq.ColumnSchema, kind: pa.DataType) -> bool:
    """Return whether the file's bounds of the column are in the unit of its type."""
    if not pt.is_timestamp(kind):
        return True
    logical = json.loads(column.logical_type.to_json())
    return _UNITS.get(logical.get("timeUnit")) == kind.unit


def _stats(column: pq.ColumnChunkMetaData) -> ColumnStats | None:
    found = column.statistics
    if found is None or not found.has_null_count:
        return None
    tally = Tally()
    tally.nulls = found.null_count
    if found.has_min_max:
        low, high = found.min_raw, found.max_raw
        try:
            tally.include(
                *((low.decode(), high.decode()) if isinstance(low, bytes) else (low, high))
            )
        except UnicodeDecodeError:
            tally.unreadable = True
    return tally.stats()

"""The statistics of a chunk, taken from what its Parquet writer has computed already.

Rules:
- The result is that of ``statistics.collect``, which reads every value (a test compares them), at a
  tenth of the cost.
- Parquet ignores NaN and drops the bounds of texts beyond 4 KiB: both are computed from the rows.
- Parquet stores seconds as milliseconds and unsigned integers as signed ones: both are converted
  back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from blockstore.format.block import ColumnStats
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION
from blockstore.format.schema import with_reserved
from blockstore.format.statistics import Comparable, Tally, columns_of, count_nans, extremes

_LONG_BYTES = 4_000
"""Below Parquet's limit of 4,096 bytes for a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    name: str
    position: int
    leaf: int
    """The column's index among the file's leaves: nested columns before it have several."""
    bounds: Callable[[pq.Statistics], tuple[Comparable, Comparable] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPlan:
    """The statistics to compute for the chunks of one definition."""

    columns: tuple[_Column, ...]
    floats: tuple[_Column, ...]
    texts: tuple[_Column, ...]
    shown: tuple[str, ...]
    time_column: str | None

    @classmethod
    def of(cls, definition: Definition, extra: tuple[str, ...] = ()) -> StatisticsPlan:
        """Return the plan: the columns that have statistics, the time column, whose range a block
        always needs, and those of the reserved columns ``extra`` that say which versions of which
        rows a chunk holds."""
        schema = with_reserved(definition.schema, extra)
        time_column, identity = definition.time_column, definition.identity
        own = () if identity is None else identity.columns
        counted = [name for name in extra if name in (ROW_ID, VERSION)]
        shown = (*columns_of(definition.schema, definition.sort_by, own), *counted)
        wanted = {*shown, time_column}
        columns = []
        leaf = 0
        for position, field in enumerate(schema):
            if field.name in wanted:
                columns.append(
                    _Column(
                        name=field.name, position=position, leaf=leaf, bounds=_reader(field.type)
                    )
                )
            leaf += _leaves(field.type)
        return cls(
            columns=tuple(columns),
            floats=tuple(
                column for column in columns if pt.is_floating(schema.field(column.position).type)
            ),
            texts=tuple(
                column for column in columns if pt.is_string(schema.field(column.position).type)
            ),
            shown=shown,
            time_column=time_column,
        )


class ChunkStatistics:
    """Computes the statistics of one chunk: ``add`` its rows, then ``finish`` with its footer."""

    __slots__ = ("_plan", "_rows", "_tallies")

    def __init__(self, plan: StatisticsPlan) -> None:
        self._plan = plan
        self._rows: pa.Table | None = None
        self._tallies = {column.name: Tally() for column in plan.columns}

    def add(self, rows: pa.Table, *, only: bool) -> None:
        """Take rows that are written; ``only`` if they are all of the chunk, which costs less."""
        for column in self._plan.floats:
            self._tallies[column.name].nans += count_nans(rows.column(column.position))
        if only:
            self._rows = rows
            return
        for column in self._plan.texts:
            texts = _texts(rows.column(column.position))
            longest = pc.call_function("max", [pc.call_function("binary_length", [texts])]).as_py()
            if longest is not None and longest > _LONG_BYTES:
                self._tallies[column.name].widen(extremes, texts)

    def finish(self, footer: pq.FileMetaData) -> None:
        """Take in what the Parquet writer has found, row group by row group."""
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            if row_group.num_rows == 0:
                continue
            for column in self._plan.columns:
                found = row_group.column(column.leaf).statistics
                tally = self._tallies[column.name]
                tally.nulls += found.null_count
                if found.has_min_max:
                    tally.widen(column.bounds, found)
                elif self._rows is not None and column in self._plan.texts:
                    tally.widen(extremes, _texts(self._rows.column(column.position)))
        self._rows = None

    def columns(self) -> dict[str, ColumnStats]:
        """The statistics that meta.json lists."""
        return {name: self._tallies[name].stats() for name in self._plan.shown}

    def times(self) -> tuple[int, int] | None:
        """The exact bounds of the time column, in its own unit."""
        if self._plan.time_column is None:
            return None
        tally = self._tallies[self._plan.time_column]
        return None if tally.low is None else (tally.low, tally.high)


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """All texts of a column, those of a dictionary once: it holds none that no row has
    (``coded.renumbered``)."""
    if not pt.is_dictionary(values.type):
        return values
    return pa.chunked_array(
        [part.dictionary for part in values.chunks], type=values.type.value_type
    )


def _leaves(kind: pa.DataType) -> int:
    """How many Parquet columns a column becomes."""
    if pt.is_struct(kind):
        return sum(_leaves(field.type) for field in kind.fields)
    if pt.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    return _leaves(kind.value_type) if pt.is_nested(kind) else 1


def _reader(kind: pa.DataType) -> Callable[[pq.Statistics], tuple[Comparable, Comparable] | None]:
    """How Parquet's bounds of a column of this type are read."""
    if pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return lambda found: None
    if pt.is_string(kind):
        return lambda found: (found.min_raw.decode(), found.max_raw.decode())
    if pt.is_decimal(kind) or pt.is_unsigned_integer(kind):
        return lambda found: (found.min, found.max)
    if (pt.is_timestamp(kind) or pt.is_time32(kind)) and kind.unit == "s":
        return lambda found: (found.min_raw // 1000, found.max_raw // 1000)
    return _raw


def _raw(found: Any) -> tuple[Comparable, Comparable]:
    return found.min_raw, found.max_raw

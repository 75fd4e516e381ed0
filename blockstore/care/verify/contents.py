"""Compare the values of a chunk with its block's meta: statistics, time range, sources, text.

A missing bound means "unknown" and is never wrong. A bound that excludes a value would let a query
skip the chunk although a row of it matches: rows would be lost silently.

Text that is not UTF-8 may come from an earlier release or from a device's own program; this release
refuses it. Such a block can be merged, and Arrow readers get the bytes, but SQL cannot read the
column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.care.finding import Check
from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats
from blockstore.format.casting import other_than_text
from blockstore.format.new_block import to_ms
from blockstore.format.statistics import Tally, decode
from blockstore.format.utf8 import first_not_text, holds_text

_SOURCE = "_source"


class Contents:
    """Collects the rows of one chunk, then reports what is wrong."""

    def __init__(self, meta: BlockMeta, file: ChunkFile, schema: pa.Schema) -> None:
        self._meta = meta
        self._file = file
        self._schema = schema
        counted = {*file.columns, *([meta.time_column] if meta.time_column else [])}
        # A damaged name is not a column of the rows: it is reported, and the others are checked.
        self._tallies = {name: Tally() for name in counted.intersection(schema.names)}
        self._sources = frozenset(meta.sources)
        self._strange: str | None = None
        self._unnamed = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows, which have the schema."""
        for name, tally in self._tallies.items():
            tally.add(rows.column(name))
        if _SOURCE in rows.schema.names:
            self._add_sources(rows.column(_SOURCE))

    def problems(self) -> Iterator[tuple[Check, str]]:
        """Report what is wrong. Raises Corrupt if a bound is not a value of its column's type."""
        for name, stats in self._file.columns.items():
            if name not in self._tallies:
                yield (
                    Check.STATISTICS,
                    f"has statistics of a column {name!r} that it does not have",
                )
                continue
            for what in _outside(stats, self._tallies[name], self._schema.field(name).type):
                yield Check.STATISTICS, f"column {name!r}: {what}"
        yield from self._times()
        if self._strange is not None:
            yield (
                Check.SOURCE,
                (
                    f"has rows of {self._strange}, which is not one of its block's "
                    f"{len(self._sources)} sources"
                ),
            )
        if self._unnamed:
            yield Check.SOURCE, f"has {self._unnamed:,} rows without a source"

    def _add_sources(self, column: pa.ChunkedArray) -> None:
        self._unnamed += column.null_count
        found = pc.unique(column)
        # As bytes: in a damaged chunk it may not be text.
        for data in (found.dictionary_decode() if pt.is_dictionary(found.type) else found).cast(
            pa.binary()
        ):
            source = data.as_py() and data.as_py().decode(errors="backslashreplace")
            if source is not None and source not in self._sources and self._strange is None:
                self._strange = source

    def _times(self) -> Iterator[tuple[Check, str]]:
        meta = self._meta
        if meta.time_column is None:
            return
        if meta.time_column not in self._tallies:
            yield (
                Check.TIME,
                f"has no column {meta.time_column!r}, which its block names as the time column",
            )
            return
        tally = self._tallies[meta.time_column]
        if tally.low is None:
            return
        kind = self._schema.field(meta.time_column).type
        low, high = (to_ms(kind, value, meta.time_column) for value in (tally.low, tally.high))
        if low < meta.min_time or high >= meta.max_time:
            yield (
                Check.TIME,
                (
                    f"has times from {low} to {high} ms, outside its block's range from "
                    f"{meta.min_time} to below {meta.max_time}"
                ),
            )


def _outside(stats: ColumnStats, seen: Tally, kind: pa.DataType) -> Iterator[str]:
    if seen.nulls != stats.nulls:
        yield f"has {seen.nulls:,} nulls, but its statistics say {stats.nulls:,}"
    if seen.nans != stats.nans:
        yield f"has {seen.nans:,} NaNs, but its statistics say {stats.nans:,}"
    if seen.low is None or seen.unreadable:
        return
    low: Any = decode(kind, stats.min)
    high: Any = decode(kind, stats.max)
    if low is not None and seen.low < low:
        yield f"has the value {seen.low!r} below its lower bound {low!r}"
    if high is not None and seen.high > high:
        yield f"has the value {seen.high!r} above its upper bound {high!r}"


_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawText:
    """The first value of a column that is not UTF-8, and the write that it came with."""

    what: str
    source: str


class Texts:
    """Collects the rows of one chunk, then reports text that is not UTF-8."""

    def __init__(self, meta: BlockMeta, schema: pa.Schema) -> None:
        self._meta = meta
        self._names = [
            field.name for field in schema if field.name != _SOURCE and holds_text(field.type)
        ]
        self._found: dict[str, RawText] = {}
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows, which have the schema."""
        for name in self._names:
            if name not in self._found:
                self._look(name, rows)
        self._rows += rows.num_rows

    def problems(self) -> Iterator[RawText]:
        """Report what was found, once for each column."""
        yield from self._found.values()

    def _look(self, name: str, rows: pa.Table) -> None:
        before = 0
        for array in rows.column(name).chunks:
            row = first_not_text(array)
            if row is not None:
                what = other_than_text(array, row, name, self._rows + before)
                self._found[name] = RawText(what=what, source=self._source(rows, before + row))
                return
            before += len(array)

    def _source(self, rows: pa.Table, row: int) -> str:
        if _SOURCE not in rows.schema.names:
            return self._meta.sources[0]
        return str(rows.column(_SOURCE)[row])

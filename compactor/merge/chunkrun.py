"""A chunk of an input block as a run: checked, filtered and brought to the result's schema.

Rules:
- Rows come in the table's schema of now (``adapt``: by field id, widened, null where the chunk is older), followed
  by ``_source`` as a number: the place of the row's source among all sources of the merge. Numbers cost nothing
  to gather and to concatenate; ``result.py`` turns them back into names.
- In a block of level 1 the source is implied; in any other it is read.
- Rows of excepted sources are dropped, and counted; so every row read is either handed on or dropped.
- The chunk's declared number of rows is what it holds, or the merge ends with DamagedInput.
- Where the machine fails to read (no memory, a failing disk, no more open files), its error is raised as it is: it says
  nothing about the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blockstore.format.block import ChunkFile
from blockstore.format.schema import adapt
from compactor.merge.engine import DamagedInput
from compactor.merge.order import KeyPart
from compactor.merge.ranges import KeyRange
from compactor.merge.stage import Stage, Staged

__all__ = ["SOURCE", "ChunkRun", "ChunkSpec", "Sources"]

SOURCE = "_source"

_INFLATION = 3
"""Arrow bytes a byte of compressed Parquet, roughly: only buffer sizes depend on it."""

_VARIABLE_BYTES = 24
"""What a value of a type without a fixed width takes at least, roughly."""

_STREAM_BYTES = 64 << 10
"""Read-ahead a column of an open chunk: small, since a merge keeps many chunks open."""

_WHOLE_BYTES = 256 << 10
"""A chunk of at most this many bytes in memory is read at once, which costs a fraction of reading in batches."""

_BATCH_ROWS = (256, 65_536)
_PROBE_ROWS = 1_024


class Sources:
    """The sources of a whole merge, numbered; ``excepted`` holds, by block, the numbers to be dropped."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = pa.array(names, pa.string())
        self._numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def numbers(self, column: pa.Array, ulid: str) -> pa.Array:
        """The numbers of a ``_source`` column. Raises DamagedInput for a source that the block does not list."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        places = pc.index_in(encoded.dictionary, value_set=self.names)
        numbers = places.take(encoded.indices)
        if numbers.null_count:
            row = pc.index(pc.is_null(numbers), True).as_py()
            raise DamagedInput(
                ulid,
                f"block {ulid} has a row of the source {column[row].as_py()!r}, which no block of the merge lists "
                "among its sources: mark the block with no-compact and look at how it was written",
            )
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSpec:
    """One chunk to merge, and what is known about it before it is opened."""

    ulid: str
    file: ChunkFile
    source: int | None
    """The number of the implied source, or None where the chunk has a column of sources."""
    excepted: frozenset[int] = frozenset()
    floor: KeyPart | None = None
    ceiling: KeyPart | None = None
    within: KeyRange | None = None
    """The only rows that are read, or None for all."""


class ChunkRun:
    """The rows of one chunk, in their order."""

    def __init__(self, spec: ChunkSpec, schema: pa.Schema, sources: Sources, stage: Stage) -> None:
        self.spec = spec
        self.floor = spec.floor
        self.ceiling = spec.ceiling
        self.bytes = max(spec.file.bytes * _INFLATION, spec.file.rows * _least_width(schema))
        self.read_rows = 0
        self.dropped_rows = 0
        self._looked_at = 0
        self._schema = schema
        self._sources = sources
        self._stage = stage
        self._staged: Staged | None = None
        self._batches: Iterator[pa.Table] | None = None

    @property
    def exhausted(self) -> bool:
        """Whether every row was read; the declared number of rows was compared with the file's when it was opened."""
        return self._looked_at == self.spec.file.rows

    def read(self, goal_bytes: int) -> pa.Table | None:
        """The next rows that are not excepted. Raises DamagedInput."""
        if self._batches is None:
            self._batches = self._open(goal_bytes)
        for table in self._batches:
            self._looked_at += table.num_rows
            mine = self._within(table)
            self.read_rows += mine.num_rows
            kept = self._kept(mine)
            if kept.num_rows:
                return kept
            if self.exhausted:
                break
        return None

    def close(self) -> None:
        self._batches = None if self._batches is None else iter(())
        if self._staged is not None:
            self._staged.close()
            self._staged = None

    def _open(self, goal_bytes: int) -> Iterator[pa.Table]:
        self._staged = self._stage.open(self.spec.ulid, self.spec.file)
        try:
            parquet = pq.ParquetFile(
                self._staged.file,
                pre_buffer=False,
                buffer_size=_STREAM_BYTES,
                read_dictionary=[SOURCE] if self.spec.source is None else None,
            )
            rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise self._cause(error) from None
        if rows != self.spec.file.rows:
            raise DamagedInput(
                self.spec.ulid,
                f"chunk {self.spec.file.path} of block {self.spec.ulid} holds {rows:,} rows, but its "
                f"meta.json says {self.spec.file.rows:,}: restore it from a copy",
            )
        if (SOURCE in schema.names) != (self.spec.source is None):
            raise DamagedInput(
                self.spec.ulid,
                f"chunk {self.spec.file.path} of block {self.spec.ulid} "
                f"{'lacks the column _source' if self.spec.source is None else 'has a column _source'}, which its "
                "level says otherwise: restore the block from a copy",
            )
        if self.bytes <= max(goal_bytes, _WHOLE_BYTES):
            return self._tables(lambda: [parquet.read(use_threads=False)])
        groups = self._groups(parquet)
        return self._tables(lambda: self._read_batches(parquet, goal_bytes, groups)) if groups else iter(())

    def _groups(self, parquet: pq.ParquetFile) -> list[int]:
        """The row groups to be read: those that can hold rows of the range, or all."""
        groups = list(range(parquet.num_row_groups))
        within = self.spec.within
        if within is None:
            return groups
        kind = self._schema.field(within.column).type
        held = [group for group in groups if within.may_hold(parquet.metadata.row_group(group), kind)]
        left_out = set(groups) - set(held)
        self._looked_at += sum(parquet.metadata.row_group(group).num_rows for group in left_out)
        return held

    def _read_batches(
        self, parquet: pq.ParquetFile, goal_bytes: int, groups: list[int]
    ) -> Iterator[pa.Table]:
        """Tables of about half the goal, so that a buffer can be kept nearly full.

        How wide rows are is measured on the first few: encodings hide it, a hundredfold where long texts repeat.
        """
        probe = next(parquet.iter_batches(_PROBE_ROWS, row_groups=groups, use_threads=False))
        width = max(1, probe.nbytes // probe.num_rows)
        least, most = _BATCH_ROWS
        rows = max(least, min(most, goal_bytes // (2 * width)))
        batches = parquet.iter_batches(rows, row_groups=groups, use_threads=False)
        return (pa.Table.from_batches([batch]) for batch in batches)

    def _tables(self, read: Callable[[], Iterable[pa.Table]]) -> Iterator[pa.Table]:
        try:
            for table in read():
                yield self._adapted(table)
        except (pa.ArrowException, OSError) as error:
            raise self._cause(error) from None

    def _adapted(self, table: pa.Table) -> pa.Table:
        if self.spec.source is not None:
            numbers = pa.array(np.full(table.num_rows, self.spec.source, dtype=np.int32))
        else:
            position = table.schema.get_field_index(SOURCE)
            numbers = self._sources.numbers(_whole(table.column(position)), self.spec.ulid)
            table = table.remove_column(position)
        return adapt(table, self._schema).append_column(SOURCE, numbers)

    def _within(self, table: pa.Table) -> pa.Table:
        """The rows of the range. Behind its end nothing more is read: a chunk that is sorted holds no row of it there, and
        of one that is not the rows missed are missing in the sum of all ranges, which is compared."""
        within = self.spec.within
        if within is None or not table.num_rows:
            return table
        if within.is_past(table):
            self._looked_at = self.spec.file.rows
            self._batches = iter(())
        return within.within(table)

    def _kept(self, table: pa.Table) -> pa.Table:
        if not self.spec.excepted:
            return table
        hidden = pa.array(sorted(self.spec.excepted), pa.int32())
        kept = table.filter(pc.invert(pc.is_in(table.column(SOURCE), value_set=hidden)))
        self.dropped_rows += table.num_rows - kept.num_rows
        return kept

    def _cause(self, error: Exception) -> Exception:
        """What a failed read is to be raised as: the machine's fault as it is, any other as the block's."""
        # Garbage is an OSError too, but one without a number: only the system gives it one.
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            return error
        return DamagedInput(
            self.spec.ulid,
            f"chunk {self.spec.file.path} of block {self.spec.ulid} has the bytes that its meta.json promises, but "
            f"is no readable Parquet file ({error}): restore the block from its source",
        )


def _least_width(schema: pa.Schema) -> int:
    """The bytes of a row in Arrow, at least and roughly."""
    return sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width + 7) // 8
    except ValueError:  # no fixed width
        return _VARIABLE_BYTES


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

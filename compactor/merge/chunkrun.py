"""A chunk of an input block as a run: checked, filtered and converted to the result's schema.

Rules:
- Rows have the table's current schema (``adapt``: by field id, widened, null where the chunk is
  older), followed by ``_source`` as a number: the place of the row's source among all sources of
  the merge. Numbers are cheap to gather and to concatenate; ``result.py`` turns them back into
  names.
- In a block of level 1 the source is implied; in any other it is read. Where rows have an identity,
  further columns follow that say which version of which row each one is (``versions.py``).
- Rows of excepted sources, and those to leave out, are dropped, and counted; so every row read is
  either passed on or dropped.
- The chunk holds its declared number of rows, or the merge ends with DamagedInput.
- A chunk that is small in memory is read at once; a larger one in batches, by a reader that needs
  free memory (``shared.py``). If there is none, the chunk is read once, put on the work disk in
  small batches, and read from there.
- If the machine fails to read (no memory, a failing disk, too many open files), its error is raised
  as it is: it says nothing about the block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blockstore.compactor.merge.batches import batches
from blockstore.compactor.merge.codes import with_small_dictionaries
from blockstore.compactor.merge.engine import DamagedInput
from blockstore.compactor.merge.order import KeyPart
from blockstore.compactor.merge.part import part_of
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.compactor.merge.shared import Shared
from blockstore.compactor.merge.sources import SOURCE, Sources, with_numbers
from blockstore.compactor.merge.spill import SpilledRun, pack
from blockstore.compactor.merge.stage import Stage, Staged
from blockstore.compactor.merge.versions import (
    LEFT_OUT,
    Implied,
    Places,
    column,
    missing,
    numbered,
)
from blockstore.compactor.merge.weight import STREAM_BYTES, Weight, weigh, weigh_plain
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.coded import check_codes
from blockstore.format.footer import Footer
from blockstore.format.part_file import FilePart
from blockstore.format.schema import adapt
from blockstore.format.unreadable import UNREADABLE

_WHOLE_BYTES = 256 << 10
"""A chunk of at most this many bytes in memory is read at once, which costs a fraction of reading
in batches."""

_GUESS = 2
"""Many chunks are open because they were guessed to be small: a chunk larger than this multiple of
its guess is not read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSpec:
    """One chunk to merge, and what is known about it before it is opened."""

    ulid: str
    file: ChunkFile
    source: int | None
    """The number of the implied source; None if the chunk has a column of sources."""
    excepted: frozenset[int] = frozenset()
    floor: KeyPart | None = None
    ceiling: KeyPart | None = None
    within: KeyRange | None = None
    """The only rows that are read, or None for all."""
    in_order: bool = True
    """Whether its block declares that its rows are in the merge's order."""
    leading: str | None = None
    """The name of the leading column of the merge's order in the file."""
    segments: SegmentsFile | None = None
    """The hashes of its block's segments, by which a part of it can be checked."""
    implied: Implied = field(default_factory=Implied)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A chunk that was checked, with its footer read."""

    parquet: pq.ParquetFile
    groups: tuple[int, ...]
    """The row groups to be read: those that can hold rows of the range, or all."""
    bytes: int
    """The memory of their rows."""
    weight: Weight | None
    """The weight of their rows, if the footer alone does not show it."""

    @property
    def sure(self) -> bool:
        return self.weight is None or self.weight.sure

    @property
    def all_groups(self) -> bool:
        return len(self.groups) == self.parquet.num_row_groups


class ChunkRun:
    """The rows of one chunk, in their order."""

    def __init__(self, spec: ChunkSpec, sources: Sources, stage: Stage, shared: Shared) -> None:
        self.spec = spec
        self.floor = spec.floor
        self.ceiling = spec.ceiling
        self.read_rows = 0
        self.dropped_rows = 0
        self._looked_at = 0
        self._sources = sources
        self._stage = stage
        self._shared = shared
        self._staged: Staged | None = None
        self._opened: _Opened | None = None
        self._bytes: int | None = None
        self._batches: Iterator[pa.Table] | None = None
        self._coded: list[str] = []
        self._taken = 0
        self._places = Places(())
        self._packed: SpilledRun | None = None

    @property
    def bytes(self) -> int:
        """About how much memory all its rows take; a guess until it is open."""
        return self._shared.guess(self.spec.file) if self._bytes is None else self._bytes

    @property
    def exhausted(self) -> bool:
        """Whether every row was read; opening it has compared the declared number of rows with the
        file's."""
        return self._looked_at == self.spec.file.rows

    def with_small_dictionaries(self) -> list[str]:
        """The text columns that may be read as numbers. Call it on an open chunk, before reading.

        Raises DamagedInput.
        """
        assert self._opened is not None
        return self._with_small_dictionaries(self._opened, None)

    def open(self) -> None:
        """Check the chunk and weigh it, before anything is read. Raises DamagedInput."""
        if self._bytes is None:
            self._opened = self._open()
            self._bytes = self._opened.bytes

    def read(self, goal_bytes: int) -> pa.Table | None:
        """The next rows that are not excepted. Raises DamagedInput."""
        if self._batches is None:
            self.open()
            self._batches = self._begin(goal_bytes)
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
        self._batches = iter(())
        self._end_reading()
        if self._packed is not None:
            self._packed.close()
            self._packed = None

    def _end_reading(self) -> None:
        """Release the file and the memory of its reader."""
        if self._staged is not None:
            self._staged.close()
            self._staged = None
        self._opened = None
        self._shared.give_back(self._taken)
        self._taken = 0

    def _open(self) -> _Opened:
        self._staged = self._stage_it()
        self._looked_at = self._staged.skipped_rows
        try:
            parquet = self._parquet(self._staged)
            metadata, schema = parquet.metadata, parquet.schema_arrow
        except UNREADABLE as error:
            raise self._cause(error) from None
        rows = metadata.num_rows + self._staged.skipped_rows
        if rows != self.spec.file.rows:
            raise DamagedInput(
                self.spec.ulid,
                f"chunk {self.spec.file.path} of block {self.spec.ulid} has "
                f"{rows:,} rows, but its meta.json says {self.spec.file.rows:,}: "
                "restore it from a copy",
            )
        if (SOURCE in schema.names) != (self.spec.source is None):
            raise DamagedInput(
                self.spec.ulid,
                f"chunk {self.spec.file.path} of block {self.spec.ulid} "
                f"{'lacks the column' if self.spec.source is None else 'has a column'} _source, "
                "which contradicts its level: restore the block from a copy",
            )
        lacking = missing(self.spec.implied, schema.names, self._shared.extra)
        if lacking is not None:
            raise DamagedInput(
                self.spec.ulid,
                f"chunk {self.spec.file.path} of block {self.spec.ulid} lacks the column "
                f"{lacking}, which its block has: restore the block from a copy",
            )
        groups = self._groups(metadata)
        plain = weigh_plain(
            metadata, self._shared.varying(schema, metadata), self._shared.row_bytes
        )
        if plain is not None:
            return _Opened(parquet=parquet, groups=groups, bytes=plain, weight=None)
        weight = self._weigh(parquet, groups)
        return _Opened(parquet=parquet, groups=groups, bytes=weight.bytes, weight=weight)

    def _stage_it(self) -> Staged:
        """The file to read: the chunk, or the pages of it with rows of the range."""
        spec, within, leading = self.spec, self.spec.within, self.spec.leading
        # Positions of rows are those of the complete chunk.
        by_place = self._shared.extra or spec.implied.left_out is not None
        if within is None or leading is None or not spec.in_order or by_place:
            return self._stage.open(spec.ulid, spec.file)
        kind = self._shared.schema.field(within.column).type

        def part(footer: Footer) -> FilePart | None:
            found = part_of(footer, spec.file, leading, within, kind)
            # What the footer of the complete chunk says is compared with meta.json in any case.
            return found if footer.metadata.num_rows == spec.file.rows else None

        return self._stage.open_part(spec.ulid, spec.file, spec.segments, part)

    def _groups(self, metadata: pq.FileMetaData) -> tuple[int, ...]:
        within = self.spec.within
        groups = range(metadata.num_row_groups)
        if within is None:
            return tuple(groups)
        kind = self._shared.schema.field(within.column).type
        leading = self.spec.leading
        return tuple(
            group
            for group in groups
            if leading is None or within.may_hold(metadata.row_group(group), leading, kind)
        )

    def _weigh(self, parquet: pq.ParquetFile, groups: tuple[int, ...]) -> Weight:
        assert self._staged is not None
        metadata, width = parquet.metadata, self._shared.row_bytes
        columns = self._shared.varying(parquet.schema_arrow, metadata)
        try:
            return weigh(self._staged.file, metadata, groups, columns, width, without=SOURCE)
        except UNREADABLE as error:
            raise self._cause(error) from None

    def _begin(self, goal_bytes: int) -> Iterator[pa.Table]:
        opened = self._opened
        assert opened is not None
        if self._shared.coded:
            opened = self._with_codes(opened)
        metadata = opened.parquet.metadata
        self._places = Places(_ranges(metadata, opened.groups))
        whole = max(goal_bytes, min(_WHOLE_BYTES, _GUESS * self._shared.guess(self.spec.file)))
        if opened.all_groups and opened.sure and opened.bytes <= whole:
            return self._tables(lambda: [opened.parquet.read(use_threads=False)])
        self._looked_at += metadata.num_rows - sum(
            metadata.row_group(group).num_rows for group in opened.groups
        )
        if not opened.groups:
            return iter(())
        weight = opened.weight or self._weigh(opened.parquet, opened.groups)
        tables = self._tables(
            lambda: batches(opened.parquet, opened.groups, weight, goal_bytes, self._coded)
        )
        if not self._shared.take(weight.reader_bytes):
            return self._from_work_disk(tables, goal_bytes)
        self._taken = weight.reader_bytes
        return tables

    def _with_codes(self, opened: _Opened) -> _Opened:
        """The chunk, with texts that it stores as numbers of a dictionary read as numbers."""
        assert self._staged is not None
        self._coded = self._with_small_dictionaries(opened, self._shared.coded)
        if not self._coded:
            return opened
        parquet = self._parquet(self._staged, self._coded, metadata=opened.parquet.metadata)
        return replace(opened, parquet=parquet)

    def _with_small_dictionaries(
        self, opened: _Opened, columns: Collection[str] | None
    ) -> list[str]:
        assert self._staged is not None
        try:
            return with_small_dictionaries(
                self._staged.file, opened.parquet, columns, opened.groups
            )
        except UNREADABLE as error:
            raise self._cause(error) from None

    def _parquet(
        self, staged: Staged, coded: Sequence[str] = (), metadata: pq.FileMetaData | None = None
    ) -> pq.ParquetFile:
        """Raises what Arrow raises."""
        return pq.ParquetFile(
            staged.file,
            metadata=metadata,
            pre_buffer=False,
            # What is in memory is decoded in place.
            buffer_size=0 if staged.in_memory else STREAM_BYTES,
            read_dictionary=[*coded, SOURCE] if self.spec.source is None else list(coded),
        )

    def _from_work_disk(self, tables: Iterator[pa.Table], goal_bytes: int) -> Iterator[pa.Table]:
        """Put the tables on the work disk, where no page is larger than a batch, and read them from
        there."""
        path = self._stage.path(f"packed-{self.spec.ulid}-{Path(self.spec.file.path).stem}")
        texts = with_numbers(self._shared.schema, self._shared.extra)
        codes = with_numbers(self._shared.read_schema, self._shared.extra)
        with self._shared.alone:
            self._packed = packed = pack(
                (adapt(table, texts) for table in tables), texts, path, batch_bytes=goal_bytes // 2
            )
            self._end_reading()
        return (adapt(table, codes) for table in iter(lambda: packed.read(goal_bytes), None))

    def _tables(self, read: Callable[[], Iterable[pa.Table]]) -> Iterator[pa.Table]:
        try:
            for table in read():
                check_codes(table)
                yield self._adapted(table)
        except UNREADABLE as error:
            raise self._cause(error) from None

    def _adapted(self, table: pa.Table) -> pa.Table:
        implied = self.spec.implied
        source = self.spec.source if implied.former is None else implied.former
        if source is not None:
            numbers = pa.array(np.full(table.num_rows, source, dtype=np.int32))
        else:
            numbers = self._sources.numbers(_whole(table.column(SOURCE)), self.spec.ulid)
        rows = adapt(table, self._shared.read_schema)
        if not self._shared.extra:
            return rows.append_column(SOURCE, numbers)
        places = self._places.next(table.num_rows)
        rows = rows.append_column(SOURCE, numbered(numbers, implied, places))
        for name in self._shared.extra:
            rows = rows.append_column(name, column(name, table, implied, places))
        return rows

    def _within(self, table: pa.Table) -> pa.Table:
        """The rows of the range. Nothing is read past its end: a sorted chunk has no row of it
        there, and rows missed in an unsorted chunk show in the sum over all ranges."""
        within = self.spec.within
        if within is None or not table.num_rows:
            return table
        if not self.spec.in_order:
            return within.within(table)
        if within.is_past(table):
            self._looked_at = self.spec.file.rows
            self._batches = iter(())
        return within.sliced(table)

    def _kept(self, table: pa.Table) -> pa.Table:
        left_out = self.spec.implied.left_out is not None
        if not self.spec.excepted and not left_out:
            return table
        dropped = {*self.spec.excepted, *((LEFT_OUT,) if left_out else ())}
        hidden = pa.array(sorted(dropped), pa.int32())
        kept = table.filter(pc.invert(pc.is_in(table.column(SOURCE), value_set=hidden)))
        self.dropped_rows += table.num_rows - kept.num_rows
        return kept

    def _cause(self, error: Exception) -> Exception:
        """The error to raise for a failed read: the machine's as it is, any other as damage of the
        block."""
        # Garbage is an OSError too, but without an errno: only the system sets one.
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            return error
        return DamagedInput(
            self.spec.ulid,
            f"chunk {self.spec.file.path} of block {self.spec.ulid} has the size and hash of its "
            f"meta.json, but is not a readable Parquet file ({error}): restore the block from its "
            "source",
        )


def _ranges(metadata: pq.FileMetaData, groups: Sequence[int]) -> list[tuple[int, int]]:
    """The first position of each of these row groups, and its rows."""
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    firsts = [0, *accumulate(rows)]
    return [(firsts[group], rows[group]) for group in groups]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

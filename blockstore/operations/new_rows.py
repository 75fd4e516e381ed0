"""The new rows of an overwrite: checked against its condition, written once, made a block when it
is known what they replace.

Rules:
- Every row carries ``_source``, the ULID under which the write began; so the rows need not be
  written again when the blocks that they replace have changed by the time of the commit.
- The block accounts for that ULID and for the sources of the blocks replaced completely, and has
  level 2 or more; it is visible by its index entry alone (format, "sources").
- Another set of sources is another block: an uploaded one is never edited (R1), so the chunks are
  copied under a new ULID, and ``_source`` stays.
- With a condition every new row must meet it; the first that does not is named, and nothing is
  visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.files.look import FileLook, look_again
from blockstore.format.block import BlockMeta, Job, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.format.new_block import WrittenChunks, block_meta, write_segments
from blockstore.format.schema import with_reserved
from blockstore.format.sources import write_sources
from blockstore.format.value_text import plain, value_text
from blockstore.ids import ulid_time_ms
from blockstore.index.state import State
from blockstore.lifecycle.upload import in_time, upload_again
from blockstore.operations.access import Access
from blockstore.operations.incoming import batches_of
from blockstore.operations.kept_rows import SOURCE, parent_of
from blockstore.operations.matching import untrue
from blockstore.operations.staging import complete, renewed
from blockstore.predicate import Predicate
from blockstore.scan.chunk import HIDDEN

BUFFER_BYTES = 256 << 20
"""Rows of about so many bytes in memory become one chunk."""
_PIECE_ROWS = 131_072
_ROW = "_blockstore_row"


class Judge:
    """Takes rows that must meet a condition, and refuses the first that does not."""

    def __init__(
        self, definition: Definition, labels: Mapping[str, str], predicate: Predicate, where: str
    ) -> None:
        hidden = [name for name in predicate.columns if name in HIDDEN.names]
        if hidden:
            raise Invalid(
                f"the condition of an overwrite names {hidden[0]}, which new rows do not have "
                "yet: name columns of the table, or delete those rows and append the new ones"
            )
        self._definition = definition
        self._labels = {
            name: labels.get(name)
            for name in predicate.columns
            if name not in definition.schema.names
        }
        self._predicate = predicate
        self._outside = None if predicate.everything else untrue(predicate).expression
        self._where = where
        self.rows = 0

    def take(self, data: Any) -> Iterator[pa.RecordBatch]:
        """The rows under the table's schema, piece by piece.

        Raises Invalid for one that does not fit or meet.
        """
        for batch in batches_of(data):
            for start in range(0, max(batch.num_rows, 1), _PIECE_ROWS):
                piece = cast_batch(
                    batch.slice(start, _PIECE_ROWS), self._definition, first_row=self.rows
                )
                self._check(piece)
                self.rows += piece.num_rows
                yield piece

    def _check(self, piece: pa.RecordBatch) -> None:
        if self._outside is None:
            return
        rows = pa.Table.from_batches([piece])
        for name, value in self._labels.items():
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(rows)))
        rows = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
        found = rows.filter(self._outside).slice(0, 1)
        if len(found):
            names = self._predicate.columns
            values = ", ".join(f"{name} = {value_text(plain(found[name][0]))}" for name in names)
            row = self.rows + found[_ROW][0].as_py()
            raise Invalid(
                f"row {row:,} (from 0) of the new rows has {values or 'other values'}, and the new "
                f"rows replace those for which {self._where} is true: drop it, or widen the "
                "condition; nothing was written",
                row=row,
            )


@dataclass(frozen=True, slots=True)
class Writing:
    """New rows that are being uploaded."""

    _writer: BlockWriter
    _definition: Definition
    _source: str

    @property
    def held_bytes(self) -> int:
        """The size of the rows that are not in a chunk yet."""
        return self._writer.held_bytes

    def put(self, rows: pa.RecordBatch) -> None:
        """Take rows under the table's schema."""
        self._writer.write(with_source(rows, self._definition, self._source))

    def flush(self) -> None:
        """Write the rows that are held as a chunk."""
        self._writer.flush()


class FreshRows:
    """New rows on their way into a block."""

    def __init__(
        self,
        access: Access,
        definition: Definition,
        *,
        labels: Mapping[str, str] | None,
        job: Job | None,
        producer: str,
        source: str | None = None,
        written: WrittenChunks | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._access = access
        self._buffer_bytes = buffer_bytes
        self._bucket = access.bucket
        self._world = access.world
        self._definition = definition
        self._labels = dict(definition.labels if labels is None else labels)
        self._job = job
        self._producer = producer
        self.source = access.world.ids.ulid() if source is None else source
        """The write that the rows come from; given where other processes have ``written`` them."""
        self._written = written
        self._durable: BlockMeta | None = None

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenChunks:
        """Upload the rows; nothing of them is visible. After an error the write is over."""
        with self.writing() as writing:
            for batch in batches:
                writing.put(batch)
        assert self._written is not None, "the writer has finished"
        return self._written

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Upload the rows that are put, as ``write``; all of them are durable when it ends."""
        files = FileLook.of(self._bucket, self._world, self.source, self._definition)
        with BlockWriter(
            self._bucket,
            self._world,
            self.source,
            self._definition,
            labels=self._labels,
            producer=self._producer,
            buffer_bytes=self._buffer_bytes,
            extra_columns=(SOURCE,),
            accept=None if files is None else files.take,
        ) as writer:
            yield Writing(writer, self._definition, self.source)
            self._written = writer.finish()

    def block(
        self, replaced: Sequence[BlockMeta], parents: Sequence[Parent] | None = None
    ) -> BlockMeta | None:
        """The durable block (R3) of the rows that takes the place of ``replaced``;

        None if there are no rows. ``parents`` are those blocks, unless some were never committed.
        """
        assert self._written is not None, "rows are written before they are a block"
        if not self._written.rows:
            return None
        sources = tuple(sorted({self.source}.union(*(meta.sources for meta in replaced))))
        named = tuple(map(parent_of, replaced) if parents is None else parents)
        durable = self._durable
        if durable is None:
            durable = self._first(self._written, sources, named)
        elif durable.sources != sources:
            durable = self._again(durable, sources, named)
        self._durable = durable
        return durable

    def renew(self, state: State) -> None:
        """Upload the block again if it is condemned: under a new ULID that keeps the sources."""
        if self._durable is not None:
            before, self._durable = self._durable, renewed(self._access, state, self._durable)
            if before is not self._durable:
                look_again(self._bucket, self._world, self._durable)

    def _first(
        self, written: WrittenChunks, sources: tuple[str, ...], parents: tuple[Parent, ...]
    ) -> BlockMeta:
        meta = block_meta(
            written,
            ulid=self.source,
            definition=self._definition,
            visible_by=VisibleBy.INDEX,
            producer=self._producer,
            level=2,
            sources=sources,
            parents=parents,
            labels=self._labels,
            own=True,
            uploaded_time=self._world.clock.now_ms(),
            job=self._job,
            sources_file=write_sources(self._bucket, self.source, sources),
            segments=write_segments(self._bucket, self.source, written),
        )
        meta = in_time(self._bucket, self._world, meta, ulid_time_ms(self.source))
        if meta.ulid != self.source:
            look_again(self._bucket, self._world, meta)
        return complete(self._access, meta)

    def _again(
        self, durable: BlockMeta, sources: tuple[str, ...], parents: tuple[Parent, ...]
    ) -> BlockMeta:
        copied = upload_again(self._bucket, self._world, replace(durable, files=durable.chunks))
        listed = write_sources(self._bucket, copied.ulid, sources)
        files = copied.files if listed is None else (*copied.files, listed)
        meta = replace(copied, sources=sources, parents=parents, files=files)
        look_again(self._bucket, self._world, meta)
        return complete(self._access, meta)


def with_source(batch: pa.RecordBatch, definition: Definition, source: str) -> pa.RecordBatch:
    """Rows under the table's schema, each with the write that it comes from."""
    places = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array([source], pa.string()))
    schema = with_reserved(definition.schema, (SOURCE,))
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

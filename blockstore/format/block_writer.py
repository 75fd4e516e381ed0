"""Writing a block's chunks: rows in, Parquet files out, in one pass and in bounded memory.

Rules:
- A complete chunk is sorted by the table's sort key. Rows are gathered up to ``buffer_bytes``,
  sorted and written as one chunk; rows known to be in order (``presorted``: a merge) go out row
  group by row group, and a chunk ends before ``chunk_size``.
- Statistics and hashes, also those of segments, are computed during the write; no byte is read
  twice.
- At most ``buffer_bytes`` and one row group are held, however large the batches are (a batch is cut
  before it is cast), and some megabytes of small chunks, which are sent side by side.
- A row is refused before it is written: ``write`` checks types, nulls and names. After an error
  nothing that was written is visible; chunks in the bucket are debris that no meta.json names.
- This module never deletes: after ``abort``, a later cleaning removes the debris.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket
from blockstore.errors import Invalid
from blockstore.format.block import BlockKind, BlockMeta, ChunkFile, Job, SegmentsFile, VisibleBy
from blockstore.format.buffering import Held
from blockstore.format.casting import cast_batch
from blockstore.format.chunk_size import check_chunk_size
from blockstore.format.chunk_statistics import ChunkStatistics, StatisticsPlan
from blockstore.format.coded import renumbered, with_codes
from blockstore.format.definition import Definition
from blockstore.format.encoding import end_of_data, open_parquet, rows_per_group
from blockstore.format.labels import check_labels
from blockstore.format.new_block import WrittenChunks, block_meta, to_ms
from blockstore.format.outbox import Outbox
from blockstore.format.schema import with_reserved
from blockstore.format.segments import FileSegments, packed
from blockstore.format.sink import MemorySink, Sink, StreamSink
from blockstore.format.sorting import sort_order
from blockstore.ids import ulid_time_ms
from blockstore.names import chunk_path, object_key, segments_path
from blockstore.world import World

MIB = 1024 * 1024
_SMALL = 16 * MIB
"""A chunk of fewer bytes in memory is one PUT instead of a stream."""


class BlockWriter:
    """Writes the chunks of one block, or of a part of one; use it as a context manager, or end it
    with ``finish`` (a part), ``finish_block`` or ``abort``."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        ulid: str,
        definition: Definition,
        *,
        labels: Mapping[str, str] | None = None,
        producer: str,
        job: Job | None = None,
        chunk_size: int = 256 * MIB,
        row_group_rows: int = 1_000_000,
        row_group_bytes: int = 128 * MIB,
        buffer_bytes: int = 256 * MIB,
        token: str = "",
        extra_columns: tuple[str, ...] = (),
        coded: Collection[str] = (),
        presorted: bool = False,
        accept: Callable[[pa.RecordBatch, int], None] | None = None,
    ) -> None:
        """``coded`` are the text columns that come as codes of a dictionary, which are written as
        they are. ``accept`` gets new rows under the schema, with the number of the first, before
        they are written, and raises Invalid for rows to refuse."""
        check_labels(labels or {})
        self.ulid = ulid
        self.rows = 0
        self._bucket = bucket
        self._world = world
        self._definition = definition
        self._labels = labels
        self._producer = producer
        self._job = job
        self._chunk_size = check_chunk_size(chunk_size, "chunk_size")
        self._row_group_rows = row_group_rows
        self._row_group_bytes = row_group_bytes
        self._buffer_bytes = (
            min(buffer_bytes, row_group_bytes) if presorted else min(buffer_bytes, chunk_size)
        )
        self._token = token
        self._extra = extra_columns
        self._coded = coded
        self._presorted = presorted
        self._accept = accept
        self._schema = with_reserved(definition.schema, extra_columns)
        self._held = Held(coded)
        self._outbox = Outbox(bucket, world)
        self._open: _OpenChunk | None = None
        self._segments: list[FileSegments] = []
        self._files: list[ChunkFile] = []
        self._times: tuple[int, int] | None = None
        self._ended = False

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended:
            self.abort()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows.

        Raises Invalid, naming the column (and the row, counted from 0 over all writes).
        """
        if self._ended:
            raise Invalid(
                f"block {self.ulid} is finished and takes no more rows: write them to a new block"
            )
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            for piece in self._pieces(batch):
                self._take(piece)

    @property
    def held_bytes(self) -> int:
        """The size of the rows that are in no chunk yet; never less."""
        return self._held.bytes

    def flush(self) -> None:
        """Write the rows that are held as a chunk of their own; not where rows are presorted."""
        assert not self._presorted, "presorted rows go out row group by row group"
        if self._held.rows:
            self._flush(last=False)
        self._outbox.send()

    def finish(self) -> WrittenChunks:
        """Write the rows that are held; return the chunks, none if there were no rows.

        They are a part of a block: the code that joins the parts stores the hashes of their
        segments (``write_segments``).
        """
        self._seal_last()
        self._send_all()
        return self._written(None)

    def finish_block(self) -> WrittenChunks:
        """As ``finish``, for chunks that are the whole block: the hashes of their segments are
        stored side by side with the last of them."""
        self._seal_last()
        found = packed(self._segments)
        if found is not None:
            self._outbox.put(object_key(self.ulid, segments_path(found[1].sha256)), found[0])
        self._send_all()
        return self._written(None if found is None else found[1])

    def describe(
        self,
        written: WrittenChunks,
        *,
        visible_by: VisibleBy = VisibleBy.AGE,
        kind: BlockKind = BlockKind.PLAIN,
        uploaded_time: int = 0,
    ) -> BlockMeta:
        """Return the level-1 block of the chunks of ``finish``; ``block_meta`` makes others."""
        return block_meta(
            written,
            ulid=self.ulid,
            definition=self._definition,
            visible_by=visible_by,
            kind=kind,
            producer=self._producer,
            labels=self._labels,
            uploaded_time=uploaded_time,
            job=self._job,
            segments=written.segments_file,
        )

    def abort(self) -> None:
        """Give up the block; allowed at any time.

        Chunks that were already written stay as debris.
        """
        self._ended = True
        self._held = Held(self._coded)
        self._outbox.drop()
        if self._open is not None:
            self._open.abort()
            self._open = None

    def _seal_last(self) -> None:
        """Write the rows that are held. The last chunk is not sent yet."""
        if self._ended:
            raise Invalid(f"block {self.ulid} is finished already: call finish once")
        if self._held.rows:
            self._flush(last=True)
        if self._open is not None and not self._open.sealed:
            self._seal()

    def _written(self, segments_file: SegmentsFile | None) -> WrittenChunks:
        self._ended = True
        low, high = self._time_range()
        return WrittenChunks(
            files=tuple(self._files),
            rows=sum(file.rows for file in self._files),
            bytes=sum(file.bytes for file in self._files),
            min_time=low,
            max_time=high,
            segments=tuple(self._segments),
            segments_file=segments_file,
        )

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in slices that are small enough to cast and to hold."""
        rows = batch.num_rows
        if rows == 0:
            cast_batch(batch, self._definition, extra=self._extra, coded=self._coded)
            return
        limit = min(self._buffer_bytes, self._row_group_bytes)
        step = self._row_group_rows
        if batch.get_total_buffer_size() > limit:
            step = min(step, max(1, rows * limit // max(1, batch.nbytes)))
        if step >= rows:
            yield batch
            return
        for start in range(0, rows, step):
            yield batch.slice(start, step)

    def _take(self, piece: pa.RecordBatch) -> None:
        held = self._held
        batch = cast_batch(
            piece, self._definition, extra=self._extra, coded=self._coded, first_row=self.rows
        )
        if self._accept is not None:
            self._accept(batch, self.rows)
        if held.rows and not self._presorted and not held.has_room(batch, self._buffer_bytes):
            self._flush(last=False)
        held.add(batch)
        self.rows += piece.num_rows
        if held.reaches(self._buffer_bytes) or (
            self._presorted and held.rows >= self._row_group_rows
        ):
            self._flush(last=False)

    def _flush(self, *, last: bool) -> None:
        """Write what is held: row groups of an open chunk if presorted, else one sorted chunk."""
        held = self._held
        size = held.bytes if held.bytes < self._row_group_bytes else held.weigh()
        group_rows = rows_per_group(held.rows, size, self._row_group_rows, self._row_group_bytes)
        table = held.take(with_codes(self._schema, self._coded))
        if self._presorted:
            rest = self._write_groups(table, group_rows, last=last)
            if rest:
                held.put_back(table.slice(table.num_rows - rest))
            return
        order = sort_order(table, self._definition.sort_by)
        if order is not None:
            table = _contiguous(table)
        self._open = self._new_chunk(table, small=size <= _SMALL)
        self._open.write(table, order, group_rows, only=True)
        self._seal()
        if not last:
            self._send()

    def _write_groups(self, table: pa.Table, group_rows: int, *, last: bool) -> int:
        """Write complete row groups, and at the end the rest; return how many rows are left."""
        rows = table.num_rows if last else table.num_rows - table.num_rows % group_rows
        for start in range(0, rows, group_rows):
            group = renumbered(table.slice(start, group_rows), self._coded)
            if self._open is None:
                alone = last and start + group_rows >= rows
                self._open = self._new_chunk(group, small=alone and group.nbytes <= _SMALL)
            before = self._open.sink.size()
            self._open.write(group, None, group_rows, only=False)
            after = self._open.sink.size()
            if after + (after - before) > self._chunk_size:
                self._seal()
                self._send()
        return int(table.num_rows - rows)

    def _new_chunk(self, sample: pa.Table, *, small: bool) -> _OpenChunk:
        path = chunk_path(len(self._files) + 1, self._token)
        key = object_key(self.ulid, path)
        sink: Sink = MemorySink(self._outbox, key) if small else StreamSink(self._bucket, key)
        return _OpenChunk(path, sink, self._definition, self._schema, sample, self._extra)

    def _seal(self) -> None:
        """End the open chunk; it is not visible yet."""
        chunk = self._open
        assert chunk is not None
        file, segments = chunk.seal()
        self._files.append(file)
        self._segments.append(segments)
        times = chunk.times()
        if times is not None:
            low, high = times if self._times is None else self._times
            self._times = (min(low, times[0]), max(high, times[1]))

    def _send(self) -> None:
        """Make the sealed chunk visible, if there is one."""
        if self._open is not None:
            # If this fails, abort must still see the chunk.
            self._open.sink.send()
            self._open = None

    def _send_all(self) -> None:
        """Make everything that is sealed visible: a large chunk side by side with the small
        objects."""
        if self._open is not None and isinstance(self._open.sink, StreamSink):
            self._world.pool.map(lambda call: call(), (self._send, self._outbox.send))
        else:
            self._send()
            self._outbox.send()

    def _time_range(self) -> tuple[int, int]:
        """Return the range in milliseconds, the end exclusive; without a time column, the block's
        creation."""
        column = self._definition.time_column
        if self._times is None or column is None:
            created = ulid_time_ms(self.ulid)
            return created, created + 1
        kind = self._schema.field(column).type
        return to_ms(kind, self._times[0], column), to_ms(kind, self._times[1], column) + 1


class _OpenChunk:
    """One Parquet file while it is written."""

    def __init__(
        self,
        path: str,
        sink: Sink,
        definition: Definition,
        schema: pa.Schema,
        sample: pa.Table,
        extra: tuple[str, ...],
    ) -> None:
        self.path = path
        self.sink = sink
        self.sealed = False
        self._rows = 0
        self._statistics = ChunkStatistics(
            definition.memo(f"statistics {extra}", lambda: StatisticsPlan.of(definition, extra))
        )
        self._footers: list[pq.FileMetaData] = []
        self._parquet: pq.ParquetWriter = open_parquet(
            sink.file,
            schema,
            sample,
            self._footers,
            looked_up=definition.identity is not None,
        )

    def write(
        self, table: pa.Table, order: pa.UInt64Array | None, group_rows: int, *, only: bool
    ) -> None:
        """Write rows, in ``order`` if given, as row groups of ``group_rows``."""
        self._statistics.add(table, only=only)
        self._rows += table.num_rows
        if order is None:
            self._parquet.write_table(table, row_group_size=group_rows)
            return
        for start in range(0, table.num_rows, group_rows):
            # Group by group, so that a second copy of all rows is never held.
            self._parquet.write_table(
                table.take(order.slice(start, group_rows)), row_group_size=group_rows
            )

    def seal(self) -> tuple[ChunkFile, FileSegments]:
        """End the file, which is not visible yet."""
        self._parquet.close()
        hashes = self.sink.seal()
        self.sealed = True
        footer = self._footers[0]
        self._statistics.finish(footer)
        file = ChunkFile(
            path=self.path,
            bytes=hashes.bytes,
            rows=self._rows,
            sha256=hashes.sha256,
            footer=hashes.bytes - end_of_data(footer),
            columns=self._statistics.columns(),
        )
        return file, hashes.segments(self.path)

    def abort(self) -> None:
        """Give up the file.

        The Parquet writer is closed too, or it would write its footer when it is collected. Raises
        nothing: the caller is about to raise the failure that made it abort.
        """
        self.sink.abort()
        with suppress(Exception):
            self._parquet.close()

    def times(self) -> tuple[int, int] | None:
        """Return the exact bounds of the time column, in its own unit, once closed."""
        return self._statistics.times()


def _contiguous(table: pa.Table) -> pa.Table:
    """Return the table with each column in one piece, for quick ``take``; copies one at a time."""
    for position, field in enumerate(table.schema):
        if table.column(position).num_chunks > 1:
            table = table.set_column(position, field, table.column(position).combine_chunks())
    return table

"""The changes of one operation, by stream: a block of changes for each stream of which rows change.

Rules:
- A row's changes are of its stream, so an operation follows the streams of the rows that it reads;
  a new row is of the stream that the caller names, or of the table's own labels.
- A block is begun when its first row comes. All of them become visible by one entry.
- All blocks together hold ``buffer_bytes`` of rows; beyond that the one with the most writes a
  chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockMeta, Job, StreamKey
from blockstore.format.definition import Definition
from blockstore.format.labels import check_new_labels
from blockstore.index.touches import MOST, Hashes, packed
from blockstore.operations.access import Access
from blockstore.rows.block import ChangesWriter
from blockstore.rows.named import Named
from blockstore.rows.seen import Seen


class Changes(Protocol):
    """What takes changes of rows: blocks (``StreamChanges``), or nothing in a dry run."""

    @property
    def seen(self) -> Seen | None:
        """What keeps the reads of the operation; None where they need not stay as they are."""
        ...

    def put(self, stream: StreamKey, rows: pa.RecordBatch, ids: pa.Array | None = None) -> None:
        """Take complete new images of rows of a stream. ``ids`` are their row ids, null for new
        rows; none where all are new, or the table has a key."""
        ...

    def delete(self, stream: StreamKey, keys: pa.RecordBatch) -> None:
        """Take tombstones for the rows of a stream that have these identities."""
        ...


class NoChanges:
    """Takes changes and leaves them."""

    seen: Seen | None = None

    def put(self, stream: StreamKey, rows: pa.RecordBatch, ids: pa.Array | None = None) -> None:
        """Leave them."""

    def delete(self, stream: StreamKey, keys: pa.RecordBatch) -> None:
        """Leave them."""


@dataclass(frozen=True, slots=True)
class AllNamed:
    """The existing rows that the blocks of an operation name."""

    each: Sequence[Named]
    left: Sequence[Named] = ()
    """Rows that the operation has looked up and leaves as they are, or as absent: it touches none
    of them, and is planned again where others do."""

    @property
    def hashes(self) -> Hashes:
        """The hashes of all of them, and of those that are left."""
        return np.concatenate([one.hashes for one in (*self.each, *self.left)])

    @property
    def left_hashes(self) -> Hashes:
        """The hashes of those that are left."""
        found = [one.hashes for one in self.left]
        return np.concatenate(found) if found else np.zeros(0, np.uint64)

    @property
    def touched(self) -> bytes | None:
        """What an entry says of them: nothing of those that are left."""
        if sum(one.count for one in self.each) > MOST:
            return None
        return packed(np.concatenate([one.hashes for one in self.each]))


class StreamChanges:
    """Writes blocks of changes; use it as a context manager, and end it with ``finish``."""

    def __init__(
        self,
        access: Access,
        definition: Definition,
        *,
        producer: str,
        labels: Mapping[str, str] | None = None,
        job: Job | None = None,
        buffer_bytes: int = 256 << 20,
        seen: Seen | None = None,
    ) -> None:
        """Raises Invalid for labels that the table cannot have."""
        if labels is not None:
            check_new_labels(labels, definition.schema.names)
        self.own = stream_of(definition, labels)
        """The stream of new rows."""
        self.seen = seen
        """What keeps the reads of the operation; None where they need not stay as they are."""
        self._access = access
        self._definition = definition
        self._producer = producer
        self._job = job
        self._buffer_bytes = buffer_bytes
        self._writers: dict[StreamKey, ChangesWriter] = {}

    @property
    def rows(self) -> int:
        """New images and tombstones so far."""
        return sum(writer.rows for writer in self._writers.values())

    @property
    def has_left(self) -> bool:
        """Whether rows were read and are left as they are."""
        return any(writer.left.count for writer in self._writers.values())

    def put(
        self,
        stream: StreamKey,
        rows: pa.RecordBatch,
        ids: pa.Array | None = None,
        *,
        was: pa.RecordBatch | pa.Table | None = None,
        places: pa.Array | None = None,
    ) -> None:
        """Take complete new images of rows of a stream, as ``ChangesWriter.put``."""
        self._of(stream).put(rows, ids, was=was, places=places)
        self._bound()

    def delete(self, stream: StreamKey, keys: pa.RecordBatch) -> None:
        """Take tombstones, as ``Images.tombstones``."""
        self._of(stream).delete(keys)
        self._bound()

    def leave(self, stream: StreamKey, columns: Sequence[pa.Array]) -> None:
        """Take note of rows of a stream that were read and are left as they are, by the columns
        that identify them: what the operation does with others holds only if these stay so."""
        if not len(columns[0]):
            return
        if self.seen is not None:
            self.seen.rows(stream, columns)
        self._of(stream).leave(columns)

    def finish(self) -> tuple[tuple[BlockMeta, ...], AllNamed] | None:
        """Make the blocks durable; return them with the existing rows that they name.

        None if there is no row. Raises RowTwice for an identity that occurs twice in a stream.
        """
        found = [done for writer in self._writers.values() if (done := writer.finish()) is not None]
        if not found:
            return None
        return tuple(block for block, _ in found), AllNamed(
            [named for _, named in found],
            [writer.left for writer in self._writers.values() if writer.left.count],
        )

    def __enter__(self) -> StreamChanges:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._writers.values():
            writer.__exit__(kind, error, trace)

    def _of(self, stream: StreamKey) -> ChangesWriter:
        writer = self._writers.get(stream)
        if writer is None:
            writer = self._writers[stream] = ChangesWriter(
                self._access,
                self._definition,
                stream,
                producer=self._producer,
                job=self._job,
                buffer_bytes=self._buffer_bytes,
            )
        return writer

    def _bound(self) -> None:
        if len(self._writers) == 1:
            return
        writers = self._writers.values()
        if sum(writer.held_bytes for writer in writers) > self._buffer_bytes:
            max(writers, key=lambda writer: writer.held_bytes).flush()


def stream_of(definition: Definition, labels: Mapping[str, str] | None) -> StreamKey:
    """Return the stream of rows with these labels, or with the table's own."""
    own = definition.labels if labels is None else labels
    return StreamKey(tuple(sorted(own.items())), 0)

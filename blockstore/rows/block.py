"""A block of changes while it is written by one process: new images of rows of one stream, and
tombstones.

What its rows must be is in ``images.py``. An operation has a block for each stream
(``streams.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import pyarrow as pa

from blockstore.files.look import FileLook
from blockstore.format.block import BlockKind, BlockMeta, Job, StreamKey, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.operations.access import Access
from blockstore.operations.staging import complete, uploading
from blockstore.rows.images import Images
from blockstore.rows.named import Named


class ChangesWriter:
    """Writes one block of changes; use it as a context manager, and end it with ``finish``."""

    def __init__(
        self,
        access: Access,
        definition: Definition,
        stream: StreamKey,
        *,
        producer: str,
        job: Job | None = None,
        buffer_bytes: int = 256 << 20,
    ) -> None:
        self._access = access
        self._producer = producer
        self._images = Images(definition, stream)
        ulid = access.world.ids.ulid()
        self._files = FileLook.of(access.bucket, access.world, ulid, definition)
        self._chunks = BlockWriter(
            access.bucket,
            access.world,
            ulid,
            definition,
            labels=dict(stream.labels),
            producer=producer,
            job=job,
            extra_columns=self._images.extra,
            buffer_bytes=buffer_bytes,
        )

    @property
    def rows(self) -> int:
        """New images and tombstones so far."""
        return self._images.rows

    @property
    def held_bytes(self) -> int:
        """The size of the rows that are not in a chunk yet."""
        return self._chunks.held_bytes

    def flush(self) -> None:
        """Write the rows that are held as a chunk."""
        with uploading(self._producer):
            self._chunks.flush()

    def put(
        self,
        rows: pa.RecordBatch,
        ids: pa.Array | None = None,
        *,
        was: pa.RecordBatch | pa.Table | None = None,
        places: pa.Array | None = None,
    ) -> None:
        """Take complete new images, as ``Images.complete``. ``was`` are the rows that they replace,
        as they are at the version that was read: files that those name are not looked up.
        ``places`` are the rows' numbers, where they do not follow those before."""
        first = self.rows
        images = self._images.complete(rows, ids)
        if self._files is not None:
            self._files.take(images, first, was, places)
        self._chunks.write(images)

    def delete(self, keys: pa.RecordBatch) -> None:
        """Take tombstones, as ``Images.tombstones``."""
        self._chunks.write(self._images.tombstones(keys))

    def leave(self, columns: Sequence[pa.Array]) -> None:
        """Take note of rows that are left as they are, by the columns that identify them."""
        self._images.left.add(list(columns))

    @property
    def left(self) -> Named:
        """The rows that are left as they are."""
        return self._images.left

    def finish(self) -> tuple[BlockMeta, Named] | None:
        """Make the block durable; return it with the existing rows that it names.

        None if there is no row. Raises RowTwice for an identity that occurs twice.
        """
        self._images.check_once()
        with uploading(self._producer):
            written = self._chunks.finish_block()
            if not written.rows:
                return None
            meta = self._chunks.describe(
                written,
                visible_by=VisibleBy.INDEX,
                kind=BlockKind.CHANGES,
                uploaded_time=self._access.world.clock.now_ms(),
            )
            return complete(self._access, meta), self._images.named

    def __enter__(self) -> ChangesWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._chunks.abort()

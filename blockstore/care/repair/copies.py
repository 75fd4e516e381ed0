"""Where the good bytes of a block's files are: in the table, or in a replica of it.

Rule: good are bytes with the size and the SHA-256 that the block lists, whoever holds them; nothing
else is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.errors import AccessDenied, Corrupt, NotFound, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.chunk_reader import read_batches
from blockstore.format.fields import RESERVED
from blockstore.format.meta import load_meta
from blockstore.format.schema import adapt
from blockstore.names import object_key

_PIECE = 8 * 1024 * 1024
_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodFiles:
    """The files of one block, and who has each whole."""

    meta: BlockMeta
    holders: Mapping[str, ReadBucket]
    """By path; a file that nobody has whole is not there."""
    from_replica: int
    """How many of them the table has lost and the replica has."""

    @property
    def lost(self) -> tuple[ChunkFile, ...]:
        """Chunks that nobody has whole."""
        return tuple(file for file in self.meta.chunks if file.path not in self.holders)

    @property
    def rows_lost(self) -> int:
        """The rows of these."""
        return sum(file.rows for file in self.lost)

    def rows(
        self, schema: pa.Schema, excepted: frozenset[str] = frozenset(), *, by_name: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of every chunk that is left under ``schema``, each with its ``_source``, without
        those of ``excepted``.

        Columns are matched by their ids, or ``by_name``, as on a table without an index, whose
        writers number them each for themselves. One chunk is held at a time, its hash compared as
        it is read.
        """
        wanted = pa.schema([*schema, RESERVED[_SOURCE]], schema.metadata)
        if by_name:
            wanted = _without_ids(wanted)
        for file in self.meta.chunks:
            holder = self.holders.get(file.path)
            if holder is None:
                continue
            for batch in read_batches(
                holder, object_key(self.meta.ulid, file.path), file, verify=True
            ):
                sourced = self._with_source(batch)
                rows = adapt(_renamed(sourced) if by_name else sourced, wanted)
                if excepted:
                    hidden = pc.is_in(
                        rows.column(_SOURCE).cast(pa.string()), pa.array(sorted(excepted))
                    )
                    rows = rows.filter(pc.invert(hidden))
                if rows.num_rows:
                    yield rows

    def _with_source(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.meta.level > 1:
            return batch
        column = pa.repeat(pa.scalar(self.meta.sources[0]), batch.num_rows).dictionary_encode()
        schema = pa.schema([*batch.schema, RESERVED[_SOURCE]], batch.schema.metadata)
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)


def _without_ids(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


def _renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, its columns known by their names alone."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=_without_ids(batch.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The table, and a replica of it where there is one."""

    bucket: ReadBucket
    replica: ReadBucket | None = None

    def meta(self, ulid: str) -> BlockMeta | None:
        """The block's meta as the table or the replica tells it; None where neither can."""
        for bucket in self._buckets():
            try:
                return load_meta(bucket, ulid)
            except (Corrupt, ObjectMissing):
                continue
        return None

    def files(self, meta: BlockMeta) -> GoodFiles:
        """Look at every file of a block, byte by byte; those that the table has whole are not
        looked for elsewhere."""
        holders: dict[str, ReadBucket] = {}
        for file in meta.files:
            holder = next((one for one in self._buckets() if is_good(one, meta.ulid, file)), None)
            if holder is not None:
                holders[file.path] = holder
        elsewhere = sum(holder is not self.bucket for holder in holders.values())
        return GoodFiles(meta=meta, holders=holders, from_replica=elsewhere)

    def _buckets(self) -> tuple[ReadBucket, ...]:
        return (self.bucket,) if self.replica is None else (self.bucket, self.replica)


def is_good(bucket: ReadBucket, ulid: str, file: ChunkFile) -> bool:
    """Whether the bucket has the file as it was written."""
    key = object_key(ulid, file.path)
    digest = hashlib.sha256()
    size = 0
    try:
        while size <= file.bytes and (piece := bucket.get_range(key, size, _PIECE)):
            digest.update(piece)
            size += len(piece)
    except AccessDenied:
        raise
    except NotFound:
        return False
    return size == file.bytes and digest.hexdigest() == file.sha256

"""Find the good bytes of a block's files: in the table, or in a replica of it.

Rule: only bytes with the size and the SHA-256 that the block lists are good, wherever they are.
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
    """The files of one block, and the bucket with a good copy of each."""

    meta: BlockMeta
    holders: Mapping[str, ReadBucket]
    """By path; a file without a good copy is left out."""
    from_replica: int
    """How many of them only the replica has."""

    @property
    def lost(self) -> tuple[ChunkFile, ...]:
        """Chunks without a good copy."""
        return tuple(file for file in self.meta.chunks if file.path not in self.holders)

    @property
    def rows_lost(self) -> int:
        """The number of rows in the lost chunks."""
        return sum(file.rows for file in self.lost)

    def rows(
        self, schema: pa.Schema, excepted: frozenset[str] = frozenset(), *, by_name: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the good chunks under ``schema``, each with its ``_source``.

        One chunk is in memory at a time, and its hash is checked while it is read.

        Args:
            schema: the columns of the result.
            excepted: sources whose rows are left out.
            by_name: match columns by their names instead of their ids. A table without an index
                needs this, because each writer numbers the columns itself.
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
    """Return the batch without field ids."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=_without_ids(batch.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The table, and a replica of it if there is one."""

    bucket: ReadBucket
    replica: ReadBucket | None = None

    def meta(self, ulid: str) -> BlockMeta | None:
        """Load the block's meta from the table or the replica; None if neither has it."""
        for bucket in self._buckets():
            try:
                return load_meta(bucket, ulid)
            except (Corrupt, ObjectMissing):
                continue
        return None

    def files(self, meta: BlockMeta) -> GoodFiles:
        """Check every file of a block, byte by byte, first in the table, then in the replica."""
        holders: dict[str, ReadBucket] = {}
        for file in meta.files:
            holder = next((one for one in self._buckets() if is_good(one, meta.ulid, file)), None)
            if holder is not None:
                holders[file.path] = holder
        from_replica = sum(holder is not self.bucket for holder in holders.values())
        return GoodFiles(meta=meta, holders=holders, from_replica=from_replica)

    def _buckets(self) -> tuple[ReadBucket, ...]:
        return (self.bucket,) if self.replica is None else (self.bucket, self.replica)


def is_good(bucket: ReadBucket, ulid: str, file: ChunkFile) -> bool:
    """Return whether the bucket has the file as it was written."""
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

"""The commit of an upsert or a merge whose rows many processes have written: one block, one
version.

Rules:
- An upsert reads nothing of the table and never conflicts: the later of two wins. A merge has read
  rows at a version, and conflicts where one of its rows was touched since, or may have been; where
  the table's isolation is ``serializable``, if anything was changed since.
- An identity occurs once in the block. Processes that report all hashes are compared; where two
  hashes are equal the keys themselves decide, which are read again.
- After an error nothing is visible; what was uploaded is debris.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import BlockKind, BlockMeta, StreamKey, VisibleBy
from blockstore.format.chunk_reader import read_batches
from blockstore.format.definition import Definition
from blockstore.format.new_block import WrittenChunks, block_meta, write_segments
from blockstore.ids import ulid_time_ms
from blockstore.index.entry import Operation
from blockstore.index.touches import Hashes, packed, unpacked
from blockstore.lifecycle.upload import in_time
from blockstore.names import object_key
from blockstore.operations.access import Access
from blockstore.operations.staging import complete, uploading
from blockstore.rows.attempts import Said, already_done, commit_blocks, record_nothing
from blockstore.rows.named import Named
from blockstore.rows.parts import Part
from blockstore.rows.results import RowsChanged
from blockstore.rows.twice import refuse_twice
from blockstore.scan.identities import hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """What a distributed upsert did."""

    did: RowsChanged
    chunks: WrittenChunks | None = None
    """Those of its block; None if there is none, or if the job had been committed before."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The existing rows that a block names, by what its writers report."""

    known: tuple[Hashes, ...] | None
    """None: some writer has more than an entry names."""

    @property
    def hashes(self) -> Hashes | None:
        """All hashes, if they are known."""
        return None if self.known is None else np.concatenate(self.known)

    @property
    def touched(self) -> bytes | None:
        """What an entry says of them."""
        return None if self.hashes is None else packed(self.hashes)


def commit_parts(
    access: Access,
    parts: Sequence[Part],
    *,
    ulid: str,
    definition: Definition,
    labels: Mapping[str, str],
    said: Said,
    producer: str,
    operation: Operation = Operation.UPSERT,
    read_version: int | None = None,
) -> Upserted:
    """Make one block of changes of what processes wrote, and publish it.

    Args:
        access: The table, as a handle that was opened for this commit.
        parts: What the processes report.
        ulid: The block's, under which all of them wrote.
        definition: The one under which they wrote.
        labels: Those of the block.
        said: What the caller says of the upsert.
        producer: What wrote the block.
        operation: What the entry calls it.
        read_version: The version at which a merge has read the table.

    Raises:
        Invalid: Two processes wrote rows with one key.
        RowConflict: The table's definition was changed meanwhile, or rows that a merge has read.
        Unavailable, Indeterminate: As a commit.
    """
    state = access.log.poll()
    done = already_done(state, operation, said)
    if done is not None:
        access.log.confirm()
        return Upserted(did=done)
    parts = sorted(
        (part for part in parts if part.chunks.rows), key=lambda part: part.chunks.files[0].path
    )
    if not parts:
        if read_version is not None:
            record_nothing(access, operation, said)
        return Upserted(did=RowsChanged(operation=str(operation)))
    known = _known(parts)
    if known is not None:
        _check_once(access, ulid, definition, labels, parts, known)
    chunks = WrittenChunks.together([part.chunks for part in parts])
    with access.log.own_looks():
        with uploading(str(operation)):
            meta = block_meta(
                chunks,
                ulid=ulid,
                definition=definition,
                visible_by=VisibleBy.INDEX,
                producer=producer,
                labels=labels,
                kind=BlockKind.CHANGES,
                uploaded_time=access.world.clock.now_ms(),
                job=said.job,
                segments=write_segments(access.bucket, ulid, chunks),
            )
            block = _completed(access, meta)
        did = commit_blocks(
            access,
            operation,
            said,
            definition,
            (block,),
            Reported(known),
            _counted(operation, parts),
            read_version=read_version,
        )
    return Upserted(did=did, chunks=None if did.already else chunks)


def _counted(operation: Operation, parts: Sequence[Part]) -> RowsChanged:
    if operation is Operation.UPSERT:
        return RowsChanged(operation=str(operation), inserted=None, updated=None)
    inserted, updated, deleted = map(sum, zip(*(part.counts for part in parts), strict=True))
    return RowsChanged(
        operation=str(operation), inserted=inserted, updated=updated, deleted=deleted
    )


def _completed(access: Access, meta: BlockMeta) -> BlockMeta:
    return complete(access, in_time(access.bucket, access.world, meta, ulid_time_ms(meta.ulid)))


def _known(parts: Sequence[Part]) -> tuple[Hashes, ...] | None:
    known = tuple(unpacked(part.hashes) for part in parts if part.hashes is not None)
    return known if len(known) == len(parts) else None


def _check_once(
    access: Access,
    ulid: str,
    definition: Definition,
    labels: Mapping[str, str],
    parts: Sequence[Part],
    known: tuple[Hashes, ...],
) -> None:
    """Raise Invalid for a key that two processes wrote. Each has checked its own rows."""
    assert definition.identity is not None, "rows without an identity never change"
    values, counts = np.unique(
        np.concatenate([np.unique(one) for one in known]), return_counts=True
    )
    doubtful = values[counts > 1]
    if not len(doubtful):
        return
    columns = list(definition.identity.columns)
    stream = StreamKey(tuple(sorted(labels.items())), 0)
    named = Named(definition.identity, stream)
    for part in parts:
        for file in part.chunks.files:
            for batch in read_batches(access.bucket, object_key(ulid, file.path), file, columns):
                keys = batch.select(columns)
                keys = keys.filter(pc.is_valid(keys.column(0)))  # A row without an id is new.
                among = np.isin(hashes(definition.identity, stream, keys.columns), doubtful)
                named.add(list(keys.filter(pa.array(among)).columns))
    try:
        refuse_twice(named, definition.identity)
    except Invalid as error:
        raise Invalid(
            f"{error}; where several tasks have rows of one key, bring these together first: "
            "blockstore.spark.upsert does, and before a save or a stream "
            f"df.repartition({', '.join(map(repr, columns))})"
        ) from None

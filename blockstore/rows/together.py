"""Several operations on rows as one version: each is written on the state that the one before it
left, and one entry brings what all of them come to.

Rules:
- Nothing is visible before the entry. What was written for single operations is debris then: an
  entry holds one block of changes of each stream, so their blocks are read again, and the newest
  image or tombstone of each row is written.
- Rows that were there at the beginning and were touched by any of them are named by the entry, as
  rows that were read: if others touched one meanwhile, all of it is planned again. Where they are
  ``serializable``, that holds for whatever any of them has read.
- A row that is new gets its id by the entry; before that it has one by which only these operations
  know it. One that is deleted again leaves nothing where rows have ids; of a key a tombstone stays,
  so that an insert of the same key by others is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.format.block import BlockMeta, StreamKey
from blockstore.format.identity import DELETED, ROW_ID, VERSION, RowIds
from blockstore.index.ahead import ahead
from blockstore.index.blocks import Blocks
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.attempts import Said, Write, commit_blocks, identity_of, record_nothing
from blockstore.rows.change import ChangeRows
from blockstore.rows.reading import by_stream, current_rows
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import AllNamed, StreamChanges
from blockstore.scan.current import columns_of, newest_among, numbers
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import plan_scan
from blockstore.scan.resolve import columns_reader
from blockstore.scan.snapshot import Snapshot

_Finished = tuple[tuple[BlockMeta, ...], AllNamed]


class RowsTogether:
    """Operations on the rows of one table that become one version."""

    def __init__(self, access: Access, state: State, said: Said) -> None:
        """``state`` is what the first of them reads; ``said`` has the job and the labels. Raises
        Invalid where rows have no identity."""
        self._identity = identity_of(state.definition, "an operation on rows")
        self._access = access
        self._base = state
        self._said = said
        self._written: list[_Finished] = []
        self.state = state
        """What the next of them reads."""
        self.seen = said.seeing(state.definition)
        """What keeps the reads of all of them; None where they need not stay as they are."""

    def write(self, operation: Operation, write: Write) -> RowsChanged:
        """Write the changes of the next operation; return what they do. Raises what ``write``
        does; then nothing of this operation counts."""
        with self._changes(operation) as changes:
            did = write(self.state, changes)
            finished = changes.finish()
        if finished is not None:
            blocks, named = finished
            change = ChangeRows(
                operation=operation,
                commit=self._access.world.ids.ulid(),
                blocks=blocks,
                named=named,
                definition=self._base.definition,
            )
            self.state = ahead(self.state, change)
            self._written.append(finished)
        return did

    def commit(self, operation: Operation, did: RowsChanged, said: Said) -> RowsChanged:
        """Commit all of them, as ``said``, and return ``did`` with the version; without one if no
        row changes, though a job takes its batch. Raises as ``change_rows``, but plans nothing
        again."""
        finished = self._net(operation) if len(self._written) > 1 else self._only()
        if finished is None:
            record_nothing(self._access, operation, said)
            return did
        blocks, named = finished
        return commit_blocks(
            self._access,
            operation,
            said,
            self._base.definition,
            blocks,
            named,
            did,
            read_version=self._base.version,
            seen=self.seen,
        )

    def _only(self) -> _Finished | None:
        return self._written[0] if self._written else None

    def _changes(self, operation: Operation) -> StreamChanges:
        return StreamChanges(
            self._access,
            self._base.definition,
            producer=str(operation),
            labels=self._said.labels,
            job=self._said.job,
            buffer_bytes=self._said.buffer_bytes,
            seen=self.seen,
        )

    def _net(self, operation: Operation) -> _Finished | None:
        """What all of them come to, as one block of each stream."""
        ulids = [block.ulid for blocks, _ in self._written for block in blocks]
        own = Blocks.of(self.state.blocks.get_all(ulids).values())
        state = replace(self.state, blocks=own)
        hidden = [ROW_ID] if isinstance(self._identity, RowIds) else []
        with self._changes(operation) as changes:
            names = [*state.definition.schema.names, *hidden]
            for stream, rows in current_rows(self._access, state, columns=names):
                images = rows.select(state.definition.schema.names)
                changes.put(stream, images, self._given(rows.column(ROW_ID)) if hidden else None)
            for stream, keys in self._gone(state):
                changes.delete(stream, keys)
            return changes.finish()

    def _gone(self, state: State) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
        """The rows that are deleted in the end, by stream: the columns that identify them."""
        columns = self._identity.columns
        plan = plan_scan(Snapshot.of(state))
        read = columns_reader(
            plan,
            lambda one: read_plan(
                self._access.bucket, one, self._access.world, reads=self._access.reads
            ),
        )
        for stream, own in by_stream(plan):
            found = list(read(own.chunks, (*columns, VERSION, DELETED)))
            keys = pa.Table.from_arrays(
                [pa.chunked_array([one[name] for one in found]) for name in columns],
                names=list(columns),
            )
            values = pa.concat_arrays(
                [identities(columns_of(one, self._identity)) for one in found]
            )
            versions = numbers(one[VERSION] for one in found)
            deleted = numbers(one[DELETED] for one in found).astype(bool)
            newest, _, places = newest_among(values, versions, deleted)
            gone = deleted & (versions == newest.versions[places])
            if isinstance(self._identity, RowIds):
                gone &= np.asarray(keys[ROW_ID].to_numpy()) < self._base.next_row_id
            for batch in keys.filter(pa.array(gone)).to_batches():
                yield stream, batch

    def _given(self, ids: pa.Array) -> pa.Array:
        """Row ids, null where the entry is to give one."""
        new = pc.greater_equal(ids, self._base.next_row_id)
        return pc.if_else(new, pa.scalar(None, pa.int64()), ids)

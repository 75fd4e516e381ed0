"""New rows of several sets of labels on their way into blocks: one block for each set, and one
entry names them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from blockstore.format.block import BlockMeta, Job, Parent
from blockstore.format.definition import Definition
from blockstore.format.labels import Labels
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.new_rows import BUFFER_BYTES, FreshRows, Writing

Parents = Callable[[Iterable[BlockMeta]], Sequence[Parent] | None]
"""The committed blocks in whose place a block comes that replaces these; None: these."""


class FreshByLabels:
    """Uploads rows by their labels.

    All of them together hold ``buffer_bytes`` of rows; beyond that the one with the most writes a
    chunk.
    """

    def __init__(
        self,
        access: Access,
        definition: Definition,
        *,
        job: Job | None,
        producer: str,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._access = access
        self._definition = definition
        self._job = job
        self._producer = producer
        self._buffer_bytes = buffer_bytes
        self._fresh: dict[Labels, FreshRows] = {}
        self._open: dict[Labels, Writing] = {}

    @contextmanager
    def writing(self) -> Iterator[Callable[[Labels, pa.RecordBatch], None]]:
        """Take rows with their labels, under the table's schema; all of them are durable when it
        ends."""
        with ExitStack() as ends:

            def put(labels: Labels, rows: pa.RecordBatch) -> None:
                if labels not in self._open:
                    self._open[labels] = ends.enter_context(self._begun(labels).writing())
                self._open[labels].put(rows)
                writing = self._open.values()
                if len(writing) > 1 and sum(one.held_bytes for one in writing) > self._buffer_bytes:
                    max(writing, key=lambda one: one.held_bytes).flush()

            yield put
        self._open.clear()

    def _begun(self, labels: Labels) -> FreshRows:
        fresh = self._fresh[labels] = FreshRows(
            self._access,
            self._definition,
            labels=dict(labels),
            job=self._job,
            producer=self._producer,
            buffer_bytes=self._buffer_bytes,
        )
        return fresh

    def blocks(
        self, replaced: Sequence[BlockMeta], parents: Parents = lambda _: None
    ) -> list[BlockMeta]:
        """The durable blocks of all rows; each takes the place of those that had its labels."""
        found = []
        for labels, fresh in self._fresh.items():
            own = [meta for meta in replaced if tuple(sorted(meta.labels.items())) == labels]
            block = fresh.block(own, parents(own))
            if block is not None:
                found.append(block)
        return found

    def renew(self, state: State) -> None:
        """Upload condemned blocks again, as ``FreshRows``."""
        for fresh in self._fresh.values():
            fresh.renew(state)

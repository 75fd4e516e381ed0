"""The rows that a writer holds before they make a chunk, and their size.

Rule: ``bytes`` is never less than the size of the rows. Measuring a batch exactly costs more than
writing some columns of a small one, so first the batch's buffers are counted, which for a slice are
those of the batch that it was cut from; batches are measured exactly only when the count matters.
Texts that come as codes of a dictionary count as texts, because readers will hold them so.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from blockstore.format.coded import text_bytes


class Held:
    """Batches in the order in which they came."""

    __slots__ = ("_batches", "_coded", "_texts", "_weighed", "_weighed_bytes", "bytes", "rows")

    def __init__(self, coded: Collection[str] = ()) -> None:
        """``coded`` are the columns that come as codes of texts."""
        self._coded = coded
        self._batches: list[pa.RecordBatch] = []
        self._texts = 0
        self._weighed = 0
        self._weighed_bytes = 0
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold one more batch."""
        self._batches.append(batch)
        self.rows += batch.num_rows
        texts = text_bytes(batch, self._coded)
        self._texts += texts
        self.bytes += batch.get_total_buffer_size() + texts

    def reaches(self, limit: int) -> bool:
        """Return whether the rows take ``limit`` bytes or more."""
        return self.bytes >= limit and self.weigh() >= limit

    def has_room(self, batch: pa.RecordBatch, limit: int) -> bool:
        """Return whether the rows and those of ``batch`` take ``limit`` bytes at most."""
        return bool(
            self.bytes + batch.get_total_buffer_size() <= limit
            or self.weigh() + batch.nbytes <= limit
        )

    def weigh(self) -> int:
        """Return the exact size and set ``bytes`` to it; each batch is measured once."""
        self._weighed_bytes += sum(batch.nbytes for batch in self._batches[self._weighed :])
        self._weighed = len(self._batches)
        self.bytes = self._weighed_bytes + self._texts
        return self.bytes

    def take(self, schema: pa.Schema) -> pa.Table:
        """Return all rows as one table; nothing is held any more."""
        table = pa.Table.from_batches(self._batches, schema=schema)
        self._batches = []
        self._weighed = self._weighed_bytes = self._texts = self.rows = self.bytes = 0
        return table

    def put_back(self, rest: pa.Table) -> None:
        """Hold rows that were taken and not used; only where nothing else is held."""
        self._batches = rest.to_batches()
        self.rows = rest.num_rows
        self._weighed = self._weighed_bytes = 0
        self._texts = sum(text_bytes(batch, self._coded) for batch in self._batches)
        self.weigh()

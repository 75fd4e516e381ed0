"""The rows that a writer holds before they make a chunk, and what they weigh.

Rule: ``bytes`` is never less than what the rows take. To weigh a batch exactly costs more than to
write some columns of a small one, so the buffers that it lies in are counted first, and batches are
weighed only when that count matters: a slice then stops counting for the whole that it was cut
from. Texts that come as numbers of a dictionary count as texts, which is what those who read them
will hold.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from blockstore.format.coded import text_bytes


class Held:
    """Batches in the order in which they came."""

    __slots__ = ("_batches", "_coded", "_texts", "_weighed", "_weighed_bytes", "bytes", "rows")

    def __init__(self, coded: Collection[str] = ()) -> None:
        """``coded`` are the columns that come as numbers for texts."""
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
        """Whether the rows take ``limit`` bytes or more."""
        return self.bytes >= limit and self.weigh() >= limit

    def has_room(self, batch: pa.RecordBatch, limit: int) -> bool:
        """Whether the rows and those of ``batch`` take ``limit`` bytes at most."""
        return bool(
            self.bytes + batch.get_total_buffer_size() <= limit
            or self.weigh() + batch.nbytes <= limit
        )

    def weigh(self) -> int:
        """The exact bytes, which ``bytes`` then says too; each batch is weighed once."""
        self._weighed_bytes += sum(batch.nbytes for batch in self._batches[self._weighed :])
        self._weighed = len(self._batches)
        self.bytes = self._weighed_bytes + self._texts
        return self.bytes

    def take(self, schema: pa.Schema) -> pa.Table:
        """All rows as one table; nothing is held any more."""
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

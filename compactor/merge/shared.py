"""What the chunks of one merge share: the memory for their readers, and what was learned of their
sizes.

Rules:
- Readers of open chunks take no more than their part of the memory together; a chunk that finds no
  room there is read once, alone, and goes on from the work disk, where rows lie in small batches
  (``chunkrun.py``). One always finds room.
- What columns are carried as numbers of a dictionary is decided once, after some chunks were opened
  and before one is read.
- What a chunk weighs is only known once it is open. Until then it is guessed from what is known of
  every chunk, corrected by what those that were opened turned out to weigh.
"""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.compactor.merge.weight import Varying, row_width, varying
from blockstore.format.block import ChunkFile
from blockstore.format.coded import with_codes

_INFLATION = 3
"""Arrow bytes a byte of compressed Parquet, roughly."""

_TEXT_BYTES = 20
"""What a text takes at least, roughly."""


class Shared:
    """One for all chunks of a merge, and for all its threads."""

    def __init__(self, schema: pa.Schema, readers_bytes: int) -> None:
        self.schema = schema
        self.read_schema = schema
        """What the rows of a chunk are brought to."""
        self.coded: frozenset[str] = frozenset()
        """The columns of text that are read, sorted and written as numbers of a dictionary
        (``codes.py``)."""
        self.row_bytes = row_width(schema)
        """What a row takes without its texts."""
        self.alone = threading.Lock()
        """Held while a chunk is read that found no room."""
        self._guessed_row_bytes = row_width(schema, _TEXT_BYTES)
        self._varying: tuple[pa.Schema, tuple[Varying, ...]] = (pa.schema([]), ())
        self._factor = 1.0
        self._readers_bytes = readers_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def carry(self, coded: frozenset[str]) -> None:
        """Read these texts as numbers from now on; before the first chunk is read."""
        self.coded = coded
        self.read_schema = with_codes(self.schema, coded)

    def guess(self, file: ChunkFile) -> int:
        """About what the rows of a chunk take."""
        return int(self._factor * max(file.bytes * _INFLATION, file.rows * self._guessed_row_bytes))

    def learn(self, guessed: int, found: int) -> None:
        """Correct the guesses by those of some chunks, and what these were found to take.

        Guesses only grow.
        """
        self._factor *= max(1.0, found / max(1, guessed))

    def varying(self, schema: pa.Schema, metadata: pq.FileMetaData) -> tuple[Varying, ...]:
        """``weight.varying``, found once for chunks of one schema that follow one another."""
        known, columns = self._varying
        if not schema.equals(known) and metadata.num_row_groups:
            columns = varying(metadata)
            self._varying = (schema, columns)
        return columns

    def take(self, size: int) -> bool:
        """Room for a reader, if there is any left; to be given back."""
        with self._lock:
            if self._taken and self._taken + size > self._readers_bytes:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size

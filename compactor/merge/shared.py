"""What the chunks of one merge share: the memory for their readers, and what is known of their
sizes.

Rules:
- Readers of open chunks take at most their share of the memory together. A chunk that finds none
  left is read once, alone, and continues from the work disk, in small batches (``chunkrun.py``).
  One reader always fits.
- Which columns are carried as numbers of a dictionary is decided once, after some chunks were
  opened and before any is read.
- The weight of a chunk is only known once it is open. Until then it is a guess, corrected by the
  weight of the chunks that were opened.
"""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.compactor.merge.weight import Varying, row_width, varying
from blockstore.format.block import ChunkFile
from blockstore.format.coded import with_codes

_INFLATION = 3
"""Arrow bytes per byte of compressed Parquet, roughly."""

_TEXT_BYTES = 20
"""The least size of a text, roughly."""


class Shared:
    """One instance for all chunks and threads of a merge."""

    def __init__(self, schema: pa.Schema, readers_bytes: int, extra: tuple[str, ...] = ()) -> None:
        """``extra`` are the reserved columns that rows have after the numbers of their sources."""
        self.schema = schema
        self.extra = extra
        self.read_schema = schema
        """The schema to which rows of a chunk are converted."""
        self.coded: frozenset[str] = frozenset()
        """The text columns that are read, sorted and written as numbers of a dictionary
        (``codes.py``)."""
        self.row_bytes = row_width(schema)
        """The bytes of a row without its texts."""
        self.alone = threading.Lock()
        """Held while a chunk is read that found no memory left."""
        self._guessed_row_bytes = row_width(schema, _TEXT_BYTES)
        self._varying: tuple[pa.Schema, tuple[Varying, ...]] = (pa.schema([]), ())
        self._factor = 1.0
        self._readers_bytes = readers_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def carry(self, coded: frozenset[str]) -> None:
        """Read these texts as numbers from now on; call it before the first chunk is read."""
        self.coded = coded
        self.read_schema = with_codes(self.schema, coded)

    def guess(self, file: ChunkFile) -> int:
        """About how many bytes the rows of a chunk take."""
        return int(self._factor * max(file.bytes * _INFLATION, file.rows * self._guessed_row_bytes))

    def correct(self, guessed: int, found: int) -> None:
        """Correct the guesses, given the guessed and the actual size of some chunks. Guesses only
        grow."""
        self._factor *= max(1.0, found / max(1, guessed))

    def varying(self, schema: pa.Schema, metadata: pq.FileMetaData) -> tuple[Varying, ...]:
        """``weight.varying``, cached for successive chunks of one schema."""
        known, columns = self._varying
        if not schema.equals(known) and metadata.num_row_groups:
            columns = varying(metadata)
            self._varying = (schema, columns)
        return columns

    def take(self, size: int) -> bool:
        """Take memory for a reader, if there is enough left; to be returned by ``give_back``."""
        with self._lock:
            if self._taken and self._taken + size > self._readers_bytes:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size

"""One chunk to read, and everything that an engine must apply to its rows, for any engine.

Rules:
- ``sources`` and ``excepted`` filter the rows by the chunk's own ``_source`` column; a level-1
  chunk, which has none, is either read completely or not planned.
- Labels are constant text columns, unless the schema has that name.
- ``_row_id`` and ``_version`` of a level-1 chunk follow from the index (``first_row_id`` +
  position, the block's version). Where rows have an identity, other chunks carry them. Elsewhere no
  other chunk can give them: a merge and a rewrite keep ``_source`` alone, and a listing has no
  versions.
- ``hidden`` are rows that newer versions of them hide (``current.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import BlockKind, ChunkFile, ColumnStats, SegmentsFile, StreamKey
from blockstore.format.identity import VERSION

Positions = npt.NDArray[np.int64]
"""Positions of rows in a chunk, sorted."""

NO_LABELS = StreamKey((), 0)
"""The stream of rows without labels."""

HIDDEN = pa.schema([("_source", pa.string()), ("_row_id", pa.int64()), ("_version", pa.int64())])
"""The columns that are read only if the scan names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRead:
    """How one column of the table is read out of chunks of one older or newer schema."""

    name: str
    type: pa.DataType
    stored_as: str | None
    """The chunk's name of the column;

    None: the chunk is older than the column, which reads as null.
    """
    widened: bool = False
    """Whether the chunk holds a narrower type, to be cast to ``type``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanChunk:
    """A chunk that may hold rows of the scan."""

    block: str
    key: str
    file: ChunkFile
    segments: SegmentsFile | None = None
    """The object with the hashes of this chunk's segments; None: it can only be checked whole."""
    schema_id: int
    labels: Mapping[str, str | None]
    """Every label column of the scan with the chunk's constant;

    None: the block's stream lacks the label.
    """
    source: str | None
    """The source of every row of a level-1 chunk; None: the chunk carries ``_source``."""
    sources: frozenset[str] | None = None
    """Read only rows of these sources; None = of all."""
    excepted: frozenset[str] | None = None
    """Leave out rows of these sources; None = of none."""
    version: int | None = None
    """The version of every row of a level-1 chunk, where the index knows it."""
    first_row_id: int | None = None
    """The row id of the first row of a level-1 chunk, where the index knows it."""
    stream: StreamKey = NO_LABELS
    kind: BlockKind = BlockKind.PLAIN
    carries: frozenset[str] = frozenset()
    """The reserved columns that the file holds."""
    identity_stats: ColumnStats | None = None
    """Bounds of the only column that identifies its rows, where they are known."""
    hidden: Positions | None = None
    """The positions, sorted, of the rows to leave out; None = of none."""
    certain: bool = False
    """Whether the condition certainly holds for every row."""

    def gives(self, name: str) -> bool:
        """Return whether the hidden column is known of every row."""
        known = {"_row_id": self.first_row_id, "_version": self.version}
        return name not in known or known[name] is not None or name in self.carries

    @property
    def rows(self) -> int:
        """The rows that are not hidden."""
        return self.file.rows - (0 if self.hidden is None else len(self.hidden))

    @property
    def versions(self) -> tuple[int | None, int | None]:
        """The lowest and the highest version of its rows, where they are known."""
        if self.version is not None:
            return self.version, self.version
        low, high, *_ = self.file.columns.get(VERSION, ColumnStats(None, None, 0))
        return (low, high) if isinstance(low, int) and isinstance(high, int) else (None, None)

    @property
    def filtered(self) -> bool:
        """Whether rows must be left out by their source."""
        return self.sources is not None or self.excepted is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanGroup:
    """Chunks that are treated alike; the fields are those of every chunk in it."""

    chunks: tuple[ScanChunk, ...]

    @property
    def schema_id(self) -> int:
        return self.chunks[0].schema_id

    @property
    def labels(self) -> Mapping[str, str | None]:
        return self.chunks[0].labels

    @property
    def source(self) -> str | None:
        """Meaningful where the scan reads ``_source``; else chunks of many sources share a
        group."""
        return self.chunks[0].source

    @property
    def version(self) -> int | None:
        """Meaningful where the scan reads ``_version``."""
        return self.chunks[0].version

    @property
    def first_row_id(self) -> int | None:
        """Meaningful where the scan reads ``_row_id``."""
        return self.chunks[0].first_row_id

    @property
    def sources(self) -> frozenset[str] | None:
        return self.chunks[0].sources

    @property
    def excepted(self) -> frozenset[str] | None:
        return self.chunks[0].excepted

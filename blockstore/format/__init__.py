"""A block as bytes: its schema, its meta.json, its chunks, its marks.

Owns the format of everything inside a block's directory, and the table's definition that they
share. It knows of no index and decides nothing about visibility.

Its parts are loaded when they are used: who reads a meta.json needs nothing that writes Parquet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.format.block import (
        BlockMeta,
        ChunkFile,
        ColumnStats,
        Job,
        Parent,
        StatValue,
        StreamKey,
        VisibleBy,
    )
    from blockstore.format.block_writer import BlockWriter
    from blockstore.format.chunk_reader import read_batches, read_chunk
    from blockstore.format.definition import Definition
    from blockstore.format.durations import format_duration, parse_duration
    from blockstore.format.marks import DeletionMark, MarkReason, NoCompactMark, NoCompactReason
    from blockstore.format.meta import load_meta
    from blockstore.format.new_block import WrittenChunks, block_meta
    from blockstore.format.properties import UPLOAD_TIMEOUT_S, Consistency, Isolation, Properties

__all__ = [
    "UPLOAD_TIMEOUT_S",
    "BlockMeta",
    "BlockWriter",
    "ChunkFile",
    "ColumnStats",
    "Consistency",
    "Definition",
    "DeletionMark",
    "Isolation",
    "Job",
    "MarkReason",
    "NoCompactMark",
    "NoCompactReason",
    "Parent",
    "Properties",
    "StatValue",
    "StreamKey",
    "VisibleBy",
    "WrittenChunks",
    "block_meta",
    "format_duration",
    "load_meta",
    "parse_duration",
    "read_batches",
    "read_chunk",
]

__getattr__ = lazy(
    __name__,
    {
        ".block": (
            "BlockMeta",
            "ChunkFile",
            "ColumnStats",
            "Job",
            "Parent",
            "StatValue",
            "StreamKey",
            "VisibleBy",
        ),
        ".chunk_reader": ("read_batches", "read_chunk"),
        ".block_writer": ("BlockWriter",),
        ".definition": ("Definition",),
        ".durations": ("format_duration", "parse_duration"),
        ".meta": ("load_meta",),
        ".marks": ("DeletionMark", "MarkReason", "NoCompactMark", "NoCompactReason"),
        ".properties": ("Consistency", "Isolation", "Properties", "UPLOAD_TIMEOUT_S"),
        ".new_block": ("WrittenChunks", "block_meta"),
    },
)

"""A block as bytes: its schema, its meta.json, its chunks, its marks.

Owns the format of everything inside a block's directory, and the table's definition that they
share. It knows of no index and decides nothing about visibility.

Its parts are loaded when they are used: who reads a meta.json needs nothing that writes Parquet.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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
    from blockstore.format.chunks import BlockWriter, read_batches, read_chunk
    from blockstore.format.definition import Definition
    from blockstore.format.durations import format_duration, parse_duration
    from blockstore.format.loading import load_meta
    from blockstore.format.marks import DeletionMark, MarkReason, NoCompactMark, NoCompactReason
    from blockstore.format.properties import UPLOAD_TIMEOUT_S, Consistency, Isolation, Properties
    from blockstore.format.written import WrittenChunks, block_meta

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

_LAZY = {
    "BlockMeta": "blockstore.format.block",
    "BlockWriter": "blockstore.format.chunks",
    "ChunkFile": "blockstore.format.block",
    "ColumnStats": "blockstore.format.block",
    "Consistency": "blockstore.format.properties",
    "Definition": "blockstore.format.definition",
    "DeletionMark": "blockstore.format.marks",
    "Isolation": "blockstore.format.properties",
    "Job": "blockstore.format.block",
    "MarkReason": "blockstore.format.marks",
    "NoCompactMark": "blockstore.format.marks",
    "NoCompactReason": "blockstore.format.marks",
    "Parent": "blockstore.format.block",
    "Properties": "blockstore.format.properties",
    "StatValue": "blockstore.format.block",
    "StreamKey": "blockstore.format.block",
    "UPLOAD_TIMEOUT_S": "blockstore.format.properties",
    "VisibleBy": "blockstore.format.block",
    "WrittenChunks": "blockstore.format.written",
    "block_meta": "blockstore.format.written",
    "format_duration": "blockstore.format.durations",
    "load_meta": "blockstore.format.loading",
    "parse_duration": "blockstore.format.durations",
    "read_batches": "blockstore.format.chunks",
    "read_chunk": "blockstore.format.chunks",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'blockstore.format' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value

"""The format of a block: its schema, its meta.json, its chunks, its marks.

The problem: a block is written once, by any release on any machine, and must be readable for years.
Nothing that a writer accepts may be unreadable later, and damage must never look like other data.

The mental model: a block is a directory. ``chunks/*.parquet`` hold rows, sorted by the table's sort
key; ``meta.json``, written last, makes the block exist and lists its files with sizes and hashes;
``segments-*`` holds the hashes of its chunks' segments; marks next to it schedule its removal. All
blocks of a table share its ``Definition``: schemas with field ids, time column, sort key, labels,
properties. This package knows nothing about the index and decides nothing about visibility.

- ``BlockMeta``, ``ChunkFile`` and ``ColumnStats`` are what meta.json says, checked when built;
  ``meta.py`` encodes and decodes them, by way of a strict ``Document``.
- ``BlockWriter`` turns rows into chunks: ``casting.py`` brings them under the schema,
  ``encoding.py`` picks encodings, ``statistics.py`` defines bounds.
- ``segments.py`` has the hashes of every 64 KiB of every chunk, by which a range can be checked.
- ``read_chunk`` and ``read_batches`` read chunks back; ``schema.py`` adapts rows to a newer schema.

Example::

    with BlockWriter(bucket, world, ulid, definition, producer="me") as writer:
        writer.write(rows)
        meta = writer.describe(writer.finish_block())
    bucket.put(meta_key(ulid), encode(meta))
    load_meta(bucket, ulid).rows

Names are imported at their first use: reading a meta.json does not load what writes Parquet.
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
    from blockstore.format.new_block import WrittenChunks, block_meta, write_segments
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
    "write_segments",
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
        ".new_block": ("WrittenChunks", "block_meta", "write_segments"),
    },
)

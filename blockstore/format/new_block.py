"""New blocks: the chunks that writers have stored, and the block that they make.

Rule: the values come only from the writers, so a process that never saw the rows (Spark's driver)
can make the block from the values of its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from blockstore.bucket.api import Bucket
from blockstore.errors import Invalid
from blockstore.format.block import (
    BlockKind,
    BlockMeta,
    ChunkFile,
    Job,
    Parent,
    SegmentsFile,
    VisibleBy,
)
from blockstore.format.definition import Definition
from blockstore.format.segments import FileSegments, packed
from blockstore.names import object_key, segments_path

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_LIMIT_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChunks:
    """Chunks in the bucket that no meta.json names yet."""

    files: tuple[ChunkFile, ...]
    rows: int
    bytes: int
    min_time: int
    max_time: int
    segments: tuple[FileSegments, ...] = ()
    """The hashes of the chunks' segments, in the order of ``files``."""
    segments_file: SegmentsFile | None = None
    """The object that holds them, where the writer has stored it."""

    @classmethod
    def together(cls, parts: Iterable[WrittenChunks]) -> WrittenChunks:
        """Return the chunks of several writers of one block, without empty parts unless all are
        empty."""
        listed = list(parts)
        counted = [part for part in listed if part.rows] or listed
        if not counted:
            raise Invalid("a block needs the chunks of at least one writer")
        if len(counted) == 1:
            return counted[0]
        return cls(
            files=tuple(file for part in counted for file in part.files),
            rows=sum(part.rows for part in counted),
            bytes=sum(part.bytes for part in counted),
            min_time=min(part.min_time for part in counted),
            max_time=max(part.max_time for part in counted),
            segments=tuple(file for part in counted for file in part.segments),
        )


def block_meta(
    written: WrittenChunks,
    *,
    ulid: str,
    definition: Definition,
    visible_by: VisibleBy,
    producer: str,
    level: int = 1,
    sources: tuple[str, ...] | None = None,
    parents: tuple[Parent, ...] = (),
    labels: Mapping[str, str] | None = None,
    resolution: int = 0,
    revision: int = 0,
    own: bool = True,
    kind: BlockKind = BlockKind.PLAIN,
    ignore_delay: bool = False,
    uploaded_time: int = 0,
    job: Job | None = None,
    sources_file: ChunkFile | None = None,
    segments: SegmentsFile | None = None,
) -> BlockMeta:
    """Return the block of these chunks; its only source is itself unless ``sources`` is given.

    ``sources_file`` and ``segments`` are the block's other objects, which are stored already.
    """
    return BlockMeta(
        ulid=ulid,
        min_time=written.min_time,
        max_time=written.max_time,
        rows=written.rows,
        bytes=written.bytes,
        level=level,
        sources=(ulid,) if sources is None else sources,
        parents=parents,
        labels=dict(definition.labels if labels is None else labels),
        resolution=resolution,
        visible_by=visible_by,
        ignore_delay=ignore_delay,
        revision=revision,
        own=own,
        kind=kind,
        uploaded_time=uploaded_time,
        producer=producer,
        job=job,
        time_column=definition.time_column,
        sort_by=definition.sort_by,
        schema=definition.schema_bytes,
        schema_id=definition.schema_id,
        files=written.files if sources_file is None else (*written.files, sources_file),
        segments=segments,
    )


def write_segments(bucket: Bucket, ulid: str, written: WrittenChunks) -> SegmentsFile | None:
    """Store the hashes of the segments of a block's chunks, and return what to say of them.

    None, and nothing is stored, if the block needs none, or the hashes of some chunk are unknown.
    """
    if [file.path for file in written.files] != [file.path for file in written.segments]:
        return None
    found = packed(written.segments)
    if found is None:
        return None
    data, ref = found
    bucket.put(object_key(ulid, segments_path(ref.sha256)), data)
    return ref


def to_ms(kind: pa.DataType, value: int, column: str) -> int:
    """Return the milliseconds, rounded down, of a value of the time column in its own unit."""
    if pt.is_date32(kind):
        return value * _DAY_MS
    milliseconds = value * 1000 // _PER_SECOND[kind.unit]
    if abs(milliseconds) > _LIMIT_MS:
        raise Invalid(
            f"column {column!r} holds the time {value} {kind.unit}, which is out of range: correct "
            "it"
        )
    return milliseconds

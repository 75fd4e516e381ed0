"""Compare one chunk with its block's meta, in one pass over its bytes.

Rules (format, "chunks" and "statistics"): the bytes have the SHA-256, the file has the rows and the
schema, with the field ids; rows are in the order of the sort key; bounds contain every value, nulls
and NaNs are counted correctly; times are in the block's range; ``_source`` names only sources of
the block, and every block of level 2 and more has it; text is UTF-8.

Arrow opens the files itself and reads them in the caller's thread. One of Arrow's threads could
drop the last reference to Python's bytes while the interpreter ends, which aborts the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check
from blockstore.care.verify.contents import Contents, Texts
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.fields import RESERVED, field_id
from blockstore.format.schema import adapt, deserialize, with_reserved
from blockstore.format.segments import SEGMENT_BYTES, FileHashes, FileSegments, segments_in
from blockstore.format.sorting import sort_order
from blockstore.names import object_key

_PIECE = 8 * 1024 * 1024
_BATCH_ROWS = 65_536
_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a file."""

    check: Check
    what: str
    source: str | None = None
    """The write that it came with, if that is known."""

    @classmethod
    def of_hash(cls, where: str = "") -> Problem:
        """Return the problem of bytes that differ from those written; ``where``, if it is known."""
        return cls(
            check=Check.HASH,
            what=f"is corrupt: its SHA-256 is not the one that its block lists{where}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLook:
    """The problems of a chunk, and its first and last row, for the order across chunks."""

    problems: tuple[Problem, ...] = ()
    first: pa.Table | None = None
    last: pa.Table | None = None
    wrong_segments: bool = False
    """Whether the chunk is right, and the hashes of its segments are not."""


def look_at_chunk(
    bucket: ReadBucket, meta: BlockMeta, file: ChunkFile, segments: FileSegments | None = None
) -> ChunkLook:
    """Check a chunk, and where the hashes of its ``segments`` are known which bytes are damaged.

    A missing file or another size is not reported: the listing shows it.
    """
    try:
        with _copied(bucket, object_key(meta.ulid, file.path), file) as (stream, hashes):
            if stream is None:
                return ChunkLook()
            differing = () if segments is None else segments.differing(hashes.segments(file.path))
            if hashes.sha256 != file.sha256:
                where = _where(differing, file) if differing else ""
                return ChunkLook(problems=(Problem.of_hash(where),))
            look = _parsed(stream, meta, file)
            return replace(look, wrong_segments=True) if differing else look
    except ObjectMissing:
        return ChunkLook()


def _where(differing: Sequence[int], file: ChunkFile) -> str:
    start = differing[0] * SEGMENT_BYTES
    end = min(start + SEGMENT_BYTES, file.bytes)
    return (
        f"; {len(differing):,} of its {segments_in(file.bytes):,} segments differ, the first has "
        f"the bytes from {start:,} to {end:,}"
    )


def in_order(pieces: Sequence[pa.Table], sort_by: Sequence[str]) -> bool:
    """Return whether these pieces, one after the other, are in the order of the sort key."""
    rows = pa.concat_tables(piece.select(list(sort_by)) for piece in pieces)
    return sort_order(rows, sort_by) is None


@contextmanager
def _copied(
    bucket: ReadBucket, key: str, file: ChunkFile
) -> Iterator[tuple[pa.NativeFile | None, FileHashes]]:
    """Yield a local stream of the object and its hashes; None if it has another size."""
    hashes = FileHashes()
    path = bucket.path_of(key)
    if path is None:
        with tempfile.NamedTemporaryFile(prefix="blockstore-verify-") as copy:
            while piece := bucket.get_range(key, hashes.bytes, _PIECE):
                hashes.update(piece)
                copy.write(piece)
            copy.flush()
            with pa.OSFile(copy.name) as stream:
                yield (stream if hashes.bytes == file.bytes else None), hashes
        return
    try:
        stream = pa.OSFile(path)
    except FileNotFoundError:
        raise ObjectMissing(f"{key} is missing") from None
    with stream:
        while piece := stream.read(_PIECE):
            hashes.update(piece)
        yield (stream if hashes.bytes == file.bytes else None), hashes


def _parsed(stream: pa.NativeFile, meta: BlockMeta, file: ChunkFile) -> ChunkLook:
    try:
        stream.seek(0)
        with pq.ParquetFile(stream, pre_buffer=False) as parquet:
            problem = _shape(parquet, meta, file)
            if problem is not None:
                return ChunkLook(problems=(problem,))
            return _rows(parquet, meta, file)
    except (pa.ArrowException, OSError, ValueError) as error:
        return ChunkLook(
            problems=(
                Problem(
                    check=Check.CHUNK,
                    what=f"has the right SHA-256, but cannot be read as Parquet ({error})",
                ),
            )
        )


def _shape(parquet: pq.ParquetFile, meta: BlockMeta, file: ChunkFile) -> Problem | None:
    rows = parquet.metadata.num_rows
    if rows != file.rows:
        return Problem(check=Check.CHUNK, what=f"has {rows:,} rows, expected {file.rows:,}")
    found = _described(parquet.schema_arrow)
    reserved = tuple(name for name in parquet.schema_arrow.names if name in RESERVED)
    if meta.level > 1 and _SOURCE not in reserved:
        return Problem(
            check=Check.CHUNK,
            what=f"has no column {_SOURCE}, although its block has level {meta.level}",
        )
    expected = _expected(meta.schema, reserved)
    if found != expected:
        strange = next((one for one in found if one not in expected), None)
        lacking = next((one for one in expected if one not in found), None)
        what = f"has the column {strange}" if strange else "has its columns in another order"
        return Problem(
            check=Check.CHUNK,
            what=f"{what}, expected {lacking or ', '.join(expected)} as in its block's schema",
        )
    return None


@lru_cache(maxsize=64)
def _expected(schema: bytes, reserved: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a file with this schema: Parquet stores some types as wider ones."""
    sink = pa.BufferOutputStream()
    pq.write_table(with_reserved(deserialize(schema), reserved).empty_table(), sink)
    return _described(pq.read_schema(pa.BufferReader(sink.getvalue())))


def _described(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(f"{one.name!r} of type {one.type} and field id {field_id(one)}" for one in schema)


def _rows(parquet: pq.ParquetFile, meta: BlockMeta, file: ChunkFile) -> ChunkLook:
    names = [name for name in parquet.schema_arrow.names if name in RESERVED]
    schema = with_reserved(deserialize(meta.schema), names)
    contents, texts = Contents(meta, file, schema), Texts(meta, schema)
    first: pa.Table | None = None
    last: pa.Table | None = None
    torn = False
    at = 0
    problems: list[Problem] = []
    sort_by = meta.sort_by
    strange = next((name for name in sort_by if name not in schema.names), None)
    if strange is not None:
        sort_by = ()
        what = f"has no column {strange!r}, which is in its block's sort key"
        problems.append(Problem(check=Check.ORDER, what=what))
    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        rows = adapt(pa.Table.from_batches([batch]), schema)
        contents.add(rows)
        texts.add(rows)
        if sort_by and not torn:
            torn = not in_order([rows] if last is None else [last, rows], sort_by)
            if torn:
                what = (
                    f"is not sorted by {', '.join(sort_by)}: rows {at:,} to "
                    f"{at + rows.num_rows:,} are out of order"
                )
                problems.append(Problem(check=Check.ORDER, what=what))
        if sort_by and rows.num_rows:
            first = rows.slice(0, 1) if first is None else first
            last = rows.slice(rows.num_rows - 1)
        at += rows.num_rows
    try:
        problems += [Problem(check=check, what=what) for check, what in contents.problems()]
    except Corrupt as error:
        problems.append(Problem(check=Check.STATISTICS, what=str(error)))
    problems += [
        Problem(check=Check.TEXT, what=one.what, source=one.source) for one in texts.problems()
    ]
    return ChunkLook(problems=tuple(problems), first=first, last=last)

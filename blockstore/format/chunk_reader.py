"""Reading a chunk: completely or in batches, by the cheapest way that the bucket offers.

Rules:
- A chunk's size must be what meta.json says; a chunk that cannot be parsed is Corrupt, a missing
  one is ObjectMissing, each with its key: rows are never missing (R11).
- If the bucket has files, the file is read; a small chunk costs one GET; of a large one only the
  needed ranges are fetched, in the caller's thread, and nothing compares them with a hash
  (``scan.fetch`` reads chunks with segments by checked ranges).
- To verify a chunk, no more of it is held in memory than otherwise: it is compared with its SHA-256
  on the disk, a remote one in a copy.
- Rows are returned as the file holds them; ``schema.adapt`` brings them under a newer schema.
- Only the caller's ``may`` leaves out row groups; nothing of those is fetched.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import ReadBucket
from blockstore.bucket.range_file import RangeFile
from blockstore.errors import AccessDenied, Corrupt, ObjectMissing
from blockstore.format.block import ChunkFile
from blockstore.format.coded import coded_texts, decoded
from blockstore.format.footer import column_parts, column_range
from blockstore.format.unreadable import UNREADABLE

_WHOLE = 4 * 1024 * 1024
_PIECE = 8 * 1024 * 1024

BATCH_ROWS = 65_536

MANY_ROWS = 20_000
"""In a smaller chunk, reading each column's entry in the footer costs more than it saves."""

JudgeGroups = Callable[[pq.ParquetFile], Sequence[bool]]
"""Returns for each row group of a file whether it may hold wanted rows."""


def read_chunk(
    bucket: ReadBucket,
    key: str,
    file: ChunkFile,
    columns: Sequence[str] | None = None,
    *,
    threads: bool = False,
    verify: bool = False,
) -> pa.Table:
    """Return the rows of a chunk.

    ``columns`` that it does not have are left out. ``verify`` compares its SHA-256 too.
    """
    with _opened(bucket, key, file, verify=verify) as opened:
        parquet, ranged = opened.parquet, opened.ranged
        _expect(parquet, ranged, columns, range(parquet.metadata.num_row_groups))
        return parquet.read(
            columns=present(parquet.schema_arrow, columns), use_threads=threads and ranged is None
        )


def read_batches(
    bucket: ReadBucket,
    key: str,
    file: ChunkFile,
    columns: Sequence[str] | None = None,
    *,
    batch_rows: int = BATCH_ROWS,
    verify: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a chunk, batch by batch, in its order; holds one row group at most."""
    for _, batch in read_part(bucket, key, file, columns, batch_rows=batch_rows, verify=verify):
        yield batch


def read_part(
    bucket: ReadBucket,
    key: str,
    file: ChunkFile,
    columns: Sequence[str] | None = None,
    *,
    part: int = 0,
    parts: int = 1,
    may: JudgeGroups | None = None,
    batch_rows: int = BATCH_ROWS,
    verify: bool = False,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield one of ``parts`` runs of the chunk's row groups: batches with the position of their
    first row.

    Every row is in exactly one of the runs; with more parts than row groups, some are empty. Rows
    of groups that ``may`` excludes are skipped.
    """
    with _opened(bucket, key, file, verify=verify) as opened:
        parquet, ranged = opened.parquet, opened.ranged
        groups = parquet.metadata.num_row_groups
        mine: Sequence[int] = part_of_groups(groups, part, parts)
        # A chunk's only group was judged with the chunk, by its meta.json.
        if may is not None and mine and groups > 1:
            judged = may(parquet)
            mine = [group for group in mine if judged[group]]
        _expect(parquet, ranged, columns, mine)
        names = present(parquet.schema_arrow, columns)
        coded = coded_texts(parquet, names, mine) if file.rows >= MANY_ROWS else []
        if coded:
            parquet = opened.coding(coded)
        yield from group_batches(key, parquet, mine, names, coded, batch_rows=batch_rows)


def part_of_groups(groups: int, part: int, parts: int) -> range:
    """Return one of ``parts`` runs of a chunk's row groups."""
    return range(part * groups // parts, (part + 1) * groups // parts)


def group_starts(metadata: pq.FileMetaData) -> list[int]:
    """Return the first row of each row group, and at last the number of all rows."""
    sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return list(accumulate(sizes, initial=0))


def group_batches(
    key: str,
    parquet: pq.ParquetFile,
    groups: Sequence[int],
    columns: Sequence[str] | None,
    coded: Sequence[str],
    *,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of these row groups, in ascending order: batches with the position of their
    first row in the chunk.

    Args:
        key: The chunk, for errors.
        parquet: It reads the columns of ``coded`` as codes of dictionaries.
        groups: Numbers of row groups.
        columns: Names of columns that the file has, or None for all.
        coded: Those to be decoded.
        batch_rows: The most rows of a batch.

    Raises:
        Corrupt: A group has fewer or more rows than the footer says.
    """
    starts = group_starts(parquet.metadata)
    for run in _neighbors(groups):
        position, end = starts[run[0]], starts[run[-1] + 1]
        for batch in parquet.iter_batches(
            batch_size=batch_rows, row_groups=run, columns=columns, use_threads=False
        ):
            for piece in decoded(batch, coded):
                yield position, piece
                position += piece.num_rows
        if position != end:
            raise Corrupt(
                f"chunk {key} has rows up to {position:,} only, expected {end:,} as its footer "
                "says: restore it from a copy"
            )


def _neighbors(groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield ascending numbers in runs without a gap."""
    for _, run in groupby(enumerate(groups), key=lambda one: one[1] - one[0]):
        yield [group for _, group in run]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A chunk whose footer was read."""

    source: pa.NativeFile
    parquet: pq.ParquetFile
    ranged: RangeFile | None
    """The file that fetches it by ranges, if any: then Arrow must not read in its own threads."""

    def coding(self, names: Sequence[str]) -> pq.ParquetFile:
        """Return the same file with these columns read as codes of dictionaries."""
        return pq.ParquetFile(
            self.source,
            metadata=self.parquet.metadata,
            read_dictionary=names,
            pre_buffer=self.ranged is None,
        )


@contextmanager
def _opened(bucket: ReadBucket, key: str, file: ChunkFile, *, verify: bool) -> Iterator[_Opened]:
    try:
        source = _source(bucket, key, file, verify=verify)
        ranged = source if isinstance(source, RangeFile) else None
        with (
            source if ranged is None else pa.PythonFile(ranged, mode="r") as native,
            pq.ParquetFile(native, pre_buffer=ranged is None) as parquet,
        ):
            if parquet.metadata.num_rows != file.rows:
                raise Corrupt(
                    f"chunk {key} has {parquet.metadata.num_rows:,} rows, expected {file.rows:,} "
                    "as its meta.json says: restore it from a copy"
                )
            yield _Opened(source=native, parquet=parquet, ranged=ranged)
    except UNREADABLE as error:
        raise Corrupt(
            f"chunk {key} cannot be read as Parquet ({error}): restore it from a copy"
        ) from error


def _expect(
    parquet: pq.ParquetFile,
    ranged: RangeFile | None,
    columns: Sequence[str] | None,
    groups: Collection[int],
) -> None:
    if ranged is not None:
        ranged.expect(column_ranges(parquet.metadata, columns, groups))


def _source(
    bucket: ReadBucket, key: str, file: ChunkFile, *, verify: bool
) -> pa.NativeFile | RangeFile:
    path = bucket.path_of(key)
    if path is not None:
        _check_size(key, _file_size(key, path), file)
        if verify:
            with open(path, "rb") as opened:
                _check_hash(key, hashlib.file_digest(opened, "sha256").hexdigest(), file)
        return pa.memory_map(path)
    if file.bytes <= _WHOLE:
        data = bucket.get(key).data
        _check_size(key, len(data), file)
        if verify:
            _check_hash(key, hashlib.sha256(data).hexdigest(), file)
        return pa.BufferReader(data)
    return _checked_copy(bucket, key, file) if verify else RangeFile(bucket, key, file.bytes)


def _checked_copy(bucket: ReadBucket, key: str, file: ChunkFile) -> pa.NativeFile:
    """Return a local copy that was compared with the chunk's SHA-256; its disk space is freed when
    it is closed."""
    with tempfile.NamedTemporaryFile(prefix="blockstore-verify-") as copy:
        digest = hashlib.sha256()
        size = 0
        while piece := bucket.get_range(key, size, _PIECE):
            digest.update(piece)
            copy.write(piece)
            size += len(piece)
        copy.flush()
        _check_size(key, size, file)
        _check_hash(key, digest.hexdigest(), file)
        return pa.OSFile(copy.name)


def column_ranges(
    metadata: pq.FileMetaData, columns: Sequence[str] | None, groups: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of these columns in the file, including all parts of nested columns."""
    yield from map(column_range, column_parts(metadata, columns, groups))


def _file_size(key: str, path: str) -> int:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ObjectMissing(f"chunk {key} is missing at {path}: restore it from a copy") from None
    except PermissionError:
        raise AccessDenied(
            f"chunk {key} at {path} may not be read by this user: grant read access"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise Corrupt(
            f"chunk {key} at {path} is not a regular file, and links are not followed: restore it "
            "from a copy"
        )
    return found.st_size


def _check_size(key: str, found: int, file: ChunkFile) -> None:
    if found != file.bytes:
        raise Corrupt(
            f"chunk {key} has {found:,} bytes, expected {file.bytes:,} as its meta.json says: "
            "restore it from a copy"
        )


def _check_hash(key: str, found: str, file: ChunkFile) -> None:
    if found != file.sha256:
        raise Corrupt(
            f"chunk {key} has another SHA-256 than its meta.json says: restore it from a copy"
        )


def present(schema: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    """Return those of the columns that a file of this schema has; None for all."""
    if columns is None:
        return None
    there = set(schema.names)
    return [name for name in columns if name in there]

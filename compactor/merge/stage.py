"""The bytes of input chunks, checked before a row of them is used.

Rules:
- A chunk has the size and the SHA-256 of its block's meta.json, or the merge ends with
  DamagedInput, which names the block: what is merged is what was written.
- A small chunk is held in memory. A large one is read in place if it is a local file, or from a
  copy in the work directory, which is removed when the chunk is closed. Otherwise only spilled runs
  (``spill.py``) are written there.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.compactor.merge.engine import DamagedInput
from blockstore.compactor.merge.part import CheckedSegments
from blockstore.compactor.merge.workdir import WorkDirectory, work_disk
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.footer import Footer
from blockstore.format.page_file import NoPages
from blockstore.format.pages import Readable
from blockstore.format.part_file import FilePart
from blockstore.format.segments import WHOLE_BYTES, FileSegments, load_segments
from blockstore.format.unreadable import UNREADABLE
from blockstore.names import object_key

PIECE_BYTES = 1 << 20

PartOf = Callable[[Footer], FilePart | None]
"""Names the part of a chunk that is needed, given its footer; None = all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A checked chunk, ready for the Parquet reader."""

    file: pa.NativeFile
    path: Path | None = None
    """The copy to remove, if there is one."""
    in_memory: bool = False
    skipped_rows: int = 0
    """How many rows of the chunk are not in the file."""

    def close(self) -> None:
        self.file.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class Stage:
    """Checked access to the chunks of one merge, and its work directory."""

    def __init__(
        self,
        bucket: ReadBucket,
        directory: Path,
        *,
        whole_bytes: int,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """Chunks of at most ``whole_bytes`` are held in memory; others are read in pieces of
        ``piece_bytes``. ``directory`` is created at its first use."""
        self._bucket = bucket
        self._directory = WorkDirectory(directory)
        self._whole_bytes = whole_bytes
        self._piece_bytes = piece_bytes
        self._copies = 0
        self._segments: dict[str, Mapping[str, FileSegments]] = {}
        self._lock = threading.Lock()

    def open(self, ulid: str, file: ChunkFile) -> Staged:
        """The chunk, checked.

        Raises DamagedInput, NoSpace, NoWorkDirectory, or what the bucket raises.
        """
        key = object_key(ulid, file.path)
        try:
            if file.bytes <= self._whole_bytes:
                # One byte more than declared shows a chunk that is too large. A GET of the object
                # would also hash it.
                return self._hold(ulid, file, self._bucket.get_range(key, 0, file.bytes + 1))
            path = self._bucket.path_of(key)
            if path is not None:
                _check(ulid, file, self._pieces(key, file), lambda _: None)
                return Staged(file=pa.OSFile(path))
            return self._copy(ulid, file, key)
        except ObjectMissing:
            raise _lacks(ulid, file) from None

    def open_part(
        self, ulid: str, file: ChunkFile, segments: SegmentsFile | None, part_of: PartOf
    ) -> Staged:
        """The pages of the chunk that ``part_of`` names, checked, as a file; or the chunk, if it
        names none or they cannot be read.

        ``segments`` is what the block says of the hashes of its segments. Raises as ``open``.
        """
        hashes = None
        if segments is not None and file.footer is not None and file.bytes > WHOLE_BYTES:
            hashes = self._segments_of(ulid, file, segments)
        try:
            if hashes is None:
                return self._part_of_whole(ulid, file, part_of)
            ranges = CheckedSegments(
                self._bucket, object_key(ulid, file.path), hashes, self._piece_bytes
            )
            part = part_of(_footer(ranges, file.footer or 0))
            return self.open(ulid, file) if part is None else self._copied(ulid, file, part, ranges)
        except (NoPages, *UNREADABLE) as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                raise
            return self.open(ulid, file)
        except DamagedInput:
            raise
        except Corrupt as error:
            raise DamagedInput(ulid, f"block {ulid}: {error}") from None
        except ObjectMissing:
            raise _lacks(ulid, file) from None

    def _part_of_whole(self, ulid: str, file: ChunkFile, part_of: PartOf) -> Staged:
        """A chunk without segments is read and checked as a whole, and held if it is small."""
        whole = self.open(ulid, file)
        if not whole.in_memory and file.footer is None:
            return whole
        try:
            part = part_of(_footer(whole.file, file.footer or file.bytes))
            if part is None:
                return whole
            staged = self._copied(ulid, file, part, whole.file)
        except (NoPages, *UNREADABLE) as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                whole.close()
                raise
            return whole
        except BaseException:
            whole.close()
            raise
        whole.close()
        return staged

    def _segments_of(
        self, ulid: str, file: ChunkFile, segments: SegmentsFile
    ) -> FileSegments | None:
        """The hashes of the chunk; None if they are lost or damaged: then it is read whole."""
        with self._lock:
            known = self._segments.get(ulid)
        if known is None:
            try:
                known = load_segments(self._bucket, ulid, segments, [])
            except (Corrupt, ObjectMissing):
                known = {}
            with self._lock:
                self._segments[ulid] = known
        found = known.get(file.path)
        return found if found is not None and found.bytes == file.bytes else None

    def _copied(self, ulid: str, file: ChunkFile, part: FilePart, held: Readable) -> Staged:
        """The part as a file, in memory if it is small."""
        skipped = file.rows - part.rows
        if part.size <= self._whole_bytes:
            parts: list[bytes] = []
            part.write(held, parts.append)
            data = pa.BufferReader(b"".join(parts))
            return Staged(file=data, in_memory=True, skipped_rows=skipped)
        path = self._copy_path(ulid, file)
        try:
            with work_disk(path.parent), path.open("wb") as copy:
                part.write(held, copy.write)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return Staged(file=pa.OSFile(str(path)), path=path, skipped_rows=skipped)

    def path(self, name: str) -> Path:
        """A path in the work directory."""
        return self._directory.path(name)

    def clear(self) -> None:
        """Remove the work directory and all that is in it."""
        self._directory.clear()

    def _hold(self, ulid: str, file: ChunkFile, data: bytes) -> Staged:
        _check(ulid, file, iter((data,)), lambda _: None)
        return Staged(file=pa.BufferReader(data), in_memory=True)

    def _copy(self, ulid: str, file: ChunkFile, key: str) -> Staged:
        path = self._copy_path(ulid, file)
        with work_disk(path.parent), path.open("wb") as copy:
            _check(ulid, file, self._pieces(key, file), copy.write)
        return Staged(file=pa.OSFile(str(path)), path=path)

    def _copy_path(self, ulid: str, file: ChunkFile) -> Path:
        self._copies += 1
        return self.path(f"{ulid}-{Path(file.path).stem}-{self._copies}.parquet")

    def _pieces(self, key: str, file: ChunkFile) -> Iterator[bytes]:
        start = 0
        while start <= file.bytes:
            # One byte more than declared shows a chunk that is too large.
            asked = min(self._piece_bytes, file.bytes + 1 - start)
            piece = self._bucket.get_range(key, start, asked)
            yield piece
            start += len(piece)
            if len(piece) < asked:
                return


def _footer(file: Readable, tail: int) -> Footer:
    """The footer at the end of a file, whose last ``tail`` bytes it is in. Raises ValueError or
    what Arrow raises."""
    tail = min(tail, file.size())
    return Footer(file.read_at(tail, file.size() - tail), file.size())


def _lacks(ulid: str, file: ChunkFile) -> DamagedInput:
    return DamagedInput(
        ulid,
        f"block {ulid} lacks its chunk {file.path} ({file.bytes:,} bytes expected): "
        "restore it from a copy, or mark the block for deletion if its rows are lost",
    )


def _check(
    ulid: str, file: ChunkFile, pieces: Iterator[bytes], sink: Callable[[bytes], Any]
) -> None:
    digest = hashlib.sha256()
    size = 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        sink(piece)
    if size != file.bytes:
        _refuse(
            ulid,
            file,
            f"{size:,} bytes" if size < file.bytes else f"more than {file.bytes:,} bytes",
        )
    if digest.hexdigest() != file.sha256:
        _refuse(ulid, file, f"the SHA-256 {digest.hexdigest()}")


def _refuse(ulid: str, file: ChunkFile, found: str) -> None:
    raise DamagedInput(
        ulid,
        f"chunk {file.path} of block {ulid} has {found}, but its meta.json says {file.bytes:,} "
        f"bytes with the SHA-256 {file.sha256}: restore it from a copy",
    )

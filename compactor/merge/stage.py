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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.compactor.merge.engine import DamagedInput
from blockstore.compactor.merge.workdir import WorkDirectory, work_disk
from blockstore.errors import ObjectMissing
from blockstore.format.block import ChunkFile
from blockstore.names import object_key

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A checked chunk, ready for the Parquet reader."""

    file: pa.NativeFile
    path: Path | None = None
    """The copy to remove, if there is one."""
    in_memory: bool = False

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
            raise DamagedInput(
                ulid,
                f"block {ulid} lacks its chunk {file.path} ({file.bytes:,} bytes expected): "
                "restore it from a copy, or mark the block for deletion if its rows are lost",
            ) from None

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
        self._copies += 1
        path = self.path(f"{ulid}-{Path(file.path).stem}-{self._copies}.parquet")
        with work_disk(path.parent), path.open("wb") as copy:
            _check(ulid, file, self._pieces(key, file), copy.write)
        return Staged(file=pa.OSFile(str(path)), path=path)

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

"""Chunk files of remote buckets, kept on this machine's disk.

Invariants:
- A file is named by its SHA-256 and appears only whole: it is downloaded under another name, checked for size and
  hash, and renamed. Chunks never change, so a cached file is never stale, and equal chunks are kept once.
- A query reads hard links of its own (``Hold``), so eviction, by this process or another, never takes a file from
  under it; what the links keep alive is freed with the last of them.
- The files together stay within ``limit_bytes``, the least recently used going first; what one query needs at once
  is kept until it ends even if it is more.
- Processes share a folder without locks: every step is one atomic call of the file system.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blockstore.bucket import ReadBucket
from blockstore.errors import BlockstoreError, Corrupt, NoSpace
from blockstore.world import World

__all__ = ["ChunkCache", "Counts", "Hold", "Wanted", "default_folder"]

_PIECE = 8 << 20
_ABANDONED_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A chunk to have on disk: where it lies, and what it must be."""

    bucket: ReadBucket
    key: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The files of one query, under names of its own until it is released."""

    folder: Path
    paths: tuple[str, ...]
    """In the order in which they were asked for."""

    def release(self) -> None:
        """Let the files go; allowed twice."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class Counts:
    """What one process asked of the cache; only grows, for whoever exports metrics."""

    hits: int = 0
    """Chunks that were there."""
    misses: int = 0
    """Chunks that had to be fetched."""
    bytes_served: int = 0
    bytes_fetched: int = 0
    evicted: int = 0


class ChunkCache:
    """A folder of cached chunks; safe to share between threads and processes."""

    def __init__(self, folder: Path, world: World, *, limit_bytes: int = 10 << 30) -> None:
        self._files = folder / "files"
        self._parts = folder / "parts"
        self.held = folder / "held"
        """The folder under which every Hold lies: what a query engine must be allowed to read."""
        self._world = world
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self.counts = Counts()
        for each in (self._files, self._parts, self.held):
            each.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def hold(self, wanted: Iterable[Wanted]) -> Hold:
        """Have all of them on disk, downloading what is missing, side by side. Raises Corrupt for a chunk that is
        not what its block says, NoSpace if the disk is full, and what the bucket raises."""
        chunks = list(wanted)
        folder = self.held / self._world.ids.token()
        folder.mkdir()
        try:
            jobs = [(place, chunk, folder) for place, chunk in enumerate(chunks)]
            hold = Hold(folder=folder, paths=tuple(self._world.pool.map(self._held, jobs)))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise NoSpace(
                f"the chunk cache {folder.parent.parent} cannot be written ({error.strerror}): free space, or set "
                "another folder"
            ) from error
        except BlockstoreError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._evict()
        return hold

    def bytes_used(self) -> int:
        """What the cached files take; files that only a query still holds not counted."""
        return sum(entry.stat().st_size for entry in os.scandir(self._files))

    def _held(self, job: tuple[int, Wanted, Path]) -> str:
        place, chunk, folder = job
        cached = self._files / chunk.sha256
        link = folder / f"{place:06d}.parquet"
        fetched = False
        while not self._linked(cached, link):
            self._download(chunk, cached)
            fetched = True
        with self._lock:
            self.counts.hits += not fetched
            self.counts.misses += fetched
            self.counts.bytes_served += chunk.bytes
            self.counts.bytes_fetched += chunk.bytes * fetched
        return str(link)

    def _linked(self, cached: Path, link: Path) -> bool:
        """Link a cached file and note its use; False if it is not cached, or no longer."""
        try:
            os.link(cached, link)
        except FileNotFoundError:
            return False
        os.utime(link)
        return True

    def _download(self, chunk: Wanted, cached: Path) -> None:
        part = self._parts / self._world.ids.token()
        digest = hashlib.sha256()
        try:
            with open(part, "wb") as file:
                for start in range(0, chunk.bytes, _PIECE):
                    data = chunk.bucket.get_range(chunk.key, start, min(_PIECE, chunk.bytes - start))
                    digest.update(data)
                    file.write(data)
            found = part.stat().st_size
            if found != chunk.bytes or digest.hexdigest() != chunk.sha256:
                raise Corrupt(
                    f"{chunk.bucket.url}/{chunk.key} has {found:,} bytes and the hash {digest.hexdigest()[:12]}…, "
                    f"expected {chunk.bytes:,} and {chunk.sha256[:12]}…"
                )
            os.replace(part, cached)
        finally:
            part.unlink(missing_ok=True)

    def _evict(self) -> None:
        """Remove the least recently used files until the rest fit."""
        found = []
        for entry in os.scandir(self._files):
            with suppress(FileNotFoundError):
                state = entry.stat()
                found.append((state.st_mtime_ns, state.st_size, entry.path))
        excess = sum(size for _, size, _ in found) - self._limit_bytes
        for _, size, path in sorted(found):
            if excess <= 0:
                return
            Path(path).unlink(missing_ok=True)
            excess -= size
            with self._lock:
                self.counts.evicted += 1

    def _sweep(self) -> None:
        """Remove what processes that were killed left behind a day ago."""
        limit_ms = self._world.clock.now_ms() - _ABANDONED_MS
        for folder in (self._parts, self.held):
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime_ns // 1_000_000 >= limit_ms:
                        continue
                    if entry.is_dir():
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        Path(entry.path).unlink(missing_ok=True)


def default_folder() -> Path:
    """Where the cache lies if nobody says: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "blockstore" / "chunks"

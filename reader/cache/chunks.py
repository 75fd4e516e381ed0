"""Chunk files of remote buckets, kept on this machine's disk.

Invariants:
- A file is named by its SHA-256 and appears only whole: it is downloaded under another name,
  checked for size and hash, put on disk, and renamed. Chunks never change, so a cached file is
  never stale, and equal chunks are kept once.
- A disk may still lose what it was given: a hit is checked for its size, and for its hash when this
  process meets the file first or finds it written to since. A file that fails is dropped and
  downloaded again, so damage here heals, and is never taken for damage of the bucket.
- A query reads hard links of its own (``Hold``), so eviction, by this process or another, never
  takes a file from under it; what the links keep alive is freed with the last of them. Queries that
  follow one another get the same names for the same chunks, so that an engine that remembers
  footers by path can.
- The files together stay within ``limit_bytes``, the least recently used going first (by the time
  of access, which each use sets; the time of change stays that of the download); what one query
  needs at once is kept until it ends even if it is more.
- Processes share a folder without locks: every step is one atomic call of the file system.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blockstore.bucket import ReadBucket
from blockstore.errors import Corrupt, NoSpace
from blockstore.reader.cache.hold_folders import HoldFolder, HoldFolders
from blockstore.world import World

_PIECE = 8 << 20
_ABANDONED_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A chunk to have on disk: where it lies, and what it must be."""

    bucket: ReadBucket
    key: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hold:
    """The files of one query, under names of its own until it is released."""

    cache: ChunkCache
    """Where they are kept."""
    folder: HoldFolder
    paths: tuple[str, ...]
    """In the order in which they were asked for."""

    def forget(self, path: str, sha256: str) -> None:
        """One of the paths was found to be damaged: nobody is to get that file again."""
        self.cache.forget(Path(path), sha256)

    def release(self) -> None:
        """Let the files go; allowed twice."""
        self.folder.release(self.paths)


@dataclass(slots=True)
class Counts:
    """What one process asked of the cache; only grows, for whoever exports metrics."""

    hits: int = 0
    """Chunks that were there, and sound."""
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
        self._sound: dict[str, tuple[int, int]] = {}
        """The inode and time of change with which a file's hash was right, by that hash."""
        self.counts = Counts()
        for each in (self._files, self._parts, self.held):
            each.mkdir(parents=True, exist_ok=True)
        self._folders = HoldFolders(self.held, world.ids.token(), world.clock)
        self._sweep()
        self._evict()

    def hold(self, wanted: Iterable[Wanted]) -> Hold:
        """Have all of them on disk, downloading what is missing, side by side. Raises Corrupt for a
        chunk that is not what its block says, NoSpace if the disk is full, and what the bucket
        raises."""
        chunks = list(wanted)
        misses = self.counts.misses
        try:
            folder = self._folders.take()
            hold = Hold(cache=self, folder=folder, paths=_names(folder.path, chunks))
            try:
                self._world.pool.map(self._held, zip(chunks, hold.paths, strict=True))
            except BaseException:
                hold.release()
                raise
            finally:
                if self.counts.misses != misses:
                    self._evict()
        except OSError as error:
            raise NoSpace(
                f"the chunk cache {self.held.parent} cannot be written ({error.strerror}): free "
                "space, or set "
                "another folder"
            ) from error
        return hold

    def forget(self, held: Path, sha256: str) -> None:
        """Drop the cached file that is held under this name; one that has come in its place since
        stays."""
        with self._lock:
            self._sound.pop(sha256, None)
        cached = self._files / sha256
        try:
            if cached.samefile(held):
                cached.unlink()
        except FileNotFoundError:
            # One of the two is gone: what is cached now, if anything, is checked at its next use.
            pass

    def bytes_used(self) -> int:
        """What the cached files take; files that only a query still holds not counted."""
        return sum(entry.stat().st_size for entry in os.scandir(self._files))

    def _held(self, job: tuple[Wanted, str]) -> None:
        chunk, link = job[0], Path(job[1])
        cached = self._files / chunk.sha256
        fetched = not self._linked(chunk, cached, link)
        if fetched:
            self._download(chunk, cached, link)
        with self._lock:
            self.counts.hits += not fetched
            self.counts.misses += fetched
            self.counts.bytes_served += chunk.bytes
            self.counts.bytes_fetched += chunk.bytes * fetched

    def _linked(self, chunk: Wanted, cached: Path, link: Path) -> bool:
        """Link a cached file and note its use;

        False if it is not cached, or no longer, or was damaged and is dropped.
        """
        try:
            os.link(cached, link)
        except FileNotFoundError:
            return False
        if not self._is_sound(chunk, link):
            self.forget(link, chunk.sha256)
            link.unlink()
            return False
        try:
            os.utime(link, ns=(self._world.clock.now_ms() * 1_000_000, os.stat(link).st_mtime_ns))
        except PermissionError:
            # Another user's file, which this one may write: both times move, and it is checked
            # again.
            os.utime(link)
        return True

    def _is_sound(self, chunk: Wanted, link: Path) -> bool:
        state = os.stat(link)
        if state.st_size != chunk.bytes:
            return False
        with self._lock:
            known = self._sound.get(chunk.sha256)
        if known == _identity(state):
            return True
        try:
            with open(link, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            # The disk cannot read it back: a copy that can be fetched again is no reason to fail.
            return False
        if found == chunk.sha256:
            self._note(chunk.sha256, state)
        return found == chunk.sha256

    def _note(self, sha256: str, state: os.stat_result) -> None:
        with self._lock:
            self._sound[sha256] = _identity(state)

    def _download(self, chunk: Wanted, cached: Path, link: Path) -> None:
        """Fetch a chunk, and keep it under both names."""
        part = self._parts / self._world.ids.token()
        digest = hashlib.sha256()
        try:
            with open(part, "wb") as file:
                for start in range(0, chunk.bytes, _PIECE):
                    data = chunk.bucket.get_range(
                        chunk.key, start, min(_PIECE, chunk.bytes - start)
                    )
                    digest.update(data)
                    file.write(data)
                file.flush()
                # Else the name may outlive a power loss that the bytes do not.
                os.fsync(file.fileno())
            state = part.stat()
            if state.st_size != chunk.bytes or digest.hexdigest() != chunk.sha256:
                raise Corrupt(
                    f"{chunk.bucket.url}/{chunk.key} has {state.st_size:,} bytes and the hash "
                    f"{digest.hexdigest()[:12]}…, "
                    f"expected {chunk.bytes:,} and {chunk.sha256[:12]}…"
                )
            os.utime(part, ns=(self._world.clock.now_ms() * 1_000_000, state.st_mtime_ns))
            # Linked first: once it is cached, another process may evict it.
            os.link(part, link)
            os.replace(part, cached)
            self._note(chunk.sha256, state)
        finally:
            part.unlink(missing_ok=True)

    def _evict(self) -> None:
        """Remove the least recently used files until the rest fit."""
        found = []
        for entry in os.scandir(self._files):
            with suppress(FileNotFoundError):
                state = entry.stat()
                found.append((state.st_atime_ns, state.st_size, entry.path))
        kept = {os.path.basename(path) for _, _, path in found}
        with self._lock:
            for gone in self._sound.keys() - kept:
                del self._sound[gone]
        excess = sum(size for _, size, _ in found) - self._limit_bytes
        for _, size, path in sorted(found):
            if excess <= 0:
                return
            try:
                Path(path).unlink(missing_ok=True)
            except OSError:
                continue  # another user's, in a shared folder: the next one goes in its place
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


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_ino, state.st_mtime_ns


def _names(folder: Path, chunks: Iterable[Wanted]) -> tuple[str, ...]:
    """A path for each: its hash, and where one is asked for twice by which of them it is."""
    seen: Counter[str] = Counter()
    paths = []
    for chunk in chunks:
        seen[chunk.sha256] += 1
        paths.append(f"{folder}/{chunk.sha256}-{seen[chunk.sha256]}.parquet")
    return tuple(paths)


def default_folder() -> Path:
    """Where the cache lies if nobody says: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "blockstore" / "chunks"

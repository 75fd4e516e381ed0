"""The cache of chunks of remote buckets, on a local disk.

Invariants:
- A chunk is kept as a complete file, or as one with only the column chunks that queries needed
  (``columns.py``); the rest is about complete files.
- A file is named by its SHA-256 and appears only when it is complete: it is downloaded under
  another name, checked for size and hash, synced to disk, and renamed. Chunks never change, so a
  cached file is never stale, and equal chunks are stored once.
- A disk may still damage a file. The size of each hit is checked, and its hash when this process
  uses the file for the first time or finds it modified. A damaged file is dropped and downloaded
  again; it is never reported as damage of the bucket.
- A query reads hard links of its own (``Hold``), so no eviction, by this or another process,
  removes a file that it reads; the disk space is freed with the last link. Later queries get the
  same paths for the same chunks, so that an engine can cache footers by path.
- The files together stay within ``limit_bytes``; the least recently used are removed first, by the
  access time, which each use sets (the modification time stays that of the download). What one
  query needs at once is kept until it ends, even if it exceeds the limit. Holes do not count.
- Processes share a folder without locks: every step is one atomic call of the file system.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from blockstore.bucket import ReadBucket
from blockstore.errors import Corrupt, NoSpace
from blockstore.format.footer import Footer
from blockstore.reader.cache.columns import INDEX, ColumnFiles
from blockstore.reader.cache.hold_folders import HoldFolder, HoldFolders
from blockstore.scan.fetch.bounded import Bounded
from blockstore.scan.fetch.course import Course, side_by_side
from blockstore.scan.fetch.fetcher import Fetcher, Opened
from blockstore.scan.fetch.pieces import LANES, Range
from blockstore.scan.fetch.remote import Remote, Way
from blockstore.world import World

_PIECE = 8 << 20
_MOST_READ_ALONE = 4_096
_ABANDONED_MS = 24 * 3600 * 1000


ChooseColumns: TypeAlias = Callable[[Footer], Sequence[Range]]
"""Returns the bytes of the column chunks that a query can read (``columns.column_chunks``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    """The part of a chunk that a query needs."""

    remote: Remote
    columns: ChooseColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A chunk that a query needs: where it is stored, its size and its hash."""

    bucket: ReadBucket
    key: str
    bytes: int
    sha256: str
    some: Some | None = None
    """None: all of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hold:
    """The files of one query, as hard links of its own until it is released."""

    cache: ChunkCache
    """The cache that made it."""
    folder: HoldFolder
    paths: tuple[str, ...]
    """In the order of the request."""
    partial: dict[str, Opened] = field(default_factory=dict)
    """The paths of files that do not have all columns, and by what they can be checked."""

    def is_sound(self, path: str) -> bool | None:
        """Whether all that is filled of a file is what was written; None if the file is complete,
        so that its hash says it."""
        opened = self.partial.get(path)
        return None if opened is None else self.cache.columns.is_sound(opened, Path(path))

    def forget(self, path: str, sha256: str) -> None:
        """Drop the file at one of the paths from the cache, because it is damaged."""
        self.cache.forget(Path(path), sha256)

    def release(self) -> None:
        """Remove the links; allowed twice."""
        self.folder.release(self.paths)


@dataclass(slots=True)
class Counts:
    """Counters of one process for metrics; they only grow."""

    hits: int = 0
    """Chunks that were in the cache and undamaged."""
    misses: int = 0
    """Chunks that had to be downloaded."""
    bytes_served: int = 0
    """The bytes that queries needed."""
    bytes_fetched: int = 0
    evicted: int = 0


class ChunkCache:
    """A folder of cached chunks; safe to share between threads and processes."""

    def __init__(self, folder: Path, world: World, *, limit_bytes: int = 10 << 30) -> None:
        self._files = folder / "files"
        self._partial = folder / "columns"
        self._parts = folder / "parts"
        self.held = folder / "held"
        """The folder that contains all holds: a query engine must be allowed to read it."""
        self._world = world
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._sound: dict[str, tuple[int, int]] = {}
        """The inode and modification time at which a file's hash was verified, by hash."""
        self.counts = Counts()
        self.fetcher = Fetcher(world.pool)
        """Reads ranges of chunks, and keeps footers between queries."""
        self.read_alone: Bounded[str, int] = Bounded(_MOST_READ_ALONE)
        """How many bytes of pages were read without their columns, by the chunk's hash."""
        self.columns = ColumnFiles(self._partial, self._parts, world, self.fetcher)
        for each in (self._files, self._partial, self._parts, self.held):
            each.mkdir(parents=True, exist_ok=True)
        self._folders = HoldFolders(self.held, world.ids.token(), world.clock)
        self._sweep()
        self._evict()

    def hold(self, wanted: Iterable[Wanted]) -> Hold:
        """Make all chunks available on disk; download the missing ones in parallel. Raises Corrupt
        for a chunk that is not what its block says, NoSpace if the disk is full, and what the
        bucket raises."""
        chunks = list(wanted)
        misses = self.counts.misses
        try:
            folder = self._folders.take()
            hold = Hold(cache=self, folder=folder, paths=_names(folder.path, chunks))
            try:
                self._make_all(chunks, hold)
            except Exception:
                hold.release()
                raise
            except BaseException:
                # Interrupted: calls in the pool may still put files there.
                folder.abandon(hold.paths)
                raise
            finally:
                if self.counts.misses != misses:
                    self._evict()
        except OSError as error:
            raise self._no_space(error) from error
        return hold

    def _make_all(self, chunks: Iterable[Wanted], hold: Hold) -> None:
        """Make a file with all that is needed of each chunk at each path of the hold."""
        left = list(zip(chunks, hold.paths, strict=True))
        while left:
            lanes = max(1, LANES // len(left))
            courses = [self._holding(chunk, path, lanes) for chunk, path in left]
            made = list(zip(left, side_by_side(self._world.pool, courses), strict=True))
            hold.partial.update((path, one.opened) for (_, path), one in made if one is not None)
            left = [job for job, one in made if one is not None and one.awaited]
            # Only now: a query that waited while it fills something could wait for one that waits
            # for it.
            for event in [event for _, one in made if one is not None for event in one.awaited]:
                self._world.pool.wait(event)

    def hold_made(self, data: bytes) -> Hold:
        """Make a file of these bytes that only one query has. Raises NoSpace.

        It is named by its hash: an engine that keeps footers by path must not meet another file
        under the same name.
        """
        try:
            folder = self._folders.take()
            path = f"{folder.path}/{hashlib.sha256(data).hexdigest()}.parquet"
            hold = Hold(cache=self, folder=folder, paths=(path,))
            try:
                Path(path).write_bytes(data)
            except BaseException:
                hold.release()
                raise
        except OSError as error:
            raise self._no_space(error) from error
        return hold

    def forget(self, held: Path, sha256: str) -> None:
        """Drop the cached file that this link refers to; a newer file in its place stays."""
        with self._lock:
            self._sound.pop(sha256, None)
        self.columns.forget(sha256)
        for cached in (self._files / sha256, self._partial / sha256):
            # One of the two may be gone: a file that is cached now is checked at its next use.
            with suppress(FileNotFoundError):
                if cached.samefile(held):
                    cached.unlink()

    def bytes_used(self) -> int:
        """The size of the cached files, without those that only a query still holds."""
        return sum(one.bytes for one in self._cached())

    def lacks(self, wanted: Wanted, columns: Sequence[Range]) -> bool:
        """Whether something would have to be fetched for these column chunks of a chunk."""
        return self.columns.lacks(wanted.sha256, columns) and not self._is_whole(wanted)

    def _no_space(self, error: OSError) -> NoSpace:
        return NoSpace(
            f"the chunk cache {self.held.parent} cannot be written ({error.strerror}): free space, "
            "or set another folder"
        )

    def _is_whole(self, chunk: Wanted) -> bool:
        return (self._files / chunk.sha256).exists()

    def _holding(self, chunk: Wanted, path: str, lanes: int) -> Course[_Part | None]:
        """Link a file with all that is needed of a chunk; return what is to be known of one that is
        not complete."""
        link = Path(path)
        some = chunk.some
        if some is not None and some.remote.way is Way.SEGMENTS and not self._is_whole(chunk):
            try:
                opened = yield from self.fetcher.opening(some.remote)
                if opened is not None and opened.can_be_filled:
                    filled = yield from self.columns.holding(
                        opened, some.columns(opened.footer), link, lanes=lanes
                    )
                    if not filled.awaited:
                        self._count(filled.needed, filled.fetched)
                    elif filled.fetched:
                        self._count(0, filled.fetched)
                    return _Part(opened, filled.awaited)
            except Corrupt as error:
                raise Corrupt(f"{chunk.bucket.url}/{chunk.key}: {error}") from error
        yield [partial(self._held, chunk, link)]
        return None

    def _held(self, chunk: Wanted, link: Path) -> None:
        cached = self._files / chunk.sha256
        fetched = not self._linked(chunk, cached, link)
        if fetched:
            self._download(chunk, cached, link)
        self._count(chunk.bytes, chunk.bytes * fetched)

    def _count(self, needed: int, fetched: int) -> None:
        with self._lock:
            self.counts.hits += not fetched
            self.counts.misses += fetched > 0
            self.counts.bytes_served += needed
            self.counts.bytes_fetched += fetched

    def _linked(self, chunk: Wanted, cached: Path, link: Path) -> bool:
        """Link a cached file and record its use. False if it is not cached, or was damaged and has
        been dropped."""
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
            # Another user's file, which this user may write: both times change, so the hash is
            # checked again.
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
            # The disk cannot read it: download it again instead of failing.
            return False
        if found == chunk.sha256:
            self._note(chunk.sha256, state)
        return found == chunk.sha256

    def _note(self, sha256: str, state: os.stat_result) -> None:
        with self._lock:
            self._sound[sha256] = _identity(state)

    def _download(self, chunk: Wanted, cached: Path, link: Path) -> None:
        """Download a chunk, and store it under both names."""
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
                # Otherwise the name may survive a power loss and the bytes may not.
                os.fsync(file.fileno())
            state = part.stat()
            if state.st_size != chunk.bytes or digest.hexdigest() != chunk.sha256:
                raise Corrupt(
                    f"{chunk.bucket.url}/{chunk.key} has {state.st_size:,} bytes and the hash "
                    f"{digest.hexdigest()[:12]}…, expected {chunk.bytes:,} and "
                    f"{chunk.sha256[:12]}…"
                )
            os.utime(part, ns=(self._world.clock.now_ms() * 1_000_000, state.st_mtime_ns))
            # The link comes first: a cached file may be evicted by another process.
            os.link(part, link)
            os.replace(part, cached)
            self._note(chunk.sha256, state)
        finally:
            part.unlink(missing_ok=True)

    def _evict(self) -> None:
        """Remove the least recently used files until the rest fit."""
        found = list(self._cached())
        kept = {os.path.basename(one.path) for one in found}
        with self._lock:
            for gone in self._sound.keys() - kept:
                del self._sound[gone]
        self.columns.forget_all_but(kept)
        excess = sum(one.bytes for one in found) - self._limit_bytes
        for one in sorted(found):
            if excess <= 0:
                return
            try:
                Path(one.path).unlink(missing_ok=True)
                Path(one.path + INDEX).unlink(missing_ok=True)
            except OSError:
                continue  # another user's file in a shared folder: remove the next one
            excess -= one.bytes
            with self._lock:
                self.counts.evicted += 1

    def _cached(self) -> Iterator[_Cached]:
        for folder in (self._files, self._partial):
            for entry in os.scandir(folder):
                if entry.name.endswith(INDEX):
                    continue
                with suppress(FileNotFoundError):
                    state = entry.stat()
                    size = state.st_size
                    if folder == self._partial:
                        size = min(size, state.st_blocks * 512)
                    yield _Cached(state.st_atime_ns, size, entry.path)

    def _sweep(self) -> None:
        """Remove what killed processes left behind more than a day ago."""
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


class _Part(NamedTuple):
    """A file that is not complete."""

    opened: Opened
    """By what it can be checked."""
    awaited: Sequence[threading.Event]
    """What to wait for before it has all that is needed."""


class _Cached(NamedTuple):
    """A file in the cache."""

    used_ns: int
    bytes: int
    path: str


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_ino, state.st_mtime_ns


def _names(folder: Path, chunks: Iterable[Wanted]) -> tuple[str, ...]:
    """A path for each chunk: its hash, and a number for repeated ones."""
    seen: Counter[str] = Counter()
    paths = []
    for chunk in chunks:
        seen[chunk.sha256] += 1
        paths.append(f"{folder}/{chunk.sha256}-{seen[chunk.sha256]}.parquet")
    return tuple(paths)


def default_folder() -> Path:
    """The default folder of the cache: in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "blockstore" / "chunks"

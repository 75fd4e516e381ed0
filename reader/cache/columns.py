"""Files of remote chunks of which only some column chunks are here.

The problem: a query needs a few columns of a chunk. DuckDB reads local files only, ignores the
checksums of Parquet, and reads a hole of a sparse file as zeros.

The mental model: the file of a chunk has the chunk's size and footer. Column chunks are filled into
it, each completely, from segments that were fetched and checked. An index beside the file lists the
filled ones.

Rules:
- Nothing is in the file but its footer and complete column chunks. The first byte of a column chunk
  is written last, after the index lists it. It begins the header of a page and is never zero. A
  column chunk that is not filled, or is just being filled, begins with a zero: DuckDB finds no page
  there and fails.
- So a hole cannot become a wrong row, whatever DuckDB reads. A query of its columns is planned so
  that DuckDB reads none (``sql/reading.py``, ``sql/views.py``).
- A process uses a file that it did not make only after it has checked all of it: the footer, and
  each column chunk by the hashes of its segments, and by a hash in the index where a segment also
  has other bytes. If a column chunk is not listed, or does not match, the file is dropped and a new
  one is made.
- What an index says depends on the chunk alone: it is never stale.
- A file is known again by its inode, which a new file can have too: what a query needs of a known
  file still begins with a page.
- Processes share the files without locks: two that fill the same column chunk write the same bytes.
- The modification time is always the same, so that an engine can keep the footer.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from blockstore.errors import Corrupt
from blockstore.format.footer import column_parts, column_range
from blockstore.format.segments import SEGMENT_BYTES
from blockstore.scan.fetch.course import Course
from blockstore.scan.fetch.fetcher import Fetcher, Opened
from blockstore.scan.fetch.pieces import LANES, Range, pieces, segment_runs
from blockstore.world import World

INDEX = ".index"
"""The ending of the name of an index."""

_MAGIC = b"PAR1"
_MODIFIED_NS = 10**18
_CHECKED_BYTES = 128 * SEGMENT_BYTES
"""So many bytes are held while a file is checked."""


@dataclass(slots=True)
class _File:
    """What this process knows of a file."""

    inode: int
    filled: set[Range] = field(default_factory=set)
    """The column chunks that are complete and were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What was done for one query."""

    awaited: Sequence[threading.Event]
    """Set when other queries have ended to fill the column chunks that are still missing."""

    needed: int
    """The bytes of the column chunks that it needs."""
    fetched: int
    """The bytes that were fetched for them."""


class ColumnFiles:
    """The files in one folder; safe to share between threads and processes."""

    def __init__(self, folder: Path, parts: Path, world: World, fetcher: Fetcher) -> None:
        """``parts`` is a folder for files that are not complete."""
        self._folder = folder
        self._parts = parts
        self._world = world
        self._fetcher = fetcher
        self._lock = threading.Lock()
        self._known: dict[str, _File] = {}
        self._filling: dict[tuple[int, Range], threading.Event] = {}
        """By the file's inode, the column chunks that queries of this process are filling."""

    def holding(
        self, opened: Opened, columns: Sequence[Range], link: Path, *, lanes: int = LANES
    ) -> Course[Filled]:
        """Make these column chunks available in a file at ``link``; fetch those that are missing.

        Column chunks that another query of this process is filling are left to it: if the result
        says so, call this again when it has ended. ``lanes`` is how many requests for this file
        should be in flight.

        Raises Corrupt and what the bucket raises.
        """
        sha256 = opened.remote.file.sha256
        if not link.exists():
            yield [partial(self._link, opened, columns, link)]
        descriptor = os.open(link, os.O_RDWR)
        mine: list[Range] = []
        wanted: list[range] = []
        awaited: list[threading.Event] = []
        try:
            missing = self._missing(sha256, descriptor, columns)
            if missing:
                # Perhaps another process has filled them.
                yield [partial(self._check_new, opened, descriptor, missing)]
                mine, awaited = self._claim(sha256, descriptor, missing)
            segments = [number for run in segment_runs(mine) for number in run]
            wanted = pieces(segments, lanes=lanes)
            if wanted:
                first: dict[Range, int] = {}
                yield [partial(self._fill, opened, link, mine, piece, first) for piece in wanted]
                self._complete(opened, descriptor, first)
            self._used(descriptor)
        finally:
            self._release(descriptor, mine)
            os.close(descriptor)
        return Filled(
            awaited=awaited,
            needed=sum(length for _, length in columns),
            fetched=SEGMENT_BYTES * sum(map(len, wanted)),
        )

    def lacks(self, sha256: str, columns: Iterable[Range]) -> bool:
        """Whether one of the column chunks is to be fetched, as far as this process has seen."""
        with self._lock:
            known = self._known.get(sha256)
            return known is None or not known.filled.issuperset(columns)

    def is_sound(self, opened: Opened, held: Path) -> bool:
        """Whether all that is filled of a file is what was written."""
        try:
            descriptor = os.open(held, os.O_RDONLY)
        except OSError:
            return False
        try:
            # If it was evicted since, it has no index.
            return self._checked(opened, descriptor, unlisted=True) is not None
        finally:
            os.close(descriptor)

    def forget_all_but(self, kept: Collection[str]) -> None:
        """Know nothing of files that other hashes name."""
        with self._lock:
            for gone in self._known.keys() - kept:
                del self._known[gone]

    def forget(self, sha256: str) -> None:
        """Use nothing of a file that was dropped."""
        with self._lock:
            self._known.pop(sha256, None)

    def _link(self, opened: Opened, columns: Collection[Range], link: Path) -> None:
        """Link the file; make a new one if there is none or it is damaged."""
        sha256 = opened.remote.file.sha256
        for _ in range(2):
            try:
                os.link(self._folder / sha256, link)
                if self._is_believed(opened, columns, link):
                    return
                link.unlink()
                self._drop(sha256)
            except FileNotFoundError:
                pass
            except PermissionError:
                # Another user's file, which this user may not write.
                link.unlink(missing_ok=True)
                break
            self._make(opened)
        # Or other processes drop what was just made: make one that only this query has.
        self._make(opened, only=link)

    def _is_believed(self, opened: Opened, columns: Collection[Range], link: Path) -> bool:
        descriptor = os.open(link, os.O_RDWR)
        try:
            sha256, inode = opened.remote.file.sha256, os.fstat(descriptor).st_ino
            with self._lock:
                known = self._known.get(sha256)
                if known is not None and known.inode == inode:
                    begun = known.filled.intersection(columns)
                else:
                    begun = None
            if begun is not None and all(_begins(descriptor, start) for start, _ in begun):
                return True
            filled = self._checked(opened, descriptor)
            if filled is None:
                return False
            with self._lock:
                now = self._known.get(sha256)
                if begun is None and now is not None and now.inode == inode:
                    now.filled |= filled  # other queries have checked it too, or filled it
                else:
                    self._known[sha256] = _File(inode, filled)
            return True
        finally:
            os.close(descriptor)

    def _make(self, opened: Opened, only: Path | None = None) -> None:
        """Make a file without column chunks."""
        file, footer = opened.remote.file, _end(opened)
        part = self._parts / self._world.ids.token()
        try:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                os.ftruncate(descriptor, file.bytes)
                os.pwrite(descriptor, _MAGIC, 0)
                os.pwrite(descriptor, footer, file.bytes - len(footer))
                self._used(descriptor)
            finally:
                os.close(descriptor)
            with suppress(FileExistsError):
                os.link(part, only or self._folder / file.sha256)
        finally:
            part.unlink(missing_ok=True)

    def _drop(self, sha256: str) -> None:
        self.forget(sha256)
        for path in (self._folder / sha256, self._index(sha256)):
            path.unlink(missing_ok=True)

    def _missing(self, sha256: str, descriptor: int, columns: Iterable[Range]) -> list[Range]:
        inode = os.fstat(descriptor).st_ino
        with self._lock:
            known = self._known.get(sha256)
            filled = known.filled if known is not None and known.inode == inode else set()
            return [one for one in columns if one not in filled]

    def _claim(
        self, sha256: str, descriptor: int, columns: Iterable[Range]
    ) -> tuple[list[Range], list[threading.Event]]:
        """Of these column chunks, those that are missing and that this query is to fill; and what
        to wait for until others have been filled."""
        inode = os.fstat(descriptor).st_ino
        mine, awaited = [], []
        with self._lock:
            known = self._known.get(sha256)
            filled = known.filled if known is not None and known.inode == inode else set()
            for one in columns:
                if one in filled:
                    continue
                other = self._filling.get((inode, one))
                if other is None:
                    self._filling[inode, one] = threading.Event()
                    mine.append(one)
                else:
                    awaited.append(other)
        return mine, awaited

    def _release(self, descriptor: int, columns: Iterable[Range]) -> None:
        """End to fill these column chunks."""
        inode = os.fstat(descriptor).st_ino
        with self._lock:
            for one in columns:
                self._filling.pop((inode, one)).set()

    def _check_new(self, opened: Opened, descriptor: int, missing: Iterable[Range]) -> None:
        """Use those of the missing column chunks that the index lists, if they are right."""
        listed = self._listed(opened.remote.file.sha256)
        for one in missing:
            if one in listed and self._is_right(opened, descriptor, one, listed[one]):
                self._believe(opened.remote.file.sha256, descriptor, [one])

    def _fill(
        self,
        opened: Opened,
        link: Path,
        missing: Iterable[Range],
        piece: range,
        first: dict[Range, int],
    ) -> None:
        """Fetch a piece, and write what it has of the missing column chunks, without the first byte
        of each: it is put into ``first``."""
        data = memoryview(self._fetcher.fetch(opened, piece, keep=False))
        base = piece.start * SEGMENT_BYTES
        # By a descriptor of its own: if the query was interrupted meanwhile, the number of the
        # query's is perhaps that of another file now.
        descriptor = os.open(link, os.O_RDWR)
        try:
            for start, length in missing:
                if base <= start < base + len(data):
                    first[start, length] = data[start - base]
                low, high = max(start + 1, base), min(start + length, base + len(data))
                while low < high:
                    low += os.pwrite(descriptor, data[low - base : high - base], low)
        finally:
            os.close(descriptor)

    def _complete(self, opened: Opened, descriptor: int, first: dict[Range, int]) -> None:
        """List the filled column chunks, and write the first byte of each."""
        lines = []
        for (start, length), byte in first.items():
            if byte == 0:
                raise Corrupt(
                    f"chunk {opened.remote.key} has no page at byte {start:,}, where a column "
                    "begins by its footer: restore it from a copy"
                )
            lines.append(f"{start} {length} {_edges(descriptor, start, length, byte)}\n")
        sha256 = opened.remote.file.sha256
        # The file may be this query's alone, evicted meanwhile or another user's.
        with suppress(FileNotFoundError, PermissionError):
            if os.stat(self._folder / sha256).st_ino == os.fstat(descriptor).st_ino:
                with open(self._index(sha256), "ab", buffering=0) as index:
                    index.write("".join(lines).encode())
        # Only now: a column chunk that begins and is not listed is taken for damage.
        for (start, _), byte in first.items():
            os.pwrite(descriptor, bytes([byte]), start)
        self._believe(sha256, descriptor, first)

    def _believe(self, sha256: str, descriptor: int, columns: Iterable[Range]) -> None:
        inode = os.fstat(descriptor).st_ino
        with self._lock:
            known = self._known.get(sha256)
            if known is not None and known.inode == inode:
                known.filled.update(columns)

    def _used(self, descriptor: int) -> None:
        with suppress(PermissionError):
            os.utime(descriptor, ns=(self._world.clock.now_ms() * 1_000_000, _MODIFIED_NS))

    def _checked(
        self, opened: Opened, descriptor: int, *, unlisted: bool = False
    ) -> set[Range] | None:
        """The column chunks in the file; None if the file is damaged. With ``unlisted``, those that
        the index does not list are compared as far as the hashes of segments can tell."""
        file, footer = opened.remote.file, _end(opened)
        if os.fstat(descriptor).st_size != file.bytes:
            return None
        try:
            if os.pread(descriptor, len(footer), file.bytes - len(footer)) != footer:
                return None
            listed = self._listed(file.sha256)
            found = set()
            for start, length in column_chunks(opened.footer.metadata):
                if not _begins(descriptor, start):
                    continue
                if (start, length) not in listed:
                    # Perhaps it was filled since.
                    listed = self._listed(file.sha256)
                edges = listed.get((start, length))
                if edges is None and not unlisted:
                    return None
                if not self._is_right(opened, descriptor, (start, length), edges):
                    return None
                found.add((start, length))
        except OSError:
            # The disk cannot read it.
            return None
        return found

    def _is_right(self, opened: Opened, descriptor: int, column: Range, edges: str | None) -> bool:
        start, length = column
        if edges is not None and _edges(descriptor, start, length) != edges:
            return False
        first, last = -(-start // SEGMENT_BYTES), (start + length) // SEGMENT_BYTES
        step = _CHECKED_BYTES // SEGMENT_BYTES
        for begin in range(first, last, step):
            end = min(begin + step, last)
            size = (end - begin) * SEGMENT_BYTES
            try:
                opened.check(begin, os.pread(descriptor, size, begin * SEGMENT_BYTES))
            except Corrupt:
                return False
        return True

    def _listed(self, sha256: str) -> dict[Range, str]:
        """The filled column chunks by the index, with the hash of the edges of each."""
        try:
            lines = self._index(sha256).read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        found = {}
        for line in lines:
            with suppress(ValueError):
                start, length, edges = line.split(" ")
                found[int(start), int(length)] = edges
        return found

    def _index(self, sha256: str) -> Path:
        return self._folder / f"{sha256}{INDEX}"


def column_chunks(
    metadata: pq.FileMetaData,
    columns: Iterable[str] | None = None,
    groups: Iterable[int] | None = None,
) -> list[Range]:
    """The bytes of these columns in these row groups: the chunk of each, and its bloom filter. By
    default all."""
    numbers = range(metadata.num_row_groups) if groups is None else groups
    found = []
    for part in column_parts(metadata, columns, numbers):
        found.append(column_range(part))
        if part.bloom_filter_offset is not None:
            found.append((part.bloom_filter_offset, part.bloom_filter_length or 0))
    return [(start, length) for start, length in found if length > 0]


def _end(opened: Opened) -> bytes:
    """The footer of the file, with its length and the magic."""
    encoded = opened.footer.encoded
    return encoded + struct.pack("<I", len(encoded)) + _MAGIC


def _begins(descriptor: int, start: int) -> bool:
    """Whether the column chunk at this byte is filled."""
    return os.pread(descriptor, 1, start) != b"\0"


def _edges(descriptor: int, start: int, length: int, begins: int | None = None) -> str:
    """The hash of the bytes of a column chunk in segments that also have other bytes; ``begins`` is
    its first byte, where that is not written yet."""
    end = start + length
    first, last = -(-start // SEGMENT_BYTES) * SEGMENT_BYTES, end // SEGMENT_BYTES * SEGMENT_BYTES
    if first >= last:
        data = os.pread(descriptor, length, start)
    else:
        data = os.pread(descriptor, first - start, start) + os.pread(descriptor, end - last, last)
    if begins is not None and (first >= last or first > start):
        data = bytes([begins]) + data[1:]
    return hashlib.sha256(data).hexdigest()

"""Checked bytes of remote chunks, by ranges: what was read before is not read again.

Rules:
- Bytes leave here only after they matched a SHA-256 that the block's meta lists: of the chunk, or
  of its segments. Bytes that do not match are fetched once more; then the read ends with Corrupt.
- A chunk whose segments cannot be read is read as one that has none.
- The footer and the hashes of the segments are requested side by side, and kept: both are needed
  before a row can be read.
- Bytes that are kept in memory since they matched are not compared again.
- Everything that is kept is bounded, and named by a hash of its content and by what it was compared
  with: it is never stale.

A handle has one ``Fetcher`` for all its queries; threads may share it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import ChunkFile
from blockstore.format.footer import Footer, footer_start
from blockstore.format.page_file import PageLayout
from blockstore.format.segments import SEGMENT_BYTES, FileSegments, load_segments, segments_in
from blockstore.format.unreadable import UNREADABLE
from blockstore.scan.fetch.bounded import Bounded
from blockstore.scan.fetch.course import Course
from blockstore.scan.fetch.held import Held
from blockstore.scan.fetch.pieces import Range, pieces, segment_runs
from blockstore.scan.fetch.remote import Remote, Way
from blockstore.scan.fetch.store import MemoryStore, SegmentStore
from blockstore.world import Pool

_FOOTERS_BYTES = 32 << 20
_HASHES_BYTES = 16 << 20
_LAYOUTS_BYTES = 16 << 20
_LEAST_TAIL_BYTES = 64
_USUAL_TAIL_BYTES = 32 * 1024
"""The tail of a chunk whose meta does not say how long it is."""

Check = Callable[[int, bytes], None]
"""Raises Corrupt unless these are the bytes of the segments from that number on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A chunk whose footer is known, and by which its bytes can be checked."""

    remote: Remote
    footer: Footer
    check: Check
    whole: Held | None = None
    """All bytes of a chunk that was read as a whole."""

    @property
    def can_be_filled(self) -> bool:
        """Whether a file with a part of its column chunks gives their rows, to any engine."""
        return self.whole is None and not self.footer.has_gaps


class Fetcher:
    """Reads chunks by ranges, and keeps what it read in a store."""

    def __init__(self, pool: Pool, store: SegmentStore | None = None) -> None:
        """``store`` is by default one in memory."""
        self.pool = pool
        self.store: SegmentStore = MemoryStore() if store is None else store
        self._footers: Bounded[tuple[str, str], Footer] = Bounded(_FOOTERS_BYTES)
        self._layouts: Bounded[Hashable, PageLayout] = Bounded(_LAYOUTS_BYTES)
        self._hashes: Bounded[str, Mapping[str, FileSegments]] = Bounded(_HASHES_BYTES)
        self._loading: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def opening(self, remote: Remote, *, keep: bool = True) -> Course[Opened | None]:
        """Return what is needed to read rows of the chunk: one round, none if it was opened before.

        None if nothing can check a part of the chunk, and it is too large to be read as a whole.
        ``keep`` is that of ``filling``; footers and hashes are always kept.
        """
        if remote.way is Way.PLAIN:
            return None
        if remote.way is Way.WHOLE:
            return (yield from self._whole(remote, keep))
        return (yield from self._by_segments(remote, keep))

    def filling(
        self, opened: Opened, ranges: Iterable[Range], *, keep: bool = True
    ) -> Course[Held]:
        """Return the bytes of these ranges, and perhaps others: one round, none if all were kept.

        ``keep=False`` leaves the store to other reads: for a scan of more than it holds.
        """
        if opened.whole is not None:
            return opened.whole
        file = opened.remote.file
        parts, missing = self._kept(opened, ranges)
        wanted = pieces(missing)
        if wanted:
            fetched = yield [partial(self.fetch, opened, piece, keep=keep) for piece in wanted]
            parts += [
                (piece.start * SEGMENT_BYTES, data)
                for piece, data in zip(wanted, fetched, strict=True)
            ]
        return Held(file.bytes, parts)

    def layout(self, opened: Opened, key: Hashable, make: Callable[[], PageLayout]) -> PageLayout:
        """Return what ``make`` made of the chunk's footer under this key before, or else makes:
        where pages are takes longer to find out than to read one."""
        name = opened.remote.file.sha256, opened.remote.hashes, key
        found = self._layouts.get(name)
        if found is None:
            found = make()
            self._layouts.put(name, found, found.weight)
        return found

    def fetch(self, opened: Opened, piece: range, *, keep: bool = True) -> bytes:
        """Return the bytes of these segments, by one request, checked. Raises Corrupt."""
        return self._fetched(opened.remote, opened.check, piece, keep)

    def _whole(self, remote: Remote, keep: bool) -> Course[Opened]:
        file = remote.file
        check = partial(_check_whole, file)
        every = range(segments_in(file.bytes))
        data, is_checked = self._kept_run(remote, every)
        if not is_checked and not _is_sound(remote, check, every, data):
            (data,) = yield [partial(self._fetched, remote, check, every, keep)]
        footer = self._known_footer(remote) or self._footer(remote, data)
        return Opened(
            remote=remote, footer=footer, check=check, whole=Held(file.bytes, [(0, data)])
        )

    def _by_segments(self, remote: Remote, keep: bool) -> Course[Opened | None]:
        file = remote.file
        footer = self._known_footer(remote)
        hashes = self._known(remote)
        tail = _tail(file, file.footer or _USUAL_TAIL_BYTES)
        data = b"" if footer is not None else self._kept_run(remote, tail)[0]
        calls: list[Callable[[], Any]] = []
        if footer is None and not data:
            calls.append(partial(_bytes_of, remote, tail))
        if hashes is None:
            calls.append(partial(self._loaded, remote))
        if calls:
            results = list((yield calls))
            hashes = results.pop() if hashes is None else hashes
            data = results.pop() if results else data
        if hashes is None:
            return (yield from self.opening(remote.without_segments(), keep=keep))
        check: Check = hashes[file.path].check
        if footer is None:
            footer = yield from self._checked_footer(remote, check, tail, data, keep)
        return Opened(remote=remote, check=check, footer=footer)

    def _checked_footer(
        self, remote: Remote, check: Check, tail: range, data: bytes, keep: bool
    ) -> Course[Footer]:
        """Return the footer from the last bytes, which came side by side with their hashes: they
        are compared only now."""
        if not _is_sound(remote, check, tail, data):
            (data,) = yield [partial(self._fetched, remote, check, tail, keep)]
        elif keep:
            self.store.keep(remote.file, tail.start, data, hashes=remote.hashes)
        try:
            start = footer_start(data, remote.file.bytes)
        except ValueError as error:
            raise _unreadable(remote, error) from error
        before = range(start // SEGMENT_BYTES, tail.start)
        if before:
            (more,) = yield [partial(self._fetched, remote, check, before, keep)]
            data = more + data
        return self._footer(remote, data)

    def _fetched(self, remote: Remote, check: Check, piece: range, keep: bool) -> bytes:
        """Return the bytes once they match their hashes, by two requests at most."""
        data = _bytes_of(remote, piece)
        if not _is_sound(remote, check, piece, data):
            data = _bytes_of(remote, piece)
            _check(remote, check, piece, data)
        if keep:
            self.store.keep(remote.file, piece.start, data, hashes=remote.hashes)
        return data

    def _kept(
        self, opened: Opened, ranges: Iterable[Range]
    ) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Return the parts that the store has, and the segments that it does not have."""
        remote, parts, missing = opened.remote, list[tuple[int, bytes]](), list[int]()
        for run in segment_runs(ranges):
            for number in run:
                data = self.store.load(remote.file, number)
                if data is not None and (
                    self.store.is_checked(remote.file, number, data, remote.hashes)
                    or _is_sound(remote, opened.check, range(number, number + 1), data)
                ):
                    parts.append((number * SEGMENT_BYTES, data))
                else:
                    missing.append(number)
        return parts, missing

    def _kept_run(self, remote: Remote, run: range) -> tuple[bytes, bool]:
        """Return the bytes of these segments if the store has all of them, else none; and whether
        they need not be compared."""
        file = remote.file
        parts = {number: self.store.load(file, number) for number in run}
        kept = {number: data for number, data in parts.items() if data is not None}
        if len(kept) < len(parts) or not kept:
            return b"", False
        is_checked = all(
            self.store.is_checked(file, number, data, remote.hashes)
            for number, data in kept.items()
        )
        return b"".join(kept.values()), is_checked

    def _known_footer(self, remote: Remote) -> Footer | None:
        return self._footers.get((remote.file.sha256, remote.hashes))

    def _footer(self, remote: Remote, data: bytes) -> Footer:
        """Return the footer in the last bytes of the chunk. Raises Corrupt."""
        file = remote.file
        try:
            least = file.bytes - footer_start(data, file.bytes)
            footer = Footer(data[-max(least, min(file.footer or least, len(data))) :], file.bytes)
        except (ValueError, *UNREADABLE) as error:
            raise _unreadable(remote, error) from error
        if footer.metadata.num_rows != file.rows:
            raise Corrupt(
                f"chunk {remote.key} has {footer.metadata.num_rows:,} rows, expected "
                f"{file.rows:,} as its meta.json says: restore it from a copy"
            )
        self._footers.put((file.sha256, remote.hashes), footer, footer.weight)
        return footer

    def _known(self, remote: Remote) -> Mapping[str, FileSegments] | None:
        assert remote.segments is not None, "only a chunk with segments is read by them"
        hashes = self._hashes.get(remote.segments.sha256)
        return hashes if hashes is not None and remote.file.path in hashes else None

    def _loaded(self, remote: Remote) -> Mapping[str, FileSegments] | None:
        """Return the hashes of the block's segments, by one request for all threads; None if they
        cannot be read."""
        assert remote.segments is not None, "only a chunk with segments is read by them"
        key = remote.segments.sha256
        while (hashes := self._known(remote)) is None:
            with self._lock:
                loading = self._loading.get(key)
                if loading is None:
                    mine = self._loading[key] = threading.Event()
            if loading is not None:
                self.pool.wait(loading)
                continue
            try:
                hashes = load_segments(remote.bucket, remote.block, remote.segments, [remote.file])
                self._hashes.put(key, hashes, remote.segments.bytes)
                return hashes
            except (ObjectMissing, Corrupt):
                return None
            finally:
                with self._lock:
                    del self._loading[key]
                mine.set()
        return hashes


def _tail(file: ChunkFile, length: int) -> range:
    """Return the segments with the last bytes of the file."""
    start = max(0, file.bytes - max(length, _LEAST_TAIL_BYTES))
    return range(start // SEGMENT_BYTES, segments_in(file.bytes))


def _bytes_of(remote: Remote, piece: range) -> bytes:
    start = piece.start * SEGMENT_BYTES
    # One byte more than declared shows a chunk that is too large.
    end = min(piece.stop * SEGMENT_BYTES, remote.file.bytes + 1)
    return remote.bucket.get_range(remote.key, start, end - start)


def _is_sound(remote: Remote, check: Check, piece: range, data: bytes) -> bool:
    try:
        _check(remote, check, piece, data)
    except Corrupt:
        return False
    return True


def _check(remote: Remote, check: Check, piece: range, data: bytes) -> None:
    start = piece.start * SEGMENT_BYTES
    end = min(piece.stop * SEGMENT_BYTES, remote.file.bytes)
    if len(data) != end - start:
        raise Corrupt(
            f"chunk {remote.key} has {len(data):,} bytes from byte {start:,}, expected "
            f"{end - start:,} as its meta.json says: restore it from a copy"
        )
    check(piece.start, data)


def _check_whole(file: ChunkFile, first: int, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Corrupt(
            f"chunk {file.path} has another SHA-256 than its meta.json says: restore it from a copy"
        )


def _unreadable(remote: Remote, error: Exception) -> Corrupt:
    return Corrupt(
        f"chunk {remote.key} cannot be read as Parquet ({error}): restore it from a copy"
    )

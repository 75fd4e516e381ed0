"""Time travel: the state at an earlier version or time, and the entries themselves.

Rules (protocol 3.5):
- Everything is read under the double look: what the boundary, read afterwards, has passed does not
  count.
- A version at or below the boundary is readable only through a tag, whose checkpoint is pinned;
  else ``VersionExpired``, which names the oldest version left.
- A version whose entry is void is the one before it: its entry is not part of the past, and has no
  time of its own.
- ``as_of`` is the last version with an entry time at or before the time requested. Entry times
  never fall. Where that is the version at the boundary, a tag keeps it readable by its time as
  well.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from blockstore.errors import Corrupt, NotFound, Unavailable, VersionExpired
from blockstore.index.entry import Entry
from blockstore.index.read import IndexReader
from blockstore.index.state import State
from blockstore.names import checkpoint_key

_RESTARTS = 20
_PAGE = 64
_SIDE_BY_SIDE = 15


class History:
    """The past of one table's index, up to a state that was checked."""

    def __init__(self, reader: IndexReader, latest: State) -> None:
        self._reader = reader
        self._latest = latest
        self._void = frozenset(latest.void)
        self._url = reader.bucket.url

    def at(self, version: int) -> State:
        """The state at a version.

        Raises NotFound for one that was never written, VersionExpired for one that is gone.
        """
        if version == self._latest.version:
            return self._latest
        if not 1 <= version < self._latest.version:
            raise NotFound(
                f"{self._url} has no version {version}, expected one from 1 to "
                f"{self._latest.version}, its latest"
            )
        for _ in range(_RESTARTS):
            # This look at the boundary only chooses where to begin: that after the entries decides.
            # The listing may begin at what was known of it.
            boundary, listed = self._reader.requests.beside(
                self._reader.boundary.read,
                partial(self._reader.checkpoints, self._reader.boundary.seen),
            )
            if version <= boundary:
                pinned = self._tagged(version)
                if pinned is None:
                    raise self.expired(f"version {version}", boundary)
                return pinned
            bases = [one for one in reversed(listed) if boundary <= one <= version]
            bases += [] if boundary else [0]
            found = self._reader.replay(bases, version) if bases else None
            if found is not None:
                return found.state
        self._reader.looks.check_now(self._latest)
        raise self._moving(f"version {version}")

    def as_of(self, time_ms: int) -> State:
        """The state at the last version whose time is at or before ``time_ms``."""
        if time_ms >= self._latest.time_ms:
            return self._latest
        for _ in range(_RESTARTS):
            boundary = self._reader.boundary.seen
            version = self._search(boundary, time_ms)
            if version is None:
                continue
            if version > boundary:
                return self.at(version)
            if self._reader.boundary.read() > boundary:
                continue
            if boundary:
                # No version above the boundary is old enough; that at it may be, and be pinned. Of
                # those below it only the pinned ones are left, and it is not known what followed
                # them.
                pinned = self._tagged(boundary)
                if pinned is not None and pinned.time_ms <= time_ms:
                    return pinned
                raise self.expired(f"the version as of {_iso(time_ms)}", boundary)
            raise NotFound(
                f"{self._url} has no version as of {_iso(time_ms)}: its first entry is newer"
            )
        raise self._moving(f"the version as of {_iso(time_ms)}")

    def entries(self, first: int | None = None, last: int | None = None) -> Iterator[Entry]:
        """The entries from ``first`` (default: the oldest left) to ``last`` (default: the latest),
        oldest first, without void ones."""
        for entry, data in self.raw(first, last):
            yield self._reader.decode(data, entry)

    def raw(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The same as ids and bytes, for callers that need a part of each."""
        start = self._reader.boundary.seen + 1 if first is None else max(first, 1)
        end = self._latest.version if last is None else min(last, self._latest.version)
        while start <= end:
            page = range(start, min(start + _PAGE, end + 1))
            found = self._reader.get_all(page)
            boundary = self._reader.boundary.read()
            if start <= boundary:
                if first is not None:
                    raise self.expired(f"entry {start}", boundary)
                start = boundary + 1
                continue
            first = start
            for entry, data in zip(page, found, strict=True):
                if data is None:
                    raise self._missing(entry, boundary)
                if entry not in self._void:
                    yield entry, data
            start = page.stop

    def walk(self, state: State, last: int) -> Iterator[tuple[State, Entry, State]]:
        """Each entry after ``state``, up to ``last``, between the states before and after it;
        without void ones. Raises VersionExpired if one of them was collected."""
        reader = self._reader
        while state.version < last:
            page = range(state.version + 1, min(state.version + _PAGE, last) + 1)
            found = reader.get_all(page)
            boundary = reader.boundary.read()
            if page.start <= boundary:
                raise self.expired(f"entry {page.start}", boundary)
            for number, data in zip(page, found, strict=True):
                if data is None:
                    raise self._missing(number, boundary)
                before, state = state, reader.follow(state, data)
                if number not in state.void:
                    yield before, reader.decode(data, number), state

    def _missing(self, entry: int, boundary: int) -> Corrupt:
        self._reader.looks.check_now(self._latest)
        return Corrupt(
            f"index entry {entry} of {self._url} is missing above the boundary {boundary}, "
            f"expected all from {boundary + 1} to {self._latest.version}: restore it from a copy"
        )

    def _tagged(self, version: int) -> State | None:
        """The state at a version at or below the boundary, if a tag pins it."""
        found = self._pinned(self._latest, version)
        if found is None:
            # It may have been tagged, or untagged, since the state that is known.
            latest = self._reader.advance(self._latest).state
            found = self._pinned(latest, version)
            tags = [name for name, pinned in sorted(latest.tags.items()) if pinned == version]
            if found is None and tags:
                self._reader.looks.check_now(latest)
                raise Corrupt(
                    f"{checkpoint_key(version)} of {self._url} is missing although tag "
                    f"{tags[0]!r} pins version {version}: restore it from a copy, or untag"
                )
        return found

    def _pinned(self, state: State, version: int) -> State | None:
        """The state in the checkpoint of a version that ``state`` pins;

        None if none does, or it is missing.
        """
        if version not in state.tags.values():
            return None
        data = self._reader.checkpoint_data(version)
        return None if data is None else self._reader.checkpoint(data, version)

    def _search(self, boundary: int, time_ms: int) -> int | None:
        """The last version above the boundary with a time at or before ``time_ms``, the boundary
        itself if there is none, or None if an entry was collected meanwhile."""
        low, high = boundary, self._latest.version
        while high - low > 1:
            timed: dict[int, int] = {}
            for middle in self._middles(low, high):
                entry = next((one for one in range(middle, low, -1) if one not in self._void), None)
                if entry is None:
                    low = middle  # nothing happened in between
                else:
                    timed[middle] = entry
            found = self._reader.get_all(timed.values())
            if self._reader.boundary.read() > boundary:
                return None
            for (middle, entry), data in zip(timed.items(), found, strict=True):
                if data is None:
                    return None
                if self._reader.decode(data, entry).time > time_ms:
                    high = entry
                    break
                low = middle
        return low

    def _middles(self, low: int, high: int) -> list[int]:
        """Versions between two others: the one in the middle, or as many as are read side by
        side."""
        parts = _SIDE_BY_SIDE + 1 if self._reader.requests.is_slow else 2
        return sorted({low + (high - low) * part // parts for part in range(1, parts)} - {low})

    def expired(self, what: str, boundary: int) -> VersionExpired:
        """The error for what was collected; it names the oldest version left."""
        return VersionExpired(
            f"{what} of {self._url} was collected; the oldest version left is {boundary + 1}, the "
            f"latest {self._latest.version}: tag a version to keep it longer"
        )

    def _moving(self, what: str) -> Unavailable:
        return Unavailable(
            f"{what} of {self._url} could not be read: the boundary moved, or an object "
            f"disappeared, during each of {_RESTARTS} attempts; try again"
        )


def _iso(time_ms: int) -> str:
    """The time as people write it; one that no calendar has as milliseconds."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"

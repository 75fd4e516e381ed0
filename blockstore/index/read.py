"""Reading the index: cold, and as a poll. Both under the double look of protocol 3.5.

Rules:
- Cold: the boundary and the hint; the listings of entries and checkpoints from the greater of the
  two (a hint at which no checkpoint is listed is dropped, and both are listed again from the
  boundary); the newest checkpoint whose own entry is there, or collected, and the entries after it;
  **then the boundary again**. If it passed the checkpoint, a GET returned 404, or the entries were
  not there together (``together.py``), start again. A checkpoint above the newest entry was left by
  a writer of a history that was replaced.
- Poll at N: GET N+1, and if it is there, on until a 404; then the boundary, and whether those
  before the last are still there. An entry is applied only if its id is above the boundary read
  after it; if the boundary passed N, the state is dropped and the read is cold.
- A checkpoint that is damaged is passed over: the newest intact one below it, at or above the
  boundary, does, or the first entry where the boundary is 0. Those below the boundary never do: the
  entries after them are gone, or void.
- Hints and an entry's ``checkpoint`` are never authority. An entry is decoded only once it is known
  to be history: what is at or below the boundary may be anything.
- An entry that cannot be parsed stops the reader: stepping back would fork the history.
- A reader that continues from a state looks whether the entry with which it ends is still there,
  side by side with the boundary. Where another is in its place, or none and it was not collected,
  the history was replaced: ``HistoryReplaced``. Whether an entry that is void on top of a known
  state is so for all, or the state is of a history that is gone, a cold read decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from blockstore.bucket.api import Object, ReadBucket
from blockstore.errors import (
    BlockstoreError,
    Corrupt,
    HistoryReplaced,
    NewerFormat,
    NotFound,
    Unavailable,
)
from blockstore.index.added import SourcesFile
from blockstore.index.boundary import Boundary
from blockstore.index.chain import Link
from blockstore.index.checkpoint import decode_checkpoint, read_hint
from blockstore.index.checkpoint_name import (
    NamedCheckpoint,
    how_to_replace_checkpoint,
    name_of,
    names_of,
)
from blockstore.index.contradictions import hole_above, no_checkpoint, no_entry
from blockstore.index.entry import Entry, decode_entry
from blockstore.index.fold import fold
from blockstore.index.requests import Requests
from blockstore.index.same_history import Look, Looks
from blockstore.index.state import State
from blockstore.index.together import Together, read_together
from blockstore.names import (
    CHECKPOINTS,
    INDEX,
    checkpoint_key,
    entry_key,
    meta_key,
    parse_checkpoint,
    parse_entry,
)
from blockstore.world import World

_logger = logging.getLogger(__name__)

A = TypeVar("A")

_RESTARTS = 20
_FAR_BEHIND = 512
"""A poll that has read so many entries and is not through goes cold: a checkpoint is cheaper."""
_WIDEST = 64
_NO_ETAGS: Mapping[int, str | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A checked state, and the newest checkpoint that was seen on the way."""

    state: State
    checkpoint: NamedCheckpoint | None = None
    asked_s: float | None = None
    """When the state's last entry was requested, if this poll has read it: for a commit, that was
    the look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    start: int
    entries: Mapping[int, str | None]
    """Their ETags, where a listing has them, by id, in order."""
    checkpoints: tuple[int, ...]


class IndexReader:
    """Reads one table's index; holds nothing but the boundary's last value, and what was looked at
    last."""

    def __init__(self, bucket: ReadBucket, world: World, boundary: Boundary) -> None:
        self.bucket = bucket
        self.boundary = boundary
        self._clock = world.clock
        self._pool = world.pool
        self.requests = Requests(bucket, world)
        """How objects are got: side by side where that pays."""
        self.looks = Looks(bucket, boundary, world.clock)
        """Whether the history is still the one that a state is of."""

    def cold_after(self, known: State | None) -> Loaded:
        """The latest state, from nothing, by a handle that knew an earlier one. Raises
        HistoryReplaced where that is not part of what is read now."""
        loaded = self.cold()
        if known is None:
            return loaded
        if loaded.state.version < known.version:
            # A listing that lags, or an older history.
            self.looks.check_now(known)
            return Loaded(state=known)
        self.looks.check_within(known, loaded.state)
        return loaded

    def cold(self) -> Loaded:
        """The latest state, from nothing. Raises NotFound where there is no index."""
        for _ in range(_RESTARTS):
            loaded = self._try_cold()
            if loaded is not None:
                return loaded
        listed = self.entries(0)
        hole = hole_above(self.bucket.url, self.boundary.read(), listed)
        if hole is not None:
            raise hole
        raise Unavailable(
            f"the index of {self.bucket.url} could not be read: its boundary moved, or an object "
            f"disappeared, during each of {_RESTARTS} attempts; try again"
        )

    def advance(self, state: State, *, before_create: bool = False) -> Loaded:
        """The latest state, from one that was checked before; two small requests if nothing is new.

        A committer that is about to create the next entry, and then reads the boundary (step 5),
        need not read it if nothing is new.
        """
        try:
            return self._advance(state, before_create)
        except (Unavailable, HistoryReplaced):
            raise
        except BlockstoreError:
            # Perhaps what does not fit is of another history: then that is what is wrong.
            self.looks.check_now(state)
            raise

    def _advance(self, state: State, before_create: bool) -> Loaded:
        started = self._clock.monotonic_s()
        found = self._following(state.version)
        if before_create and not found:
            return Loaded(state=state)
        if not found:
            if self.boundary.read() > state.version:
                return self.cold_after(state)
            return Loaded(state=state)
        # The last one names all before it: if those are there after it was read, it was there
        # together with them.
        before = {entry_key(state.version + at): one.etag for at, one in enumerate(found[:-1], 1)}
        standing, boundary, together = self.requests.beside_looks(
            lambda: self.looks.look(state), self.boundary.read, before
        )
        if not self.looks.check(state, standing, boundary) or not together:
            return self.cold_after(state)
        if boundary > state.version or len(found) >= _FAR_BEHIND:
            return self.cold_after(state)
        after = state
        for one in found:
            after = self.follow(after, one.data)
        self.looks.remember(after.last, found[-1].etag)
        # Each of two histories is void on top of the other: only one read from nothing shows which
        # one is here.
        return (
            Loaded(state=after, asked_s=started)
            if after.void == state.void
            else self.cold_after(state)
        )

    def object(self, entry: int) -> Object | None:
        """What is under an entry's name, with its ETag."""
        return self.requests.get(entry_key(entry))

    def get(self, entry: int) -> bytes | None:
        """The bytes under an entry's name, or None.

        Only the boundary shows whether they are history.
        """
        return self.requests.data(entry_key(entry))

    def checkpoint_data(self, version: int) -> bytes | None:
        """The bytes of a version's checkpoint, or None."""
        return self.requests.data(checkpoint_key(version))

    def get_all(self, entries: Iterable[int]) -> list[bytes | None]:
        """The same of several, side by side."""
        return [
            None if one is None else one.data
            for one in self.requests.get_all([entry_key(entry) for entry in entries])
        ]

    def decode(self, data: bytes, entry: int, last: Link | None = None) -> Entry:
        """The entry, its long lists of sources loaded, but not on top of ``last`` if it is void
        there: its lists may have gone with its history. Raises Corrupt or NewerFormat."""
        decoded = decode_entry(data, entry_id=entry, url=self.bucket.url)
        lists = any(isinstance(block.sources, SourcesFile) for block in decoded.add)
        if not lists or (last is not None and not decoded.follows(last)):
            return decoded
        added = tuple(
            block.loaded(
                self.requests.data, f"index entry {entry}: block {block.ulid} of {self.bucket.url}"
            )
            for block in decoded.add
        )
        return replace(decoded, add=added)

    def check_sent(self, before: State, payload: bytes, entry: int, *, blocks: bool) -> None:
        """Raise HistoryReplaced unless a payload that was sent may be sent again: the state that it
        is to follow is still there, and where an earlier operation has sent it, so are its
        ``blocks``. While there is no such entry no process can have removed one."""
        self.looks.check_now(before)
        if not blocks:
            return
        keys = [
            meta_key(block.ulid)
            for block in decode_entry(payload, entry_id=entry, url=self.bucket.url).add
        ]
        gone = [
            key
            for key, found in zip(keys, self.requests.get_all(keys), strict=True)
            if found is None
        ]
        if gone and self.get(entry) is None and self.boundary.read() < entry:
            raise self.looks.replaced(before, f"{gone[0]} was there and is gone")

    def follow(self, state: State, data: bytes) -> State:
        """The state after the entry in ``data``, which is the next one.

        Raises Corrupt, naming it and the table.
        """
        entry = self.decode(data, state.version + 1, state.last)
        try:
            return fold(state, entry)
        except Corrupt as error:
            raise Corrupt(f"{self.bucket.url}: {error}") from None

    def checkpoints(self, start: int) -> list[int]:
        """The versions from ``start`` on that have a checkpoint, sorted."""
        after = checkpoint_key(start - 1) if start else ""
        listed = self.bucket.list(CHECKPOINTS, start_after=after, recursive=False)
        found = (parse_checkpoint(info.key) for info in listed)
        return sorted(version for version in found if version is not None and version >= start)

    def entries(self, after: int) -> list[int]:
        """The entries listed above ``after``, sorted."""
        return list(self._entries(after))

    def _entries(self, after: int) -> dict[int, str | None]:
        listed = self.bucket.list(INDEX, start_after=entry_key(after), recursive=False)
        found = {parse_entry(info.key): info.etag for info in listed}
        return {
            entry: found[entry]
            for entry in sorted(one for one in found if one is not None and one > after)
        }

    def replay(
        self,
        bases: Iterable[int],
        last: int,
        hint: NamedCheckpoint | None = None,
        etags: Mapping[int, str | None] = _NO_ETAGS,
    ) -> Loaded | None:
        """The fold of the first of the checkpoints ``bases`` that is intact (0: nothing) and the
        entries up to ``last``, whose ``etags`` are those of a listing; None if they were not there
        together. Raises Corrupt where no checkpoint is intact."""
        damaged: list[Corrupt] = []
        for base in bases:
            found = read_together(self.requests, self.boundary, base, last, etags)
            if found is None:
                return None
            loaded = self._base(found, base, hint, damaged) if base else Loaded(state=State.EMPTY)
            if loaded is None:
                continue
            state = loaded.state
            for entry in found.entries:
                state = self.follow(state, entry.data)
            if found.entries:
                self.looks.remember(state.last, found.entries[-1].etag)
            return replace(loaded, state=state)
        raise Corrupt(f"{damaged[0]}: {how_to_replace_checkpoint(self.bucket.url)}") from damaged[0]

    def checkpoint(self, data: bytes, version: int) -> State:
        """The state in the bytes of a version's checkpoint.

        Raises Corrupt or NewerFormat, naming it and the table.
        """
        try:
            return decode_checkpoint(data, version=version, url=self.bucket.url)
        except NewerFormat:
            raise
        except Corrupt as error:
            raise Corrupt(f"{error}: {how_to_replace_checkpoint(self.bucket.url)}") from error

    def _base(
        self, found: Together, version: int, hint: NamedCheckpoint | None, damaged: list[Corrupt]
    ) -> Loaded | None:
        """The state of a checkpoint, named by the hint or by an entry after it; None, and why, if
        it is damaged, or of a history that was replaced: a writer that stalled may have left it."""
        data, entries = found.checkpoint, [one.data for one in found.entries]
        mine = name_of(version, data)
        names = names_of(mine, hint, entries)
        try:
            state = decode_checkpoint(data, version=version, url=self.bucket.url, names=names)
            if self.boundary.seen < version and not self._is_named(state, found):
                raise Corrupt(
                    f"{checkpoint_key(version)} of {self.bucket.url} is of another history than "
                    f"{entry_key(version)}"
                )
        except NewerFormat:
            raise
        except Corrupt as error:
            _logger.warning(
                "%s: it is skipped; %s", error, how_to_replace_checkpoint(self.bucket.url)
            )
            damaged.append(error)
            return None
        return Loaded(state=state, checkpoint=mine)

    def _is_named(self, state: State, found: Together) -> bool:
        """Whether a checkpoint's state ends with the entry that is stored under its version."""
        if found.own is not None:
            return self.looks.holds(state, found.own)
        try:
            if not found.entries:
                return True
            if decode_entry(found.entries[0].data, entry_id=state.version + 1).follows(state.last):
                return True
        except BlockstoreError:
            return True  # its fold reports it
        return self.looks.look(state) is not Look.OTHER

    def _try_cold(self) -> Loaded | None:
        boundary, named = self._first_looks()
        if boundary is None:
            self._check_no_index()
            return None
        hint = named.id if named is not None else 0
        listed = self._list(max(boundary, hint), boundary)
        if hint > boundary and hint not in listed.checkpoints:
            listed = self._list(boundary, boundary)
        if not listed.entries and not listed.checkpoints:
            raise no_entry(self.bucket.url, boundary, self.checkpoints(0))
        base = listed.checkpoints[-1] if listed.checkpoints else 0
        last = max([boundary, *listed.entries])
        if base < boundary:
            # Not if one was only missed in a race.
            if self.boundary.read() == boundary and not self.checkpoints(boundary):
                raise no_checkpoint(self.bucket.url, boundary)
            return None
        return self.replay(self._bases(listed, boundary), last, named, listed.entries)

    def _first_looks(self) -> tuple[int | None, NamedCheckpoint | None]:
        """The boundary and the hint, side by side."""
        looks: tuple[Callable[[], int | NamedCheckpoint | None], ...] = (
            lambda: self.requests.timed(self.boundary.look),
            lambda: read_hint(self.bucket),
        )
        boundary, hint = self._pool.map(_call, looks)
        assert boundary is None or isinstance(boundary, int), "a boundary is a number"
        return boundary, hint if isinstance(hint, NamedCheckpoint) else None

    def _bases(self, listed: _Listed, boundary: int) -> Iterator[int]:
        """Where a cold read may begin, best first; what is below the hint is listed only once it is
        needed."""
        yield from reversed(listed.checkpoints)
        if listed.start > boundary:
            yield from (one for one in reversed(self.checkpoints(boundary)) if one < listed.start)
        if boundary == 0:
            yield 0

    def _list(self, start: int, boundary: int) -> _Listed:
        """What is listed from ``start`` on.

        A checkpoint above the newest entry is left out: its own entry would be there.
        """
        lists: tuple[Callable[[], dict[int, str | None] | list[int]], ...] = (
            lambda: self._entries(max(start - 1, 0)),
            lambda: self.checkpoints(start),
        )
        entries, checkpoints = self._pool.map(_call, lists)
        assert isinstance(entries, dict), "entries come with their ETags"
        newest = max([boundary, *entries])
        return _Listed(
            start=start,
            entries=entries,
            checkpoints=tuple(version for version in checkpoints if version <= newest),
        )

    def _check_no_index(self) -> None:
        """Raise what a missing boundary means; not if the table was created just now, boundary
        first."""
        if not self.entries(0):
            raise NotFound(
                f"there is no table with an index at {self.bucket.url}: create it, or check the URL"
            )
        self.boundary.read()

    def _following(self, version: int) -> list[Object]:
        """The entries after ``version``, up to the first gap."""
        first = self.object(version + 1)
        found = [] if first is None else [first]
        width = 1
        while found and len(found) < _FAR_BEHIND:
            start = version + 1 + len(found)
            more = self.requests.get_all(
                [entry_key(entry) for entry in range(start, start + width)]
            )
            whole = _until_gap(more)
            found += whole
            if len(whole) < len(more):
                break
            width = min(2 * width, _WIDEST)
        return found


def _call(request: Callable[[], A]) -> A:
    return request()


def _until_gap(found: Sequence[Object | None]) -> list[Object]:
    whole: list[Object] = []
    for one in found:
        if one is None:
            break
        whole.append(one)
    return whole

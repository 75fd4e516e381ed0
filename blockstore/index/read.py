"""Reading the index: cold, and as a poll. Both under the double look of protocol 3.5.

Rules:
- Cold: the boundary, the hint and the first page of a listing, side by side (``listing.py``); where
  that page does not hold all, the listings of entries and checkpoints from the greater of boundary
  and hint (a hint at which no checkpoint is listed is dropped, and both are listed again from the
  boundary); the newest checkpoint whose own entry is there, or collected, and the entries after it;
  **then the boundary again**, side by side with them where a listing says the ETag of each. If it
  passed the checkpoint, a GET returned 404, or the entries were not there together
  (``together.py``), start again. A checkpoint above the newest entry was left by a writer of a
  history that was replaced. One whose own entry is void does not show which history it is of,
  until that was collected (``same_history.py``).
- Poll at N: GET N+1, and if it is there, on until a 404; the boundary, and whether those before the
  last are still there, after them, or side by side with the 404 (``poll.py``). An entry is applied
  only if its id is above the boundary read after it; if the boundary passed N, the state is dropped
  and the read is cold.
- A checkpoint that is damaged is passed over: the newest intact one below it, at or above the
  boundary, does, or the first entry where the boundary is 0. Those below the boundary never do: the
  entries after them are gone, or void.
- Hints and an entry's ``checkpoint`` are never authority. An entry is decoded only once it is known
  to be history: what is at or below the boundary may be anything.
- Nor does it continue into a table that was created after its own was dropped.
- An entry that cannot be parsed stops the reader: stepping back would fork the history.
- A reader that continues from a state looks whether the entry with which it ends is still there,
  side by side with the boundary. Where another is in its place, or none and it was not collected,
  the history was replaced: ``HistoryReplaced``. Whether an entry that is void on top of a known
  state is so for all, or the state is of a history that is gone, a cold read decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from blockstore.bucket.api import Object, ReadBucket
from blockstore.errors import (
    BlockstoreError,
    Corrupt,
    HistoryReplaced,
    NewerFormat,
    NotFound,
    SnapshotExpired,
    Unavailable,
)
from blockstore.freshness import Freshness
from blockstore.index.added import SourcesFile
from blockstore.index.boundary import Boundary
from blockstore.index.chain import Link
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.checkpoint_name import (
    NamedCheckpoint,
    how_to_replace_checkpoint,
    name_of,
    names_of,
)
from blockstore.index.contradictions import hole_above, no_checkpoint, no_entry
from blockstore.index.entry import Entry, decode_entry
from blockstore.index.fold import fold
from blockstore.index.listing import Listed, Listing
from blockstore.index.poll import FAR_BEHIND, Beside, Loaded, Poll, is_strong
from blockstore.index.requests import Requests
from blockstore.index.same_history import Look, Looks
from blockstore.index.state import State
from blockstore.index.together import Together, read_together
from blockstore.lazy import once
from blockstore.names import checkpoint_key, entry_key, meta_key
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.index.tree.loading import Leaves

_logger = logging.getLogger(__name__)

_RESTARTS = 20
_FAR = 2_048
"""Entries after its root from which on a newer one is looked for."""
_PROMPT_S = 1.0
"""A cold read that took longer does not serve as the newest state: what was committed meanwhile is
not in it."""


class IndexReader:
    """Reads one table's index; holds nothing but the boundary's last value, and what was looked at
    last."""

    def __init__(self, bucket: ReadBucket, world: World, boundary: Boundary) -> None:
        self.bucket = bucket
        self.boundary = boundary
        self._clock = world.clock
        self.requests = Requests(bucket, world)
        """How objects are got: side by side where that pays."""
        self.looks = Looks(self.requests, boundary, world.clock)
        """Whether the history is still the one that a state is of."""
        self._listing = Listing(bucket, world, boundary, self.requests)
        self._poll = Poll(self.requests, boundary, self.looks, world.clock)
        self._look_for_root = 0

    @once
    def leaves(self) -> Leaves:
        """The leaves of this table, of which some are kept."""
        from blockstore.index.tree.loading import Leaves  # few tables have them

        return Leaves(self.requests.get_all, self.bucket.url, self)

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

    def confirm(self, state: State) -> Loaded:
        """Raise HistoryReplaced unless a state is of the history that is there now: a look, and a
        cold read where that decides nothing. Returns what was read, or the state."""
        return Loaded(state=state) if self.looks.check_now(state) else self.cold_after(state)

    def is_same(self, state: State) -> bool:
        """Whether the entry that a state ends with is still there, and of the same history; False
        where it was collected."""
        standing = self.looks.look(state)
        if standing is not Look.VOID:
            return standing is Look.SAME
        try:
            self.cold_after(state)
        except HistoryReplaced:
            return False
        return True

    def cold(self) -> Loaded:
        """The latest state, from nothing. Raises NotFound where there is no index."""
        for _ in range(_RESTARTS):
            since, prompt = self._poll.begin(), Freshness(self._clock, _PROMPT_S)
            loaded = self._try_cold()
            if loaded is not None:
                self._poll.saw_newest(loaded.state, since, by_listing=True)
                return replace(loaded, prompt=prompt)
        listed = self.entries(0)
        hole = hole_above(self.bucket.url, self.boundary.read(), listed)
        if hole is not None:
            raise hole
        raise Unavailable(
            f"the index of {self.bucket.url} could not be read: its boundary moved, or an object "
            f"disappeared, during each of {_RESTARTS} attempts; try again"
        )

    def advance(
        self, state: State, *, before_create: bool = False, looks_at_own: bool = False
    ) -> Loaded:
        """The latest state, from one that was checked before; two small requests if nothing is new,
        side by side where the state was the newest lately.

        A committer that is about to create the next entry, and then reads the boundary (step 5),
        need not read it if nothing is new. Nor a reader that instead looks at the entry with which
        the state ends, by which it notices that the history was replaced.
        """
        own = Beside.LOOK if looks_at_own else Beside.BOUNDARY
        try:
            return self._advance(state, Beside.NOTHING if before_create else own)
        except (Unavailable, HistoryReplaced):
            raise
        except BlockstoreError:
            # Perhaps what does not fit is of another history: then that is what is wrong.
            self.looks.check_now(state)
            raise

    def _advance(self, state: State, beside: Beside) -> Loaded:
        if state.is_broken:
            return self.cold_after(state)
        since, started = self._poll.begin(), self._clock.monotonic_s()
        found = self._poll.after(state, beside=beside)
        boundary = found.boundary
        if not found.entries:
            passed = boundary is not None and boundary > state.oldest_kept
            if passed or found.standing is not Look.SAME:
                return self.cold_after(state)
            if boundary is not None or self._poll.was_newest(state):
                self._poll.saw_newest(state, since)
            return Loaded(state=state)
        if not self.looks.check(state, found.standing, boundary) or not found.together:
            return self.cold_after(state)
        assert boundary is not None, "it is read after what is new"
        if boundary > state.oldest_kept or len(found.entries) >= FAR_BEHIND:
            return self.cold_after(state)
        after = state
        for one in found.entries:
            after = self.follow(after, one.data)
        self.looks.remember(after.last, found.entries[-1].etag)
        # Each of two histories is void on top of the other: only one read from nothing shows which
        # one is here.
        if after.void != state.void:
            return self.cold_after(state)
        self.looks.check_life(state, after)
        if self._is_far_from_root(after):
            return self.cold_after(after)
        self._poll.saw_newest(after, since)
        return Loaded(state=after, asked_s=started)

    def _is_far_from_root(self, state: State) -> bool:
        """Whether a newer root is looked for: now and then, where much is not in leaves."""
        if state.root is None or state.version < max(state.root + _FAR, self._look_for_root):
            return False
        self._look_for_root = state.version + _FAR
        return True

    def moment(self, loaded: Loaded) -> Freshness:
        """For how long from now on what was just read cold serves as the newest: half as long as
        the quickest request took. A commit that begins now, by a writer however near to the store,
        takes longer until word of it is here: word takes at least as long as this reader is
        further from the store, one way. No time where the read took long, a listing may lag, or a
        request costs nothing."""
        moment = Freshness(self._clock)
        prompt = loaded.prompt is not None and not loaded.prompt.is_over
        if prompt and self.requests.is_slow and is_strong(loaded.state):
            moment.lasts_s = self.requests.quickest_s / 2
        return moment

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
        self.confirm(before)
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
        return self._listing.checkpoints(start)

    def entries(self, after: int) -> list[int]:
        """The entries listed above ``after``, sorted."""
        return list(self._listing.entries(after))

    def replay(
        self,
        bases: Iterable[int],
        last: int,
        hint: NamedCheckpoint | None = None,
        listed: Listed | None = None,
        *,
        lenient: bool = False,
    ) -> Loaded | None:
        """The fold of the first of the checkpoints ``bases`` that is intact (0: nothing) and the
        entries up to ``last``; None if they were not there together. ``listed`` is what a listing
        before this call has shown of them. Raises Corrupt where no checkpoint is intact.
        ``lenient``: where each root names a leaf that was missed, one does all the same."""
        damaged: list[BlockstoreError] = []
        tried: list[int] = []
        for base in bases:
            tried.append(base)
            found = read_together(
                self.requests,
                self.boundary,
                base,
                last,
                listed.entries if listed is not None else {},
                listed.checkpoints if listed is not None else {},
            )
            if found is None:
                return None
            loaded = self._base(found, base, hint, damaged) if base else Loaded(state=State.EMPTY)
            if loaded is None:
                continue
            state = loaded.state
            try:
                for entry in found.entries:
                    state = self.follow(state, entry.data)
            except (SnapshotExpired, Corrupt) as error:
                if not loaded.state.is_broken:
                    raise
                if self.boundary.read() > base:
                    return None  # its leaves were collected meanwhile
                self._pass_over(error, damaged)
                continue
            if found.entries:
                self.looks.remember(state.last, found.entries[-1].etag)
            return replace(loaded, state=state)
        if lenient and "leaves" in self.__dict__ and self.leaves.forget():
            return self.replay(tried, last, hint, listed)
        raise Corrupt(f"{damaged[0]}: {how_to_replace_checkpoint(self.bucket.url)}") from damaged[0]

    def _pass_over(self, error: BlockstoreError, damaged: list[BlockstoreError]) -> None:
        _logger.warning("%s: it is skipped; %s", error, how_to_replace_checkpoint(self.bucket.url))
        damaged.append(error)

    def checkpoint(self, data: bytes, version: int) -> State:
        """The state in the bytes of a version's checkpoint. Raises Corrupt or NewerFormat, naming
        it and the table."""
        try:
            return self._decoded(data, version)
        except NewerFormat:
            raise
        except Corrupt as error:
            raise Corrupt(f"{error}: {how_to_replace_checkpoint(self.bucket.url)}") from error

    def _decoded(self, data: bytes, version: int, names: tuple[NamedCheckpoint, ...] = ()) -> State:
        return decode_checkpoint(
            data, version=version, url=self.bucket.url, names=names, leaves=lambda: self.leaves
        )

    def _check_root(self, state: State) -> None:
        """Raise Corrupt for a root that may not be relied on, after the boundary was read."""
        from blockstore.index.tree.believed import check_root

        check_root(state, self.boundary.seen, self.checkpoint_data, self.bucket.url)

    def _base(
        self,
        found: Together,
        version: int,
        hint: NamedCheckpoint | None,
        damaged: list[BlockstoreError],
    ) -> Loaded | None:
        """The state of a checkpoint, named by the hint or by an entry after it; None, and why, if
        it is damaged, or of a history that was replaced: a writer that stalled may have left it."""
        data, entries = found.checkpoint, [one.data for one in found.entries]
        mine = name_of(version, data)
        names = names_of(mine, hint, entries)
        try:
            state = self._decoded(data, version, names)
            if found.own is not None and not self.looks.holds(state, found.own):
                raise Corrupt(
                    f"{checkpoint_key(version)} of {self.bucket.url} is of another history than "
                    f"{entry_key(version)}"
                )
            if state.root is not None:
                self._check_root(state)
            if found.own is not None and state.ends_void:
                damaged.append(
                    Corrupt(
                        f"{checkpoint_key(version)} of {self.bucket.url} ends with a void entry, "
                        "which another history may hold too"
                    )
                )
                return None
        except NewerFormat:
            raise
        except Corrupt as error:
            self._pass_over(error, damaged)
            return None
        return Loaded(state=state, checkpoint=mine)

    def _try_cold(self) -> Loaded | None:
        first = self._listing.first()
        boundary, named = first.boundary, first.hint
        if boundary is None:
            self._check_no_index(first.has_entries)
            return None
        listed = first.listed
        if listed is None:
            hint = named.id if named is not None else 0
            listed = self._listing.start_at(max(boundary, hint), boundary)
            if hint > boundary and hint not in listed.checkpoints:
                listed = self._listing.start_at(boundary, boundary)
        if not listed.entries and not listed.checkpoints:
            raise no_entry(self.bucket.url, boundary, self.checkpoints(0))
        base = max(listed.checkpoints, default=0)
        last = max([boundary, *listed.entries])
        if base < boundary:
            # Not if one was only missed in a race.
            if self.boundary.read() == boundary and not self.checkpoints(boundary):
                raise no_checkpoint(self.bucket.url, boundary)
            return None
        return self.replay(self._bases(listed, boundary), last, named, listed, lenient=True)

    def _bases(self, listed: Listed, boundary: int) -> Iterator[int]:
        """Where a cold read may begin, best first; what is below the hint is listed only once it is
        needed."""
        yield from reversed(list(listed.checkpoints))
        if listed.start > boundary:
            yield from (one for one in reversed(self.checkpoints(boundary)) if one < listed.start)
        if boundary == 0:
            yield 0

    def _check_no_index(self, has_entries: bool) -> None:
        """Raise what a missing boundary means; not if the table was created just now, boundary
        first."""
        if not has_entries:
            raise NotFound(
                f"there is no table with an index at {self.bucket.url}: create it, or check the URL"
            )
        self.boundary.read()

"""What came after a state: the requests of a poll (protocol 3.5).

Rules:
- In turn: GET N+1, and if it is there, on until a 404; then the boundary, and whether entry N and
  those before the last are still there.
- Side by side, on a store where that pays: each GET of what may come next together with the
  boundary and those looks, until nothing comes. So the boundary and the looks were read after every
  entry that counts, and only the 404 may have come after them. An entry that was created, collected
  and deleted in between would be a 404 too, and the boundary of before would not show it. A 404
  after news ends it as in turn, with the boundary and the looks alone: where others commit all the
  time, something would come for ever.
- That cannot be where the state was the newest lately: what came after it is collected no earlier
  than ``history_retention`` after its own successor was created. So the poll is made side by side
  only where the handle has itself seen the state as the newest less than half of that ago, and at
  most 30 s; and if that is over when all have responded, the boundary is read again.
- A read has seen its state as the newest when it began: later versions came later. Not a cold read
  on an eventually consistent store, whose listing may lag.
- For the same reason a poll that looks at the entry with which the state ends leaves the boundary
  out only there: what was collected is deleted in any order, and may come back under its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from blockstore.bucket.api import Object
from blockstore.clock import Clock
from blockstore.format.properties import Consistency
from blockstore.freshness import Freshness
from blockstore.index.boundary import Boundary
from blockstore.index.chain import Link
from blockstore.index.checkpoint_name import NamedCheckpoint
from blockstore.index.requests import Requests
from blockstore.index.same_history import Look, Looks
from blockstore.index.state import State
from blockstore.names import entry_key

FAR_BEHIND = 512
"""A poll that has read so many entries and is not through goes cold: a checkpoint is cheaper."""
_WIDEST = 64
_NEWEST_LASTS_S = 30.0
"""The other bound of the side by side poll: ``history_retention`` may be shortened meanwhile, by an
entry that this handle has not seen."""


_ROOT_LOOK_S = 600.0
"""How long a handle on a quiet table whose state is held by leaves leaves the boundary unread."""


class Beside(Enum):
    """What a poll that finds nothing new reads besides."""

    BOUNDARY = "boundary"
    """The boundary: it drops a state that collection has passed."""
    LOOK = "look"
    """The entry with which the state ends: it notices that the history was replaced. And the
    boundary where the state was not the newest lately."""
    NOTHING = "nothing"
    """For a committer, which reads both later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What a poll has found."""

    entries: Sequence[Object] = ()
    """Those after the state, up to the first gap."""
    boundary: int | None = None
    """As it was read after them; None where it was not needed."""
    standing: Look = Look.SAME
    """What is under the name of the state's own last entry, if that was looked at: always after
    entries."""
    together: bool = True
    """Whether all entries were there at one moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A checked state, and the newest checkpoint that was seen on the way."""

    state: State
    checkpoint: NamedCheckpoint | None = None
    asked_s: float | None = None
    """When the state's last entry was requested, if this poll has read it: for a commit, that was
    the look at it."""
    prompt: Freshness | None = None
    """Of a cold read: whether it was a quick one, as long as this lasts."""


class Poll:
    """The polls of one handle; safe to share between threads."""

    def __init__(self, requests: Requests, boundary: Boundary, looks: Looks, clock: Clock) -> None:
        self._requests = requests
        self._boundary = boundary
        self._looks = looks
        self._clock = clock
        self._newest: tuple[Link, Freshness] | None = None
        self._boundary_read = Freshness(clock)

    def begin(self) -> Freshness:
        """Begin to measure the age of what is read from now on."""
        return Freshness(self._clock)

    def saw_newest(self, state: State, since: Freshness, *, by_listing: bool = False) -> None:
        """Record that a read that began then has found this state as the newest."""
        if state.table is None or (by_listing and not is_strong(state)):
            return
        retention_s = state.table.properties.history_retention_s
        since.lasts_s = min(retention_s / 2, _NEWEST_LASTS_S)
        self._newest = state.last, since

    def was_newest(self, state: State) -> bool:
        """Whether the state was the newest lately, so that nothing after it was collected."""
        newest = self._newest
        return newest is not None and newest[0] == state.last and not newest[1].is_over

    def _owes_boundary(self, state: State) -> bool:
        """Whether a poll that would leave the boundary out reads it, because leaves of the state's
        root go once the boundary has passed it: now and then."""
        if state.root is None or not self._boundary_read.is_over:
            return False
        self._boundary_read = Freshness(self._clock, _ROOT_LOOK_S)
        return True

    def after(self, state: State, *, beside: Beside = Beside.BOUNDARY) -> Following:
        """What came after a state; ``beside`` is what else is read if that is nothing."""
        side_by_side = self._requests.is_slow and self.was_newest(state)
        if side_by_side and beside is not Beside.NOTHING:
            return self._side_by_side(state, [], beside)
        first = self._requests.get(entry_key(state.version + 1))
        if first is not None:
            # In turn, a wave would look at all that was found so far, again and again: rivals of a
            # committer would be faster each time.
            if side_by_side and self._requests.run_beside:
                return self._side_by_side(state, [first])
            return self._in_turn(state, [first])
        if beside is Beside.NOTHING:
            return Following()
        if beside is Beside.BOUNDARY:
            return Following(boundary=self._boundary.read())
        if self.was_newest(state) and not self._owes_boundary(state):
            return Following(standing=self._looks.look(state))
        standing, boundary = self._requests.beside(
            lambda: self._looks.look(state), self._boundary.read
        )
        return Following(boundary=boundary, standing=standing)

    def _in_turn(self, state: State, found: list[Object]) -> Following:
        width = 1
        while len(found) < FAR_BEHIND:
            start = state.version + 1 + len(found)
            more = self._requests.get_all(
                [entry_key(entry) for entry in range(start, start + width)]
            )
            whole = _until_gap(more)
            found += whole
            if len(whole) < len(more):
                break
            width = min(2 * width, _WIDEST)
        standing, boundary, together = self._requests.beside_looks(
            lambda: self._looks.look(state), self._boundary.read, _before_last(state, found)
        )
        return Following(entries=found, boundary=boundary, standing=standing, together=together)

    def _side_by_side(
        self, state: State, found: list[Object], beside: Beside = Beside.BOUNDARY
    ) -> Following:
        width, at_end = 1, False
        while True:
            start = state.version + 1 + len(found)
            keys = [] if at_end else [entry_key(entry) for entry in range(start, start + width)]
            reads = bool(found) or beside is Beside.BOUNDARY or self._owes_boundary(state)
            looks = bool(found) or beside is Beside.LOOK
            boundary, standing, together, more = self._requests.wave(
                self._boundary.read if reads else lambda: None,
                (lambda: self._looks.look(state)) if looks else lambda: Look.SAME,
                _before_last(state, found),
                keys,
            )
            new = _until_gap(more)
            found += new
            if not new or len(found) >= FAR_BEHIND:
                break
            # What came meanwhile came after this poll began: a fast writer is not followed on.
            at_end = len(new) < width
            width = min(2 * width, _WIDEST)
        if not self.was_newest(state):
            boundary = self._boundary.read()
        return Following(entries=found, boundary=boundary, standing=standing, together=together)


def is_strong(state: State) -> bool:
    """Whether listings of the state's table never lag."""
    table = state.table
    return table is not None and table.properties.consistency is Consistency.STRONG


def _before_last(state: State, found: Sequence[Object]) -> dict[str, str]:
    """The ETags of all but the last. That one names all before it: if those are there after it was
    read, it was there together with them."""
    return {entry_key(state.version + at): one.etag for at, one in enumerate(found[:-1], 1)}


def _until_gap(found: Sequence[Object | None]) -> list[Object]:
    whole: list[Object] = []
    for one in found:
        if one is None:
            break
        whole.append(one)
    return whole

"""Whether the history is still the one that a state is of: looks at the entry with which the state
ends (protocol 3.3).

Rules:
- The entry is requested by its ETag where this handle has written or read it lately; else its bytes
  are hashed. An entry of a release before 0.2 is known by its commit.
- Another entry under its name, or none although the boundary is below it: the history was replaced.
  None, and the boundary has reached it: it was collected, and a cold read continues.
- An entry that is there shows that all below it is as it was: it was written on top of that, and
  its bytes arrived once. Not a void one. It arrived while the entries below it were others, or
  missing, and a copy of then may be put back. So where a state ends with a void entry a look
  decides nothing, and a cold read continues, which compares the entire chain.
- A look serves what had begun when it was sent, and not for long: an operation that begins after
  the history was replaced finds out by a later one. What a poll reads is not a look: its response
  may have come long before the commit begins.
- An entry that this handle created was there when the store said so. That serves like a look.
- So the threads that share a handle share its looks: one that finds a look or a PUT of another's
  sent since its own operation began makes none. Each operation is served once.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import orjson

from blockstore.bucket.api import NotModified, Object
from blockstore.clock import Clock
from blockstore.errors import BlockstoreError, BoundaryLost, HistoryReplaced, ObjectMissing
from blockstore.index.boundary import Boundary, parse_boundary
from blockstore.index.chain import Link
from blockstore.index.requests import Requests
from blockstore.index.state import State
from blockstore.names import BOUNDARY, INDEX, entry_key, parse_entry

_AHEAD_S = 5.0
"""A look that is older than this does not count as the one before a PUT."""
_REMEMBERED = 4
"""So many of the entries looked at last are requested by their ETag."""


class Look(Enum):
    """What is under the name of the entry with which a state ends."""

    SAME = "same"
    OTHER = "other"
    MISSING = "missing"
    VOID = "void"
    """The same, and void: those below it may be others all the same."""


class Looks:
    """The looks of one handle; safe to share between threads."""

    def __init__(self, requests: Requests, boundary: Boundary, clock: Clock) -> None:
        self._requests = requests
        self._boundary = boundary
        self._clock = clock
        self._etags: dict[Link, str] = {}
        self._lock = threading.Lock()
        self._began: dict[int, float] = {}
        """When the operation of each thread began that has not been served yet."""
        self._ahead: dict[int, tuple[Link, float]] = {}
        """What each thread has read for its own commit, and when."""
        self._found: tuple[Link, float] | None = None
        """What a look of any thread has found last, or this handle has created last, and when that
        was sent."""
        self._sent_s = -math.inf
        """When the last of these was sent, also where there is no response yet."""
        self._forgotten = 0

    def look(self, state: State) -> Look:
        """Whether the entry with which a state ends is still there: one small request, with a
        response without bytes (304) where that entry was written or looked at by this reader
        before."""
        if not state.last.commit:
            return Look.SAME  # nothing is below the first entry
        same = Look.VOID if state.ends_void else Look.SAME
        try:
            found = self._requests.get_changed(
                entry_key(state.version), self._etags.get(state.last)
            )
        except NotModified:
            return same
        except ObjectMissing:
            standing = Look.MISSING
        else:
            standing = same if self.holds(state, found) else Look.OTHER
        if standing is not same:
            self.forget()
        return standing

    def holds(self, state: State, found: Object) -> bool:
        """Whether what was got under the name of the state's last entry is that entry."""
        if not state.last.commit or not _is_entry(state.last, found.data):
            return not state.last.commit
        self.remember(state.last, found.etag)
        return True

    @contextmanager
    def operation(self) -> Iterator[None]:
        """An operation of this thread."""
        self._began[threading.get_ident()] = self._clock.monotonic_s()
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        """It is over: what it has looked at serves no other one, which may begin in another
        history."""
        self._began.pop(threading.get_ident(), None)
        self._ahead.pop(threading.get_ident(), None)

    def take_on_look(self) -> bool:
        """Whether the operation of this thread should look ahead: nothing has been sent since it
        began that will serve it. Then the caller looks at once, and others rely on it."""
        began = self._began.get(threading.get_ident())
        if began is None or self._sent_s >= began:
            return False
        self.sends()
        return True

    def ahead(self, state: State) -> None:
        """Look for a commit that is about to come; what goes wrong is left to it."""
        started, forgotten = self.sends(), self._forgotten
        try:
            standing = self.look(state)
        except BlockstoreError:
            return
        if standing is Look.SAME and forgotten == self._forgotten:
            self._note(state.last, started)

    def were_lately(self, state: State) -> bool:
        """Whether the state's last entry was looked at, or created, a moment ago, and since the
        operation of this thread began. Serves an operation once."""
        began = self._began.pop(threading.get_ident(), math.inf)
        ahead, found = self._ahead.pop(threading.get_ident(), None), self._found
        if state.ends_void:
            return False
        if found is not None and found[1] < began:
            found = None
        latest_s = self._clock.monotonic_s() - _AHEAD_S
        return any(
            one is not None and one[0] == state.last and one[1] >= latest_s
            for one in (ahead, found)
        )

    def noted(self, state: State, asked_s: float) -> State:
        """The same state, whose last entry was got for this thread's commit by a request of that
        time: to get it was to look at it."""
        self._ahead[threading.get_ident()] = (state.last, asked_s)
        return state

    def forget(self) -> None:
        """No earlier look, of any thread, counts any longer: another history was met, or a commit
        has ended in an error."""
        self._forgotten += 1
        self._ahead = {}
        self._found = None
        self._sent_s = -math.inf

    def sends(self) -> float:
        """Now: a look is sent, or the PUT of an entry, which serves like one once it is created."""
        self._sent_s = self._clock.monotonic_s()
        return self._sent_s

    def created(self, state: State, etag: str, asked_s: float) -> None:
        """The state's last entry was created by this handle, by a request of that time."""
        self.remember(state.last, etag)
        self._note(state.last, asked_s)

    def _note(self, link: Link, sent_s: float) -> None:
        with self._lock:
            if self._found is None or self._found[1] <= sent_s:
                self._found = link, sent_s

    def remember(self, link: Link, etag: str) -> None:
        """Record the ETag under which an entry is stored."""
        with self._lock:
            kept = [(one, known) for one, known in self._etags.items() if one != link]
            self._etags = dict([*kept[1 - _REMEMBERED :], (link, etag)])

    def check(self, state: State, standing: Look, boundary: int | None = None) -> bool:
        """Whether a state is still of this table's history, after a look at it; False where its
        last entry was collected, or is void, and only a cold read decides. Raises HistoryReplaced.
        ``boundary`` is a value of it that was read lately, if there is one."""
        if standing in (Look.SAME, Look.VOID):
            return standing is Look.SAME
        if boundary is None or boundary < state.version:
            # Read again: it may have been read before the look, and the entry collected in between.
            try:
                boundary = self._boundary.read()
            except BoundaryLost:
                if not self._fell_or_dropped():
                    raise
                boundary = 0
        if boundary >= state.version:
            return False  # what is under its name now was left by a writer that stalled
        why = "is another entry now" if standing is Look.OTHER else "is gone, and was not collected"
        raise self.replaced(state, f"{entry_key(state.version)} {why}")

    def check_now(self, state: State) -> bool:
        """``check`` by a look of its own: before a contradiction is called damage, for it may be
        another history's."""
        return self.check(state, self.look(state))

    def check_within(self, known: State, state: State) -> None:
        """Raise HistoryReplaced where a state is not part of a later, or equally late, one that was
        read from nothing."""
        if not known.last.commit:
            return
        self.check_life(known, state)
        # A void entry may be in both histories: the newest that counts shows which one it is.
        for version in range(known.version, 0, -1):
            commit, mine = state.commits.at(version), known.commits.at(version)
            if None not in (commit, mine) and commit != mine:
                raise self.replaced(known, f"version {version} is another one now")
            if version not in known.void:
                break
        if state.version == known.version and state.last != known.last:
            raise self.replaced(known, f"version {known.version} is another one now")

    def check_life(self, known: State, state: State) -> None:
        """Raise HistoryReplaced where a state is of a table that was created after the one of an
        earlier state had been dropped."""
        if 0 < known.version < state.created:
            raise HistoryReplaced(
                f"the table at {self._requests.bucket.url} was dropped, and another one was "
                f"created there in version {state.created}; this handle has read version "
                f"{known.version}, of the table before: open the table again",
                dropped=True,
            )

    def replaced(self, state: State, why: str) -> HistoryReplaced:
        """The error for a state that is of another history."""
        return HistoryReplaced(
            f"the history of {self._requests.bucket.url} was replaced: {why}, and this handle has "
            f"read version {state.version} (commit {state.last.commit}) before; a copy was put "
            "back, or the table was made again: open the table again"
        )

    def _fell_or_dropped(self) -> bool:
        """Whether a boundary that cannot be trusted is one of an older history, or went with
        everything else of the index."""
        try:
            parse_boundary(self._requests.bucket.get(BOUNDARY).data, self._requests.bucket.url)
        except ObjectMissing:
            entries = self._requests.bucket.list(INDEX, recursive=False)
            return all(parse_entry(info.key) is None for info in entries)
        except BoundaryLost:
            return False
        return True


def _is_entry(link: Link, data: bytes) -> bool:
    """Whether these are the bytes of the entry that a link names.

    Entries of earlier releases are known by their commit alone.
    """
    if link.sha256:
        return hashlib.sha256(data).hexdigest() == link.sha256
    try:
        return bool(orjson.loads(data)["commit"] == link.commit)
    except (ValueError, KeyError, TypeError):
        return False

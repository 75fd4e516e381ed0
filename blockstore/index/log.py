"""The index of one table, as a handle: what all code above this package uses.

Rules:
- ``state`` is the last state that was checked under the double look; it moves on by ``poll`` and by
  ``commit``, and never back. One handle reads its own writes.
- A handle is of one history. Where a copy of the table was put back, or the table was made again,
  it raises HistoryReplaced, from then on; an idle ``poll`` does not notice it. A process that keeps
  a handle for long continues with what ``follow`` returns.
- Operations whose fate is not certain are settled before the handle commits anything else; what can
  never be known is Indeterminate permanently, and the handle continues. Once the boundary was lost
  they are forgotten, as by a process that starts again.
- A committer writes a checkpoint after every 64th entry, of a large table less often, once its
  commit has succeeded and returned; that it fails is not an error of the commit.
- ``create`` writes the boundary as 0 with create-if-absent, then entry 1 as any commit. Entries
  without a boundary are BoundaryLost, for every process. Where the table was dropped its index is
  continued.

Handles are safe to share between threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from blockstore.bucket.api import Bucket, ReadBucket, writable
from blockstore.errors import (
    BlockstoreError,
    BoundaryLost,
    Conflict,
    HistoryReplaced,
    Indeterminate,
    Invalid,
    NotFound,
    Unavailable,
)
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.freshness import Freshness
from blockstore.index.boundary import Boundary, write_first
from blockstore.index.checkpoint_name import NamedCheckpoint, every, newer
from blockstore.index.entry import Entry
from blockstore.index.history import History
from blockstore.index.lives import check_own
from blockstore.index.poll import Loaded
from blockstore.index.read import IndexReader
from blockstore.index.state import State
from blockstore.world import World

if TYPE_CHECKING:
    # Loaded by the first commit: most handles only read.
    from blockstore.index.change import Change, Committed
    from blockstore.index.commit import Attempt, Committer
    from blockstore.index.queue import CommitQueue, Waiting

_logger = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""How long a commit keeps trying a store that does not respond, or racing others, before it gives
up."""

_REMEMBERED = 1_024
_ANOTHER_TABLE = (HistoryReplaced, BoundaryLost)
"""After these nothing that was sent is sent again: a copy may be put back in which its blocks are
gone, and the entry below is not."""


class Log:
    """One handle on one table's index."""

    def __init__(
        self,
        bucket: ReadBucket,
        world: World,
        *,
        program: str = "blockstore",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.bucket = bucket
        self._world = world
        self._program = program
        self._patience_s = patience_s
        self.boundary = Boundary(bucket, world)
        """The table's boundary as this handle reads it; its ``counts`` are for metrics."""
        self.reader = IndexReader(bucket, world, self.boundary)
        """What reads the index's objects: for the modules of this package."""
        self._queue: CommitQueue | None = None
        self._lock = threading.Lock()
        self._state: State | None = None
        self._committer: Committer | None = None
        self._open: dict[str, Attempt] = {}
        """Attempts that ended Indeterminate, by commit id: settled first, and known again when
        retried."""
        self._replaced: HistoryReplaced | None = None
        self._checkpoint: NamedCheckpoint | None = None
        self._moment = Freshness(world.clock)
        """As long as it lasts, what was read cold is the newest state."""

    @property
    def state(self) -> State:
        """The last checked state; read cold at first use.

        Raises NotFound where there is no index."""
        self._check_history()
        return self._state if self._state is not None else self.poll()

    def poll(self) -> State:
        """The latest state: two small requests if nothing is new, whatever the table's size."""
        self._check_history()
        state = self._state
        with self._noticing():
            if state is None:
                loaded = self.reader.cold()
                moment = self.reader.moment(loaded)
                state = self.take(loaded)
                self._moment = moment
                return state
            return self.take(self.reader.advance(state))

    def newest(self) -> State:
        """As ``poll``, but no request for a moment after an open, too short for word of a commit
        that began since: then it is what was there when the open began."""
        return self.state if self.was_just_read else self.poll()

    @property
    def was_just_read(self) -> bool:
        """Whether ``newest`` makes no request."""
        return self._state is not None and not self._moment.is_over

    @property
    def replaced(self) -> bool:
        """Whether this handle has met another history, and is over."""
        return self._replaced is not None

    @property
    def is_slow(self) -> bool:
        """Whether requests of this table's store are worth a thread each."""
        return self.reader.requests.is_slow

    def is_same(self, state: State) -> bool:
        """Whether the entry that a state ends with is still there: one small request. False where
        the table was made again or put back since, and where that entry was collected; a cold read
        is safe for both."""
        return self.reader.is_same(state)

    def own_looks(self) -> AbstractContextManager[None]:
        """An operation of this thread: looks may be made ahead of its commit and serve no other."""
        return self.reader.looks.operation()

    def confirm(self) -> None:
        """Raise HistoryReplaced unless the table is still the one whose state this handle has: for
        a caller that reports from that state that something was done before, and commits
        nothing."""
        state = self.state
        with self._noticing():
            self.take(self.reader.confirm(state))

    def look_ahead(self) -> Callable[[], object] | None:
        """A request that a commit would have to make first, for a caller that has others to make at
        the same time; None where it is cheaper made in turn, and where another thread makes it."""
        state, looks = self._state, self.reader.looks
        if state is None or not (self.is_slow and looks.take_on_look()):
            return None
        return partial(looks.ahead, state)

    def follow(self) -> Log:
        """This handle, polled; or another one, read cold, where the table's history was replaced
        (or is further, and the handle's last entry was collected): then this one is to be dropped.
        Raises NotFound where there is no longer an index."""
        known = self._state
        if known is None and not self.replaced:
            self.poll()
            return self
        if known is not None and not self.replaced:
            try:
                loaded = self.reader.advance(known)
                # Checked after the poll: what that read is of this table, and taken, only if it is
                # still there.
                if self.is_same(known):
                    self.take(loaded)
                    return self
            except HistoryReplaced:
                pass
        again = Log(self.bucket, self._world, program=self._program, patience_s=self._patience_s)
        newest = again.poll()
        same = known is not None and not self.replaced and newest.last == known.last
        return self if same else again

    def at(self, version: int, *, dropped: bool = False) -> State:
        """The state at a version. Raises NotFound if it was never written, or (not if ``dropped``)
        the table was dropped in it; VersionExpired if it was collected, or is of a table before."""
        state = self.state if version <= self.state.version else self.poll()
        return check_own(History(self.reader, state).at(version), state, self.bucket.url, dropped)

    def as_of(self, time_ms: int, *, dropped: bool = False) -> State:
        """The state at the last version whose entry time is at or before ``time_ms``."""
        state = self.newest()
        found = History(self.reader, state).as_of(time_ms)
        return check_own(found, state, self.bucket.url, dropped)

    def tagged(self, name: str) -> State:
        """The state of the version that a tag is set on. Raises NotFound, which names the tags that
        there are."""
        state = self.state
        if name not in state.tags:
            state = self.poll()
        if name not in state.tags:
            names = ", ".join(map(repr, sorted(state.tags))) or "none"
            raise NotFound(
                f"{self.bucket.url} has no tag {name!r} at version {state.version}, its tags: "
                f"{names}"
            )
        return self.at(state.tags[name])

    def entries(self, first: int | None = None, last: int | None = None) -> Iterator[Entry]:
        """The entries from ``first`` to ``last`` (default: all above the boundary), oldest
        first."""
        return History(self.reader, self.newest()).entries(first, last)

    def commit(self, change: Change) -> Committed:
        """Bring a change into the index (protocol 3.3).

        Raises Conflict or Invalid: nothing of it is in the index. Unavailable: nor is it; try again
        later. Indeterminate: it is not yet known; commit the same change again, with the same
        commit id, and it is looked up first.
        """
        from blockstore.index.queue import CommitQueue

        self._check_history()
        with self._lock:
            queue = self._queue = self._queue or CommitQueue(self._carry, self._world.pool.wait)
        try:
            return queue.run(change)
        finally:
            self.reader.looks.end()

    def begin(self, definition: Definition, job: Job | None = None) -> None:
        """Make the index that this handle is for, or continue that of a dropped table."""
        from blockstore.index.change import Create

        bucket = writable(self.bucket)
        if not self.reader.entries(0):
            write_first(bucket, self._world, self._patience_s)
            # No entry was listed: the empty state is checked. A faster process is met at entry 1.
            self._adopt(State.EMPTY)
        elif self.poll().dropped is None:  # raises BoundaryLost where the boundary is missing
            raise Conflict(
                f"there is already a table at {bucket.url}: open it, or choose another URL"
            )
        self.commit(Create(commit=self._world.ids.ulid(), definition=definition, job=job))

    def _carry(self, group: list[Waiting]) -> Callable[[], None] | None:
        """Commit a group and set every result; returns what to do afterwards.

        By one thread at a time.
        """
        try:
            self._check_history()
            with self._noticing():
                committer = self._ready()
                if len(group) == 1:
                    group[0].answer = self._one(committer, group[0].change)
                else:
                    self._together(committer, group)
        except BlockstoreError as error:
            self.reader.looks.forget()
            if isinstance(error, _ANOTHER_TABLE):
                self._open.clear()
            for waiting in group:
                if waiting.answer is None:
                    waiting.answer = self._still_open(waiting.change, error)
        finally:
            state = None if self._committer is None else self._committer.state
            if state is not None and not self.replaced:
                self._adopt(state)
        return self._checkpoint_due(group[0].answer)

    def _one(self, committer: Committer, change: Change) -> Committed:
        from blockstore.index.commit import Attempt

        attempt = self._open.setdefault(change.commit, Attempt(change))
        attempt.change = change
        try:
            committed = committer.commit(attempt)
        except BaseException:
            self._forget_unless_open(attempt)
            raise
        del self._open[change.commit]
        return committed

    def _still_open(self, change: Change, error: BlockstoreError) -> BlockstoreError:
        """The error of a change that was not tried now; one that was sent before may be in the
        index all the same."""
        attempt = self._open.get(change.commit)
        if attempt is None or not attempt.sent or not isinstance(error, (Unavailable, Invalid)):
            return error
        return Indeterminate(
            f"it is not known yet whether commit {change.commit} ({change.operation}) is in the "
            f"index: {error}",
            commit=change.commit,
            entry=min(attempt.sent),
        )

    def _forget_unless_open(self, attempt: Attempt) -> None:
        """Keep what a retry of the same commit id must know: payloads on their way, or what became
        of them."""
        if not attempt.sent and attempt.fate is None:
            self._open.pop(attempt.change.commit, None)
        settled = [commit for commit, one in self._open.items() if one.fate is not None]
        for commit in settled[:-_REMEMBERED]:
            del self._open[commit]

    def _together(self, committer: Committer, group: list[Waiting]) -> None:
        """Appends that share an entry; where one is refused each goes alone, to fail alone."""
        from blockstore.index.change import Append
        from blockstore.index.outcomes import share_of

        blocks = tuple(block for waiting in group for block in waiting.blocks)
        shared = Append(commit=self._world.ids.ulid(), blocks=blocks)
        try:
            committed = self._one(committer, shared)
        except HistoryReplaced:
            raise
        except (Conflict, Invalid):
            for waiting in group:
                try:
                    waiting.answer = self._one(self._ready(), waiting.change)
                except _ANOTHER_TABLE:
                    raise
                except BlockstoreError as error:
                    waiting.answer = error
            return
        assert committer.state is not None, "a commit leaves a checked state"
        for waiting in group:
            waiting.answer = share_of(committed, waiting.blocks, committer.state)

    def _ready(self) -> Committer:
        """The committer, at the newest state known, with nothing unsettled behind it."""
        from blockstore.index.commit import Committer

        if self._committer is None:
            self._committer = Committer(
                writable(self.bucket),
                self._world,
                self.reader,
                program=self._program,
                patience_s=self._patience_s,
            )
        committer = self._committer
        committer.state = self._state
        committer.checkpoint = newer(committer.checkpoint, self._checkpoint)
        for attempt in list(self._open.values()):
            if attempt.fate is None:
                self._settle(committer, attempt)
        return committer

    def _settle(self, committer: Committer, attempt: Attempt) -> None:
        change = attempt.change
        try:
            committer.settle(attempt)
        except Indeterminate as error:
            if attempt.sent:
                raise Unavailable(
                    f"an earlier operation of this handle (commit {change.commit}, "
                    f"{change.operation}) is not settled yet, and nothing else was sent: {error}"
                ) from error
            _logger.warning("%s", error)
        self._forget_unless_open(attempt)

    def _checkpoint_due(
        self, answer: Committed | BlockstoreError | None
    ) -> Callable[[], None] | None:
        from blockstore.index.change import Committed

        state = None if self._committer is None else self._committer.state
        if not isinstance(answer, Committed) or answer.entry is None or state is None:
            return None
        due = state.version == answer.entry.id and not state.version % every(len(state.blocks))
        return partial(self._write_checkpoint, state) if due else None

    def _write_checkpoint(self, state: State) -> None:
        from blockstore.index.checkpoint_write import try_write_checkpoint

        written = try_write_checkpoint(writable(self.bucket), state, lambda: self.reader.leaves)
        if written is None or written.state is None:
            if state.root is not None:
                self._leave_root(state)
            return
        with self._lock:
            self._checkpoint = newer(self._checkpoint, written.name)
            if written.state is not state and self._state is not None:
                from blockstore.index.tree.write import moved

                self._state = moved(self._state, state, written.state)

    def _leave_root(self, state: State) -> None:
        """Read again: a root that shares leaves with the state's own may not be relied on."""
        try:
            with self._noticing():
                self.take(self.reader.cold_after(state))
        except BlockstoreError as error:  # the commit has succeeded
            _logger.warning("%s was not read again: %s", self.bucket.url, error)

    def _check_history(self) -> None:
        """Raise what this handle has met before."""
        if self._replaced is not None:
            raise HistoryReplaced(str(self._replaced), dropped=self._replaced.dropped)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Drop everything once the history was replaced."""
        try:
            yield
        except HistoryReplaced as error:
            with self._lock:
                self._replaced, self._state = error, None
            raise

    def take(self, loaded: Loaded) -> State:
        """Know what ``reader`` has read, also for a caller that keeps states of its own; return the
        newest."""
        self._checkpoint = newer(self._checkpoint, loaded.checkpoint)
        return self._adopt(loaded.state)

    def _adopt(self, state: State) -> State:
        with self._lock:
            if self._replaced is None and (self._state is None or state.is_ahead_of(self._state)):
                self._state = state
            return self._state or state


def create(
    bucket: Bucket,
    world: World,
    definition: Definition,
    *,
    job: Job | None = None,
    program: str = "blockstore",
    patience_s: float = PATIENCE_S,
) -> Log:
    """Make the table's index: its boundary, then entry 1. With a ``job`` the index knows later
    which job made the table. Raises Conflict if there is a table already."""
    log = Log(bucket, world, program=program, patience_s=patience_s)
    log.begin(definition, job)
    return log

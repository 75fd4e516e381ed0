"""Group commit: how the threads of one process share one handle without ever waiting behind a lock.

Rules (protocol 3.3):
- One thread leads: it takes the oldest operation, with it every waiting one that may share its
  entry, carries them into the index, and hands the lead to the next in line. The lead is handed
  over, never held: no lock is held across a commit, and the others wait for their own results.
- An operation that may not share an entry (a job, a transaction) goes alone.
- The leader sets the result of every operation that it took, also when it dies in between.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from blockstore.errors import BlockstoreError, Indeterminate
from blockstore.format.block import BlockMeta
from blockstore.index.change import Append, Change, Committed

_GROUP = 256


class Waiting:
    """One operation in line."""

    def __init__(self, change: Change, wait: Callable[[threading.Event], None]) -> None:
        self.change = change
        self.answer: Committed | BlockstoreError | None = None
        self._wait = wait
        self._woken = threading.Event()

    @property
    def shareable(self) -> bool:
        """Whether others may share the entry."""
        return isinstance(self.change, Append) and self.change.shareable

    @property
    def blocks(self) -> tuple[BlockMeta, ...]:
        """What it appends; meaningful where it is shareable."""
        assert isinstance(self.change, Append)
        return self.change.blocks

    @property
    def woken(self) -> bool:
        """Whether there is a result, or the lead."""
        return self._woken.is_set()

    def wait(self) -> None:
        """Sleep until there is a result, or the lead."""
        self._wait(self._woken)

    def wake(self) -> None:
        """Signal that there is a result, or the lead."""
        self._woken.set()

    def result(self) -> Committed:
        """The result, returned or raised."""
        if isinstance(self.answer, BlockstoreError):
            raise self.answer
        assert self.answer is not None, "a leader sets the result of every operation that it took"
        return self.answer


class CommitQueue:
    """The line of operations of one handle. ``work`` carries a group, sets every result, and
    returns what is to be done once they have been set and the lead has been handed over; ``wait``
    sleeps until an event is set."""

    def __init__(
        self,
        work: Callable[[list[Waiting]], Callable[[], None] | None],
        wait: Callable[[threading.Event], None],
    ) -> None:
        self._work = work
        self._wait = wait
        self._lock = threading.Lock()
        self._line: deque[Waiting] = deque()
        self._led = False

    def run(self, change: Change) -> Committed:
        """Carry the change into the index, now or together with others."""
        mine = Waiting(change, self._wait)
        with self._lock:
            self._line.append(mine)
            leads = not self._led
            self._led = True
        if not leads:
            try:
                mine.wait()
            except BaseException:
                self._leave(mine)
                raise
        if mine.answer is None:
            self._lead()
        return mine.result()

    def _lead(self) -> None:
        group = self._take()
        afterwards = None
        try:
            afterwards = self._work(group)
        finally:
            self._hand_over()
            for waiting in group:
                if waiting.answer is None:
                    waiting.answer = Indeterminate(
                        f"the thread that carried commit {waiting.change.commit} ended before it "
                        "had a result; commit the same operation again, and it is looked up first",
                        commit=waiting.change.commit,
                    )
                waiting.wake()
        if afterwards is not None:
            afterwards()

    def _take(self) -> list[Waiting]:
        """The oldest in line, which is the caller's own, and those that may go with it."""
        with self._lock:
            first = self._line.popleft()
            if not first.shareable:
                return [first]
            together = [one for one in self._line if one.shareable][: _GROUP - 1]
            taken = set(map(id, together))
            self._line = deque(one for one in self._line if id(one) not in taken)
            return [first, *together]

    def _hand_over(self) -> None:
        with self._lock:
            self._wake_next()

    def _leave(self, waiting: Waiting) -> None:
        """A thread was interrupted in line: it takes its operation with it, and passes on the lead
        if it has it."""
        with self._lock:
            if waiting in self._line:
                self._line.remove(waiting)
                if waiting.woken:
                    self._wake_next()

    def _wake_next(self) -> None:
        """With the lock held."""
        self._led = bool(self._line)
        if self._line:
            self._line[0].wake()

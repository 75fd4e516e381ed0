"""One table as the gateway holds it: its last snapshots, how old they are, and what went wrong
last.

Rules:
- A snapshot is replaced by one assignment; whoever holds the old one keeps it.
- One look at a time; who comes meanwhile waits for its end and takes what it found.
- A look that fails changes nothing but the reason: the last snapshot is answered until it is
  ``max_staleness_s`` old, and then the query fails and says so.
- A version that is known to be written is waited for by no poll: who asks next looks first, until a
  look has succeeded.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator

import pyarrow.compute as pc

from blockstore.bucket import Bucket
from blockstore.errors import BlockstoreError, Corrupt, NotFound
from blockstore.reader.errors import Stale
from blockstore.reader.tables.at import At
from blockstore.reader.tables.decode_budget import DecodeBudget, cells
from blockstore.reader.tables.instant import Seen
from blockstore.reader.tables.look import Found, Looker
from blockstore.reader.tables.polling import Polling
from blockstore.reader.tables.view import TableState, TableView
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

_logger = logging.getLogger(__name__)

_REMEMBERED = 8


class HeldTable:
    """One table; safe to share between threads."""

    def __init__(
        self,
        name: str,
        bucket: Bucket,
        world: World,
        polling: Polling,
        events: Iterator[int],
        budget: DecodeBudget,
    ) -> None:
        self.name = name
        self.bucket = bucket
        self._clock = world.clock
        self._ids = world.ids
        self._polling = polling
        self._events = events
        self._budget = budget
        self._cells = 0
        self._looker = Looker(bucket, world, polling.discovery)
        self._look_lock = threading.Lock()
        self._looks = 0
        self.seen: deque[Seen] = deque()
        """The last snapshots, the newest first; replaced as a whole by a look."""
        self._known = 0
        """The version that is known to be written; older snapshots are not the newest."""
        self.error: BlockstoreError | None = None
        self.failures = 0
        self.fresh_s: float | None = None
        self.tried_s: float | None = None
        self.asked_s = self._clock.monotonic_s()
        self.due_s = self.asked_s

    @property
    def found(self) -> Found | None:
        """What the last look that succeeded found."""
        seen = self.seen
        return seen[0].found if seen else None

    @property
    def gone(self) -> bool:
        """Whether the last look says that there is no table here."""
        return isinstance(self.error, NotFound)

    def look(self) -> bool:
        """Look now, unless a look that began after this call has ended meanwhile; answers whether
        something changed. Never raises an error of the tree: what went wrong stands in ``error``.
        """
        before = self._looks
        with self._look_lock:
            if self._looks > before:
                # It began after this call, so what it found is as good.
                return False
            self._looks += 1
            return self._look()

    def catch_up(self, version: int) -> None:
        """Answer ``version``, which was written, from now on.

        Never raises an error of the tree, as ``look``.
        """
        self._known = max(self._known, version)
        if self._is_behind():
            self.look()

    def newest(self) -> list[Seen]:
        """The remembered snapshots that may still be the newest, the newest first."""
        return [one for one in self.seen if _version(one.found) >= self._known]

    def fresh(self) -> Found:
        """What to answer from now; looks first if the loop did not lately. Raises Stale, and what
        the table's first look raised."""
        now_s = self._clock.monotonic_s()
        self.asked_s = now_s
        due = self._is_behind() or self._polling.is_due_on_demand(self.fresh_s, now_s)
        if due and not self._has_just_failed(now_s):
            # A look that hangs must not hang those who can still be answered.
            if not self._look_lock.locked() or not self._is_young(now_s):
                self.look()
            now_s = self._clock.monotonic_s()
        found = self.found
        if self.gone or found is None or self.fresh_s is None:
            assert self.error is not None, "a look finds something or says why not"
            raise self.error
        age_s = now_s - self.fresh_s
        if age_s > self._polling.max_staleness_s:
            raise Stale(
                f"the table {self.name} was last seen {age_s:.0f} s ago, longer than max_staleness "
                f"({self._polling.max_staleness_s:.0f} s), and the past is not answered silently: "
                f"{self.error}",
                retry_after_s=max(1.0, min(self.due_s - now_s, self._polling.slowest_s)),
            )
        return found

    def snapshot(self, at: At) -> TableSnapshot:
        """The newest snapshot, or that of an earlier version."""
        found = self.fresh()
        if at.newest:
            return found.snapshot
        known = found.snapshot.version or 0
        unknown_tag = (
            found.state is not None and at.tag is not None and at.tag not in found.state.tags
        )
        if unknown_tag or (at.version is not None and at.version > known) or at.as_of is not None:
            self.look()
            found = self.fresh()
        return self._looker.at(found, at)

    def handle(self) -> Found:
        """The table's handle, checked just now to be of the table that stands there."""
        found = self.fresh()
        if found.state is not None and not self._looker.is_same(found.table, found.state):
            self._looker.doubt()
            self.look()
            found = self.fresh()
        return found

    def view(self) -> TableView:
        """The table as a value."""
        now_s = self._clock.monotonic_s()
        found, error, fresh_s = self.found, self.error, self.fresh_s
        staleness_s = None if fresh_s is None else max(0.0, now_s - fresh_s)
        view = TableView(
            name=self.name,
            url=self.bucket.url,
            state=self._state(staleness_s, error),
            reason=None if error is None else str(error),
            snapshot=None if found is None else found.snapshot,
            staleness_s=staleness_s,
            idle=self._polling.is_idle(self.asked_s, now_s),
        )
        return view if found is None else _filled(view, found)

    def _state(self, staleness_s: float | None, error: BlockstoreError | None) -> TableState:
        if staleness_s is None:
            return TableState.LOADING if error is None else TableState.DEGRADED
        if error is not None and staleness_s > self._polling.max_staleness_s:
            return TableState.STALE
        return TableState.READY if error is None else TableState.DEGRADED

    def _is_behind(self) -> bool:
        """Whether more was written than is held."""
        found = self.found
        return found is not None and _version(found) < self._known

    def _is_young(self, now_s: float) -> bool:
        """Whether the last snapshot may still be answered."""
        return self.fresh_s is not None and now_s - self.fresh_s <= self._polling.max_staleness_s

    def _has_just_failed(self, now_s: float) -> bool:
        """Whether asking once more would only make a store in trouble worse."""
        return self.error is not None and self.tried_s is not None and now_s - self.tried_s < 1.0

    def _look(self) -> bool:
        began, started_s = next(self._events), self._clock.monotonic_s()
        self.tried_s = started_s
        last = self.found
        try:
            found = self._looker.look(last)
        except BlockstoreError as error:
            self._failed(error)
            return False
        # What this look did not find was of another table under this name.
        self._known = min(self._known, _version(found))
        changed = last is None or not found.same_as(last)
        if changed:
            first, others = next(self._events), list(self.seen)
        else:
            first, others = self.seen[0].from_event, list(self.seen)[1:]
        newest = Seen(found=found, from_event=first, to_event=began, to_s=started_s)
        self.seen = deque([newest, *others][:_REMEMBERED])
        if self.error is not None:
            _logger.info("the table %s is well again", self.name)
        self.error = None
        self.failures = 0
        self.fresh_s = started_s
        self.due_s = self._clock.monotonic_s() + self._polling.wait_s(0, self._ids.uniform(-1, 1))
        if changed:
            self._prepare(found.snapshot.snapshot)
        return changed

    def give_up(self) -> None:
        """The table is held no longer: others may have its room."""
        self._budget.swap(self._cells, 0)
        self._cells = 0

    def _prepare(self, snapshot: Snapshot) -> None:
        """Make what the next query needs, better now than while somebody waits; what cannot be
        read, the query will say."""
        wanted = cells(snapshot)
        self._cells = wanted if self._budget.swap(self._cells, wanted) else 0
        if self._cells:
            with contextlib.suppress(Corrupt):
                snapshot.prepare()

    def _failed(self, error: BlockstoreError) -> None:
        if self.error is None or str(error) != str(self.error):
            _logger.warning("the table %s cannot be looked at: %s", self.name, error)
        self.error = error
        self.failures += 1
        now_s = self._clock.monotonic_s()
        self.due_s = now_s + self._polling.wait_s(self.failures, self._ids.uniform(-1, 1))


def _version(found: Found) -> int:
    return found.snapshot.version or 0


def _filled(view: TableView, found: Found) -> TableView:
    """The view with what the snapshot's own columns say."""
    frame = found.snapshot.blocks.table()
    return TableView(
        name=view.name,
        url=view.url,
        state=view.state,
        reason=view.reason,
        snapshot=view.snapshot,
        staleness_s=view.staleness_s,
        version=found.snapshot.version,
        rows=pc.sum(frame["rows"]).as_py() or 0,
        bytes=pc.sum(frame["bytes"]).as_py() or 0,
        blocks=frame.num_rows,
        tags={} if found.state is None else dict(found.state.tags),
        idle=view.idle,
    )

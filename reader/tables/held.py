"""One table as the gateway holds it: its last snapshots, their age, and the last error.

Rules:
- A snapshot is replaced by one assignment; a query that has the old one keeps it.
- One look runs at a time; a caller that comes during a look waits for its end and uses its result.
- A look that fails changes only the error. The last snapshot is served until it is
  ``max_staleness_s`` old; then queries fail with that error.
- An idle table may be forgotten: its snapshots are dropped, and its next query reads it again.
- After a version is known to be written, the next query looks first, without waiting for a poll,
  until a look has succeeded.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator

import pyarrow.compute as pc

from blockstore.bucket import Bucket
from blockstore.errors import BlockstoreError, Corrupt, NotFound, Unavailable
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
        self._world = world
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
        """The last snapshots, newest first; each look replaces the deque."""
        self._known = 0
        """The newest version that is known to be written; older snapshots are outdated."""
        self._size: tuple[Found | None, int] = (None, 0)
        self.error: BlockstoreError | None = None
        self.failures = 0
        self.fresh_s: float | None = None
        self.tried_s: float | None = None
        self.asked_s: float | None = None
        """When a query last asked for the table; None if none ever did."""
        self.due_s = self._clock.monotonic_s()

    @property
    def found(self) -> Found | None:
        """The result of the last look that succeeded."""
        seen = self.seen
        return seen[0].found if seen else None

    @property
    def gone(self) -> bool:
        """Whether the last look found no table here."""
        return isinstance(self.error, NotFound)

    def look(self) -> bool:
        """Look now, unless a look that began after this call has ended meanwhile. Return whether
        something changed. Raises no project error: ``error`` contains it."""
        before = self._looks
        with self._look_lock:
            if self._looks > before:
                # That look began after this call, so its result is as good.
                return False
            self._looks += 1
            return self._look()

    def catch_up(self, version: int) -> None:
        """Serve at least ``version``, which was written, from now on. Raises no project error, as
        ``look``."""
        self._known = max(self._known, version)
        if self._is_behind() or self.gone:
            self.look()

    def hears_of(self, version: int) -> None:
        """Another gateway has this version: the next query looks first if an older one is held."""
        self._known = max(self._known, version)

    @property
    def known(self) -> int:
        """The newest version that is known to be there; 0 if none is known."""
        found = self.found
        return self._known if found is None else max(self._known, _version(found))

    @property
    def size_bytes(self) -> int:
        """The size of the blocks, as of the last look; 0 if it is not known."""
        found, (of, size) = self.found, self._size
        if found is not None and of is not found:
            size = pc.sum(found.snapshot.blocks.table()["bytes"]).as_py() or 0
            self._size = found, size
        return 0 if found is None else size

    def newest(self) -> list[Seen]:
        """The remembered snapshots that may still be current, newest first."""
        return [one for one in self.seen if _version(one.found) >= self._known]

    def fresh(self) -> Found:
        """The snapshot to serve now; looks first if the last poll is too old. Raises Stale, and
        what the first look of the table raised."""
        now_s = self._clock.monotonic_s()
        self.asked_s = now_s
        due = self._is_behind() or self._polling.is_due_on_demand(self.fresh_s, now_s)
        if due and not self._has_just_failed(now_s):
            # A look that hangs must not block queries that the last snapshot can serve.
            if not self._look_lock.locked() or not self._is_young(now_s):
                self.look()
            now_s = self._clock.monotonic_s()
        found, fresh_s = self.found, self.fresh_s
        if self.error is None and (found is None or fresh_s is None):
            # The table was idle, and was forgotten just after the query began.
            self.look()
            now_s = self._clock.monotonic_s()
            found, fresh_s = self.found, self.fresh_s
        if self.gone or found is None or fresh_s is None:
            assert self.error is not None, "a look has a result or an error"
            raise self.error
        age_s = now_s - fresh_s
        if age_s > self._polling.max_staleness_s:
            raise Stale(
                f"refusing to serve stale data: table {self.name} was last read {age_s:.0f} s ago, "
                f"longer than max_staleness ({self._polling.max_staleness_s:.0f} s): {self.error}",
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
        """The table's handle, checked just now to be of the present table."""
        found = self.fresh()
        if found.state is not None and not self._looker.is_same(found.table, found.state):
            self._looker.doubt()
            self.look()
            found = self.fresh()
        return found

    def state(self) -> TableState:
        """The table's state now."""
        now_s, fresh_s = self._clock.monotonic_s(), self.fresh_s
        return self._state(None if fresh_s is None else max(0.0, now_s - fresh_s), self.error)

    @property
    def has_just_failed(self) -> bool:
        """Whether the last look failed a moment ago."""
        return self._has_just_failed(self._clock.monotonic_s())

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
        """Whether a newer version is known to be written."""
        found = self.found
        return found is not None and _version(found) < self._known

    def _is_young(self, now_s: float) -> bool:
        """Whether the last snapshot may still be served."""
        return self.fresh_s is not None and now_s - self.fresh_s <= self._polling.max_staleness_s

    def _has_just_failed(self, now_s: float) -> bool:
        """Whether another request now would only add load to a failing store."""
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
        # A version that this look did not find was of another table of this name.
        self._known = min(self._known, _version(found))
        changed = last is None or not found.same_as(last)
        if changed:
            first, others = next(self._events), list(self.seen)
        else:
            first, others = self.seen[0].from_event, list(self.seen)[1:]
        newest = Seen(found=found, from_event=first, to_event=began, to_s=started_s)
        self.seen = deque([newest, *others][:_REMEMBERED])
        if self.error is not None:
            _logger.info("table %s can be read again", self.name)
        self.error = None
        self.failures = 0
        self.fresh_s = started_s
        self.due_s = self._clock.monotonic_s() + self._polling.wait_s(0, self._ids.uniform(-1, 1))
        if changed:
            self._prepare(found.snapshot.snapshot)
        return changed

    @property
    def is_broken(self) -> bool:
        """Whether the last look failed, and not because the store did not respond."""
        return self.error is not None and not isinstance(self.error, Unavailable)

    def rest(self) -> None:
        """The table is idle now. That the store did not respond is no longer true of it: nothing
        asks."""
        with self._look_lock:
            if isinstance(self.error, Unavailable) and self._polling.is_idle(
                self.asked_s, self._clock.monotonic_s()
            ):
                self.error = None
                self.failures = 0

    def forget(self) -> None:
        """Drop what was read, if the table is idle: its next query reads it from the start. An
        error stays known."""
        with self._look_lock:
            if not self._polling.is_idle(self.asked_s, self._clock.monotonic_s()):
                return
            self.fresh_s = None
            self.seen = deque()
            self._looker = Looker(self.bucket, self._world, self._polling.discovery)
            self.give_up()

    def give_up(self) -> None:
        """Return the table's share of the decode budget: it is no longer held."""
        self._budget.swap(self._cells, 0)
        self._cells = 0

    def _prepare(self, snapshot: Snapshot) -> None:
        """Decode what the next query needs before it waits for it. A query reports what cannot be
        read."""
        wanted = cells(snapshot)
        self._cells = wanted if self._budget.swap(self._cells, wanted) else 0
        if self._cells:
            with contextlib.suppress(Corrupt):
                snapshot.prepare()

    def _failed(self, error: BlockstoreError) -> None:
        if self.error is None or str(error) != str(self.error):
            _logger.warning("table %s cannot be read: %s", self.name, error)
        self.error = error
        self.failures += 1
        now_s = self._clock.monotonic_s()
        self.due_s = now_s + self._polling.wait_s(self.failures, self._ids.uniform(-1, 1))


def _version(found: Found) -> int:
    return found.snapshot.version or 0


def _filled(view: TableView, found: Found) -> TableView:
    """The view with the totals of the snapshot."""
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

"""All tables of a gateway, kept fresh by a few threads.

Invariants:
- A broken table fails its own queries only: each table is polled separately, and a look that hangs
  blocks one thread.
- Newest snapshots of several tables that are requested together are of one instant
  (``instant.py``).
- A table that was removed is no longer served; a new one is served within a poll interval.
- Only tables that were asked for lately are polled (``attention.py``), by a number of threads that
  does not depend on how many tables there are.
- Ready means that every URL was listed, and those first tables were read. A table that was never
  asked for delays nothing, and is not counted as broken; one that fails when it is asked for is.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import BlockstoreError, Invalid, NotFound, Unavailable
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.attention import Attention
from blockstore.reader.tables.decode_budget import DecodeBudget
from blockstore.reader.tables.held import HeldTable
from blockstore.reader.tables.instant import common_instant
from blockstore.reader.tables.lake import Place, is_below, local_folder
from blockstore.reader.tables.names import Names, folded, permits
from blockstore.reader.tables.polling import Polling
from blockstore.reader.tables.view import TableState, TableView
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

_logger = logging.getLogger(__name__)

_THREADS = 4
_ROUNDS = 4
_LONGEST_NAP_S = 0.5
_BROKEN = (TableState.DEGRADED, TableState.STALE)


@dataclass(slots=True)
class Counts:
    """Counters for metrics; they only grow."""

    polls: int = 0
    failures: int = 0
    changes: int = 0


class Tables:
    """The tables under some URLs. ``start`` keeps them fresh; without it, each query polls
    first."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        world: World | None = None,
        polling: Polling | None = None,
        wrap: Callable[[Bucket], Bucket] | None = None,
    ) -> None:
        if not urls:
            raise Invalid("no URL was given: name a table or a lake")
        self._world = world or World.real()
        self._clock = self._world.clock
        self._polling = polling or Polling()
        self._places = [
            Place((wrap or _same)(open_bucket(url, self._world)), self._world.pool) for url in urls
        ]
        self._held: dict[str, HeldTable] = {}
        self._lock = threading.Lock()
        self._lake_lock = threading.Lock()
        self._lake_due_s = self._clock.monotonic_s()
        self._lake_error: BlockstoreError | None = None
        self._reported_empty: set[Place] = set()
        self._listed = False
        self._listed_s = -math.inf
        self._failing_since_s: float | None = None
        """Since when the URLs cannot be listed."""
        self._probed: HeldTable | None = None
        """The table that was looked at in that time, though no query asked for it."""
        self._attention = Attention(self._polling, self._clock)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._events = itertools.count()
        self._budget = DecodeBudget()
        self.counts = Counts()
        self.ready = False
        """Whether every URL was listed, and the first tables were read."""

    # Which tables there are

    @property
    def halted(self) -> str | None:
        """Why no query can succeed: no URL can be listed, or every table is broken. Else None. A
        table that was dropped is not broken, and of one that was not read it is not known. While
        the URLs cannot be listed, what was read since then counts for all."""
        held = [one for one in self._held.values() if not one.gone]
        if self._lake_error is not None and not held:
            return str(self._lake_error)
        since_s = self._failing_since_s
        if since_s is not None:
            held = [one for one in held if one.tried_s is not None and one.tried_s >= since_s]
        broken = [one for one in held if one.state() in _BROKEN]
        return str(broken[0].error) if broken and len(broken) == len(held) else None

    def folders(self) -> list[str]:
        """The local folders that contain tables: a query engine must be allowed to read them."""
        found = {
            folder for place in self._places if (folder := local_folder(place.bucket)) is not None
        }
        return sorted(found)

    @property
    def remote(self) -> bool:
        """Whether some table is in a bucket without local files."""
        return any(local_folder(place.bucket) is None for place in self._places)

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """The tables, sorted; only those that are ``allowed``."""
        return self._names(allowed).all

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        """The table's own spelling of ``name``. Raises UnknownTable, also for a hidden table, and
        Restricted for one that a policy restricts."""
        exact = self._held.get(name)
        if exact is not None and not exact.gone and permits(allowed, name):
            return name
        names = self._names(allowed)
        if name not in names and (self._came_back(name, allowed) or self._list_if_old()):
            names = self._names(allowed)
        return names.find(name)

    def views(self, allowed: Collection[str] | None = None) -> list[TableView]:
        """Every table as a value, sorted by name."""
        held = self._held
        return [held[name].view() for name in self.names(allowed) if name in held]

    def states(self) -> Counter[TableState]:
        """How many tables are in each state."""
        return Counter(held.state() for held in list(self._held.values()) if not held.gone)

    def last_asked(self, most: int) -> list[TableView]:
        """At most so many of the tables that were asked for last, as values, sorted by name."""
        found = [held.view() for held in self._attention.last(most) if not held.gone]
        return sorted(found, key=lambda view: view.name)

    def polled(self) -> int:
        """How many tables are polled."""
        return self._attention.polled

    def view(self, name: str, allowed: Collection[str] | None = None) -> TableView:
        """One table as a value, polled first if the last poll is too old."""
        held = self._get(name, allowed)
        try:
            held.fresh()
        except BlockstoreError:
            if held.gone:
                raise
        return held.view()

    def held(self, name: str) -> HeldTable | None:
        """A table by its own spelling, as it is held now; nothing is looked at."""
        return self._held.get(name)

    def table(self, name: str, allowed: Collection[str] | None = None) -> Table:
        """The table's handle, for its history, for diffs and for appends."""
        return self._get(name, allowed).handle().table

    def bucket_of(self, name: str, allowed: Collection[str] | None = None) -> Bucket:
        """The bucket of a table, also of one that was dropped. Raises UnknownTable."""
        if name not in self._held:
            self._list_if_old()
        return self._held[Names(self._held, allowed).find(name)].bucket

    # Snapshots

    def snapshot(
        self, name: str, at: At = NEWEST, allowed: Collection[str] | None = None
    ) -> TableSnapshot:
        """The newest snapshot of a table, or that of an earlier version. Raises Stale,
        UnknownTable, VersionExpired."""
        return self._get(name, allowed).snapshot(at)

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        """A snapshot of each table, by its own spelling; newest snapshots are of one instant."""
        held = {one.name: one for one in (self._get(name, allowed) for name in names)}
        each = at_of_each(held, at)
        newest = {name: one for name, one in held.items() if each[name].newest}
        found = {name: one.snapshot(each[name]) for name, one in held.items() if name not in newest}
        return found | self._together(newest)

    def _together(self, held: Mapping[str, HeldTable]) -> dict[str, TableSnapshot]:
        if len(held) <= 1:
            return {name: one.snapshot(NEWEST) for name, one in held.items()}
        for one in held.values():
            one.fresh()
        for turn in range(_ROUNDS):
            now_s = self._clock.monotonic_s()
            oldest_s = now_s - 2 * self._polling.interval_s
            common = common_instant(
                {name: one.newest() for name, one in held.items()}, not_before_s=oldest_s
            )
            if common is not None:
                return {name: found.snapshot for name, found in common.items()}
            if turn == _ROUNDS - 1:
                break
            for one in held.values():
                one.look()
                one.fresh()
        # They change faster than they can be polled: use the present moment, up to which all
        # entries are known.
        moment = At(as_of=self._clock.now_ms())
        return {name: one.snapshot(moment) for name, one in held.items()}

    def at_least(
        self, name: str, version: int | None, allowed: Collection[str] | None = None
    ) -> TableSnapshot:
        """The newest snapshot of a table, which is of this version or a later one. Raises NotFound
        if there is no such version yet, and what ``snapshot`` raises."""
        spelled = self.find(name, allowed)
        if version is not None:
            self.catch_up(spelled, version)
        found = self.snapshot(spelled, NEWEST, allowed)
        if version is not None and (found.version or 0) < version:
            raise NotFound(
                f"table {spelled} is at version {found.version}, and version {version} was asked "
                "for: check the number, or read without min_version"
            )
        return found

    def appeared(self) -> None:
        """List the URLs now: a table was created."""
        self._list_places()

    # Polling

    def _came_back(self, name: str, allowed: Collection[str] | None) -> bool:
        """Whether a table of this name that was dropped is there again; looks at it."""
        same = [one for one in self._held.values() if folded(one.name) == folded(name)]
        gone = [one for one in same if one.gone and one.name in Names([one.name], allowed)]
        for held in gone:
            if not held.has_just_failed:
                self._look(held)
        return any(not held.gone for held in gone)

    def start(self) -> None:
        """Keep the tables fresh in a few threads, until ``stop``."""
        self._stopping.clear()
        self._threads = [
            threading.Thread(target=self._run, name=f"tables-{number}", daemon=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, patience_s: float = 5.0) -> None:
        """End the threads; do not wait longer than ``patience_s`` for a look that hangs."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(patience_s)
        self._threads = []

    def poll_now(self, name: str | None = None) -> None:
        """Poll now, in this thread: one table, or all URLs and tables."""
        if name is not None:
            self._look(self._get(name, None))
            return
        self._list_places()
        for held in list(self._held.values()):
            self._look(held)
        self.ready = True

    def catch_up(self, name: str, version: int) -> None:
        """Serve at least ``version`` of a table from now on: a client knows that it was written.
        Polls only if an older version is held. Raises no project error: if the poll fails, the next
        query polls again."""
        held = self._held.get(name)
        if held is not None:
            held.catch_up(version)

    def step(self) -> bool:
        """Do one thing that is due and that no other thread does: list the URLs, or look at one
        table. Return whether there was any."""
        if self._clock.monotonic_s() >= self._lake_due_s and self._lake_lock.acquire(
            blocking=False
        ):
            try:
                self._list_places_locked()
            finally:
                self._lake_lock.release()
            return True
        held = self._attention.take_due()
        if held is None:
            self.ready = self.ready or self._all_seen()
            return False
        try:
            self._look(held)
        finally:
            self._attention.done(held)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self.step():
                    continue
            except Exception:
                _logger.exception("polling failed with an internal error and continues")
            self._stopping.wait(self._nap_s())

    def _nap_s(self) -> float:
        now_s = self._clock.monotonic_s()
        next_s = min(self._lake_due_s, self._attention.next_due_s())
        return min(_LONGEST_NAP_S, max(0.01, next_s - now_s))

    def _look(self, held: HeldTable) -> None:
        changed = held.look()
        with self._lock:
            self.counts.polls += 1
            self.counts.failures += held.error is not None
            self.counts.changes += changed

    def _all_seen(self) -> bool:
        """Whether the URLs were listed, and the first tables read."""
        return self._listed and self._lake_error is None and self._attention.first_read

    def _list_places(self) -> None:
        with self._lake_lock:
            self._list_places_locked()

    def _list_places_locked(self) -> None:
        try:
            for place in self._places:
                self._list_place(place)
            self._lake_error = self._failing_since_s = None
            self._listed = True
            if self._probed is not None:
                self._look(self._probed)
                self._probed = None
        except BlockstoreError as error:
            if self._lake_error is None:
                _logger.warning("the tables cannot be listed: %s", error)
            self._lake_error = error
            self._failing_since_s = self._failing_since_s or self._clock.monotonic_s()
            self._look_at_one()
        self._attention.forget_idle()
        self._listed_s = self._clock.monotonic_s()
        draw = self._world.ids.uniform(-1, 1)
        wait_s = self._polling.listing_wait_s(len(self._held), draw)
        self._lake_due_s = self._listed_s + wait_s

    def _look_at_one(self) -> None:
        """While the URLs cannot be listed one table, and if none is polled a look at it, shows
        whether queries can succeed all the same."""
        now_s = self._clock.monotonic_s()
        lately_s = now_s - 2 * self._polling.interval_s
        held = [one for one in self._held.values() if not one.gone]
        if not held or any((one.fresh_s or -math.inf) >= lately_s for one in held):
            return
        # Rather one that is not broken by itself; then the same again, as if it was polled.
        self._probed = min(held, key=lambda one: (one.is_broken, -(one.tried_s or 0.0)))
        if self._probed.due_s <= now_s:
            self._look(self._probed)

    def _look_at_gone(self) -> None:
        """Look at one of the tables that were dropped: it may be there again."""
        gone = [one for one in self._held.values() if one.gone]
        if gone:
            self._look(min(gone, key=lambda held: held.tried_s or 0.0))

    def _list_place(self, place: Place) -> None:
        mine = {
            name: held for name, held in self._held.items() if is_below(held.bucket, place.bucket)
        }
        new, listed = place.tables(frozenset(mine))
        if not mine and not new and place not in self._reported_empty:
            self._reported_empty.add(place)
            _logger.warning(
                "there is no table at %s or in a folder directly under it yet: check the URL; the "
                "gateway keeps looking",
                place.bucket.url,
            )
        found: dict[str, HeldTable] = {}
        with self._lock:
            for name, bucket in new.items():
                if name in self._held:
                    _logger.warning(
                        "%s and %s are both named %s: only the first is served",
                        self._held[name].bucket.url,
                        bucket.url,
                        name,
                    )
                    continue
                found[name] = self._hold(name, bucket)
            self._held = {**self._held, **found}
        self._attention.found(found.values())
        for name, held in mine.items():
            if name not in listed and not held.gone:
                held.look()
            if name not in listed and held.gone:
                with self._lock:
                    self._held = {key: one for key, one in self._held.items() if one is not held}
                self._attention.gone(held)
                held.give_up()
        self._look_at_gone()

    def _hold(self, name: str, bucket: Bucket) -> HeldTable:
        return HeldTable(name, bucket, self._world, self._polling, self._events, self._budget)

    def _list_if_old(self) -> bool:
        """List the URLs for an unknown name, at most once a second."""
        if self.ready and self._clock.monotonic_s() - self._listed_s < 1.0:
            return False
        self._list_places()
        return True

    def _names(self, allowed: Collection[str] | None) -> Names:
        return Names((name for name, held in self._held.items() if not held.gone), allowed)

    def _get(self, name: str, allowed: Collection[str] | None) -> HeldTable:
        if not self._held and self._lake_error is None and not self.ready:
            self._list_places()
        if not self._held and self._lake_error is not None:
            raise Unavailable(
                f"the tables cannot be listed: {self._lake_error}"
            ) from self._lake_error
        spelled = self.find(name, allowed)
        held = self._held.get(spelled)
        if held is None:
            raise NotFound(f"table {spelled} has just been removed")
        self._attention.asked(held)
        return held


def _same(bucket: Bucket) -> Bucket:
    return bucket

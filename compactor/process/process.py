"""The process: a lake, a keeper for each of its tables, and the loops that run them.

Rules:
- Tables are added as they appear and dropped as they disappear. A table that cannot be opened is
  degraded and retried; the others continue.
- A table at which nothing changes rests (``resting.py``): its handle and its loops are dropped, its
  role stays claimed, and ``watch.py`` looks at it now and then.
- A fatal failure (the boundary is lost, the role was taken) ends the process: its loops write
  nothing more, and the process raises the error.
- To stop: no new run begins; a merge may continue for ``grace``, then it is abandoned. What was
  committed stays; the rest is debris that readers never see.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version

from blockstore.bucket import Bucket
from blockstore.compactor.config import ProcessConfig
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.keeper import COMPACT, Keeper
from blockstore.compactor.process.lake import Lake, Place
from blockstore.compactor.process.ledger import LAKE, Ledger
from blockstore.compactor.process.loops import Loop, Loops, Pool
from blockstore.compactor.process.readiness import not_ready, stuck
from blockstore.compactor.process.resting import Resting
from blockstore.compactor.process.status import JobStatus, Status, TableStatus
from blockstore.compactor.process.watch import WATCH, Watch
from blockstore.errors import BlockstoreError, NotFound
from blockstore.index.epochs import COMPACTOR
from blockstore.service.logs import about
from blockstore.table import Table
from blockstore.world import World

_logger = logging.getLogger(__name__)

TABLES, OPEN = "tables", "open"

_ABANDONED_S = 20.0
"""How long an abandoned merge may take to stop."""


class Process:
    """One compactor over one URL."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        config: ProcessConfig,
        engine: MergeEngine,
        *,
        shard: Shard | None = None,
    ) -> None:
        self.world = world
        self.config = config
        self.lake = Lake(bucket)
        self.shard = shard
        self.ledger = Ledger(world.clock, history=config.loops.history)
        self.loops = Loops(world, self.ledger, config.loops, fatal=self.end)
        self.ended = threading.Event()
        """Set when the process must end, for any reason."""
        self.fatal: BaseException | None = None
        self._engine = engine
        self._keepers: dict[str, Keeper] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._abandon = threading.Event()
        self._watch = Watch(
            world,
            self.ledger,
            first_s=config.loops.compact_s,
            longest_s=config.loops.quiet_s,
            retry_s=config.loops.retry_s,
            retry_most_s=config.loops.retry_most_s,
            wake=self._wake,
            stopping=self._stopping.is_set,
        )
        self._warned: set[str] = set()
        """The warnings of the last look."""
        self._started_ms, self._started_s = world.clock.now_ms(), world.clock.monotonic_s()
        self.month_cost: Callable[[], Mapping[str, float]] = dict
        """What a month of requests would cost; set by the code that counts them."""
        self.ledger.add(LAKE, bucket.url)

    # --- life ---

    def start(self) -> None:
        """Start the loops, first of all the one that finds tables."""
        self.loops.start()
        interval_s = self.config.loops.tables_s
        self.loops.add(
            Loop(
                table=LAKE,
                name=TABLES,
                url=self.lake.bucket.url,
                interval_s=interval_s,
                run=self.find_tables,
                pool=Pool.LAKE,
            )
        )
        if self.config.loops.quiet_s:
            self.loops.add(
                Loop(
                    table=LAKE,
                    name=WATCH,
                    url=self.lake.bucket.url,
                    interval_s=self._watch_s,
                    run=self.watch,
                    pool=Pool.WATCH,
                )
            )

    def end(self, error: BaseException | None = None) -> None:
        """End the process; ``error`` is the fatal failure, if there was one."""
        if error is not None:
            with self._lock:
                self.fatal = self.fatal or error
            # A merge that is no longer ours must not be committed; the index would also refuse it.
            self._abandon.set()
        self._stopping.set()
        self.ended.set()

    def hurry(self) -> None:
        """Abandon the running merge now."""
        self._abandon.set()

    def stop(self) -> bool:
        """End the loops; return whether all runs have ended, abandoned ones included."""
        self._stopping.set()
        self.loops.stop()
        step_s = 0.2
        left_s = self.config.loops.grace_s
        idle = self.loops.wait(0)
        while not idle and left_s > 0 and not self._abandon.is_set():
            idle = self.loops.wait(min(step_s, left_s))
            left_s -= step_s
        if not idle:
            _logger.warning(
                "the grace period is over: the running merge is abandoned; only its work is lost"
            )
            self._abandon.set()
            idle = self.loops.wait(_ABANDONED_S)
        for keeper in list(self._keepers.values()):
            self._close(keeper)
        return idle

    # --- tables ---

    def find_tables(self) -> float:
        """Look for tables that are new or gone."""
        known = self.ledger.names()
        places = {place.name: place for place in self.lake.places(known, self.world.pool)}
        for name in sorted(known - places.keys()):
            self._let_go(name)
        for name in sorted(places.keys() - known):
            if not self._stopping.is_set():
                self._found(places[name])
        self._warn(places.keys())
        return self.config.loops.tables_s

    def _warn(self, names: Collection[str]) -> None:
        """Warn once of a URL without tables, and of tables that only the configuration names; warn
        again if they vanish later."""
        warnings = {
            f'the configuration has [tables."{name}"], but there is no such table at '
            f"{self.lake.bucket.url}: check its name"
            for name in self.config.unmatched(names)
        }
        if not names:
            warnings.add(f"no table at {self.lake.bucket.url} or directly below it: check the URL")
        for warning in sorted(warnings - self._warned):
            _logger.warning("%s", warning)
        self._warned = warnings

    def _found(self, place: Place) -> None:
        left = self.config.leaves(place.name)
        self.ledger.add(place.name, place.bucket.url, left=left)
        with about(table=place.name):
            _logger.info(
                "found a table%s", ", which the configuration leaves alone" if left else ""
            )
        if not left:
            self._opens(place, None)

    def _opens(self, place: Place, rested: Resting | None) -> None:
        self.loops.add(
            Loop(
                table=place.name,
                name=OPEN,
                url=place.bucket.url,
                interval_s=self.config.loops.tables_s,
                run=lambda: self._open(place, rested),
                pool=Pool.CARE,
            )
        )

    def _open(self, place: Place, rested: Resting | None) -> float:
        """Open a table; once it is open, check that it still exists."""
        with self._lock:
            keeper = self._keepers.get(place.name)
        if keeper is not None:
            return self._still_there(keeper)
        try:
            keeper = Keeper(
                place,
                self.world,
                self.config,
                self.ledger,
                self._engine,
                shard=self.shard,
                stopping=self._stopping,
                abandon=self._abandon,
                rested=rested,
                on_round=self._round_ended,
            )
        except NotFound:
            if rested is None:
                raise
            self._let_go(place.name)
            return self.config.loops.tables_s
        with self._lock:
            self._keepers[place.name] = keeper
        if rested is None and self.config.loops.quiet_s:
            keeper.take_mark()
        for name, (interval_s, run) in keeper.loops().items():
            pool = Pool.MERGE if name == COMPACT else Pool.CARE
            self.loops.add(
                Loop(
                    table=place.name,
                    name=name,
                    url=place.bucket.url,
                    interval_s=interval_s,
                    run=run,
                    pool=pool,
                )
            )
        return self.config.loops.tables_s

    def _still_there(self, keeper: Keeper) -> float:
        """Drop the table if it no longer exists: its folder may remain, and another table may be
        created in it."""
        if not keeper.there():
            self._let_go(keeper.name)
        return self.config.loops.tables_s

    def watch(self) -> float:
        """Look at the resting tables that are due."""
        self._watch.turn()
        return self._watch_s

    @property
    def _watch_s(self) -> float:
        """How often resting tables are looked for that are due."""
        return min(self.config.loops.tables_s, self.config.loops.compact_s)

    def _round_ended(self, keeper: Keeper) -> None:
        """All passes of a table have run: it may rest, or they run again."""
        if not self.config.loops.quiet_s or self._stopping.is_set():
            return
        resting = keeper.try_to_rest(hurry=lambda: self.loops.hurry(keeper.name))
        if resting is None:
            return
        with self._lock:
            if self._keepers.get(keeper.name) is not keeper:
                return
            del self._keepers[keeper.name]
        self.loops.drop(keeper.name)
        self.ledger.rests(keeper.name, WATCH, self.config.loops.quiet_s)
        self._watch.add(resting)
        self._close(keeper)
        _logger.debug("the table rests until it changes")

    def _wake(self, resting: Resting) -> None:
        """Run the passes of a resting table again."""
        self.ledger.wakes(resting.place.name)
        self._opens(resting.place, resting)

    def _close(self, keeper: Keeper) -> None:
        try:
            keeper.close()
        except (BlockstoreError, OSError) as error:
            _logger.warning("could not write the cache of %s: %s", keeper.name, error)

    def _let_go(self, name: str) -> None:
        with about(table=name):
            _logger.warning("the table is gone or no longer visible: the process drops it")
        self.loops.drop(name)
        self._watch.drop(name)
        self.ledger.drop(name)
        with self._lock:
            self._keepers.pop(name, None)

    def open(self, table: str) -> Table:
        """The handle on a table of this process. Raises NotFound."""
        with self._lock:
            keeper = self._keepers.get(table)
        resting = self._watch.get(table)
        if keeper is None and resting is not None:
            return Table.open_bucket(resting.place.bucket, self.world, discovery=None, dropped=True)
        if keeper is None:
            known = ", ".join(sorted(self._keepers)) or "none yet"
            raise NotFound(f"this process has no table {table!r}; its tables: {known}")
        return keeper.table

    # --- status ---

    def status(self) -> Status:
        """The state of the process now. Sends no request."""
        now_ms, now_s = self.world.clock.now_ms(), self.world.clock.monotonic_s()
        tables = tuple(self._with_progress(table) for table in self.ledger.tables())
        lake = self.ledger.lake_loops()
        idle_s = self._idle_s(tables)
        ready_age_s = self.config.loops.ready_age_s
        return Status(
            url=self.lake.bucket.url,
            program=f"blockstore {version('blocklake')}",
            started_ms=self._started_ms,
            started_s=self._started_s,
            now_ms=now_ms,
            now_s=now_s,
            role=COMPACTOR if self.shard is None else self.shard.role,
            shard=None if self.shard is None else (self.shard.number, self.shard.count),
            merges=self.config.loops.merge or self.shard is not None,
            stopping=self._stopping.is_set(),
            not_ready=(
                *self._ending(),
                *not_ready(lake, tables, now_s=now_s, ready_age_s=ready_age_s, idle_s=idle_s),
            ),
            unhealthy=(
                *self._dead(),
                *stuck(ready_age_s=ready_age_s, idle_s=self._idle_s(tables, here=True)),
            ),
            loops=lake,
            tables=tables,
            gone=self.ledger.gone,
            month_cost=self.month_cost(),
        )

    def _ending(self) -> tuple[str, ...]:
        if self.fatal is not None:
            return (f"the process ends: {self.fatal}",)
        return ("the process is stopping",) if self._stopping.is_set() else ()

    def _dead(self) -> tuple[str, ...]:
        if self.fatal is not None:
            return (f"the process ends: {self.fatal}",)
        if not self.loops.alive and not self._stopping.is_set():
            return ("the loops are not running",)
        return ()

    def _idle_s(self, tables: Iterable[TableStatus], *, here: bool = False) -> float | None:
        """The longest time without progress of a running merge; with ``here`` only of merges whose
        bytes pass through this process."""
        with self._lock:
            keepers = list(self._keepers.items())
        running = {table.name for table in tables if table.running}
        monitors = [keeper.monitor for name, keeper in keepers if name in running]
        return max((one.idle_s() for one in monitors if not (here and one.remote)), default=None)

    def _with_progress(self, table: TableStatus) -> TableStatus:
        """The table, with the requests to its boundary and the progress of its running jobs."""
        with self._lock:
            keeper = self._keepers.get(table.name)
        if keeper is None:
            return table
        if keeper.table.indexed:
            table = replace(table, boundary_requests=keeper.table.log.boundary.counts)
        if not table.running:
            return table
        now_ms = self.world.clock.now_ms()
        monitor = keeper.monitor
        return replace(
            table,
            running=tuple(
                _progressed(job, monitor.share(job.bytes), now_ms) for job in table.running
            ),
            idle_s=0.0 if monitor.remote else monitor.idle_s(),
        )


def _progressed(job: JobStatus, share: float, now_ms: int) -> JobStatus:
    seconds = max(0.001, (now_ms - (job.started_ms or now_ms)) / 1000)
    return replace(job, progress=share, seconds=seconds, rows_per_s=share * job.rows / seconds)

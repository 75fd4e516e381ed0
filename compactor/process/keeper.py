"""One table in the process: its handle, its role, and what each loop does for it.

Rules:
- The loops are thin: every step is one of the passes that the verbs run by hand.
- The handle is shared, and every pass takes a snapshot of its own. No pass waits for another or
  fails because of another.
- On a table with an index the role is claimed once, when the table is found. A process that claims
  it later fences this one.
- A shard merges and counts its backlog, and does nothing else.
- The handle belongs to the table that was opened: no pass begins on another table that was created
  under the same name since.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from blockstore.compactor.clean.checkpoints import catch_up
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.due import retention_due_s
from blockstore.compactor.clean.exports import Exporter
from blockstore.compactor.clean.retention import retain
from blockstore.compactor.config import ProcessConfig
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.plan.observe import Observation
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.lake import Place
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.merge_loop import MergeLoop
from blockstore.compactor.process.resting import (
    NOW,
    Due,
    Resting,
    fingerprint,
    rests_until,
)
from blockstore.compactor.process.round import Round
from blockstore.compactor.run.monitor import MonitoredBucket
from blockstore.compactor.run.quarantine import DamageMarks, found_by_cleaning
from blockstore.errors import BlockstoreError, Conflict, NotFound
from blockstore.export.formats import FORMATS
from blockstore.index.epochs import COMPACTOR, Held, check_held, claim, still_held
from blockstore.index.gc import collect
from blockstore.index.presence import exists
from blockstore.index.state import State
from blockstore.operations.place import whole_block
from blockstore.table import Table
from blockstore.world import World

_logger = logging.getLogger(__name__)

COMPACT, CLEAN, RETENTION, INDEX, BACKLOG = "compact", "clean", "retention", "index", "backlog"
EXPORT = "export"


class Keeper:
    """The handle, the role and the passes of one table."""

    def __init__(
        self,
        place: Place,
        world: World,
        config: ProcessConfig,
        ledger: Ledger,
        engine: MergeEngine,
        *,
        shard: Shard | None = None,
        stopping: threading.Event,
        abandon: threading.Event,
        rested: Resting | None = None,
        on_round: Callable[[Keeper], None] = lambda keeper: None,
    ) -> None:
        """Open the table and claim the role, or, after a rest, keep it.

        ``on_round`` is called when all passes have run. Raises what opening and claiming raise;
        Fenced if the role was claimed during the rest, NotFound if another table is there now.
        """
        self.place = place
        self.name = place.name
        self._schedule = config.loops
        self._ledger = ledger
        self._shard = shard
        self.monitor = MonitoredBucket(place.bucket, world.clock, abandon)
        self.table = Table.open_bucket(
            self.monitor,
            world,
            discovery=None,
            cache=_cache(config.loops.cache, place.bucket.url),
            dropped=True,
        )
        self.held = self._claim() if rested is None else self._still_held(rested)
        settings = config.of_table(place.name)
        self._skip = settings.skip
        self._cleaner = (
            None
            if shard
            else Cleaner(
                self.table, self.held, skip=self._skip, objects_per_s=config.loops.objects_per_s
            )
        )
        self._exporters = [Exporter(self.table, FORMATS[name]) for name in settings.export]
        self._marked = DamageMarks(self.table.bucket)
        self._merging = MergeLoop(
            name=place.name,
            table=self.table,
            monitor=self.monitor,
            held=self.held,
            settings=settings,
            engine=engine,
            ledger=ledger,
            interval_s=config.loops.compact_s,
            shard=shard,
            stopping=stopping.is_set,
        )
        self._rested = rested
        self._on_round = on_round
        self._dues: dict[str, Due] = {}
        self._settling = threading.Lock()
        self.round = Round(
            self._passes(),
            mark=None if rested is None else rested.mark,
            hurried_s=() if rested is None else rested.hurried_s,
        )

    def loops(self) -> Mapping[str, tuple[float, Callable[[], float]]]:
        """The loops of this table: the interval of each, and one run, which returns the seconds
        until the next."""
        passes = self._passes().items()
        return {name: (every_s, self._of_this(name, run)) for name, (every_s, run) in passes}

    def _passes(self) -> dict[str, tuple[float, Callable[[], float]]]:
        schedule = self._schedule
        loops: dict[str, tuple[float, Callable[[], float]]] = {
            BACKLOG: (schedule.backlog_s, self.backlog)
        }
        if schedule.merge or self._shard is not None:
            loops[COMPACT] = (schedule.compact_s, self.compact)
        if self._shard is None:
            loops[CLEAN] = (schedule.clean_s, self.clean)
            loops[RETENTION] = (schedule.retention_s, self.retention)
            if self.table.indexed:
                loops[INDEX] = (schedule.index_s, self.index)
            if self._exporters and self.table.indexed:
                loops[EXPORT] = (schedule.export_s, self.export)
        return loops

    def there(self) -> bool:
        """Whether the table that was opened still exists under its name."""
        return self._same() and (self.table.indexed or whole_block(self.table.bucket) is not None)

    def _same(self) -> bool:
        """The same, except that a table without an index may be gone: nothing can be harmed then.

        Costs one or two small requests.
        """
        table = self.table
        if not table.indexed:
            return not exists(table.bucket)
        return not table.log.replaced and table.log.is_same(table.log.state)

    def _of_this(self, name: str, run: Callable[[], float]) -> Callable[[], float]:
        """A pass that first checks that it is still the same table, and is counted in the round."""

        def checked() -> float:
            if not self._same():
                raise Conflict(
                    f"the table at {self.table.url} is gone, or another one has its name: it is "
                    "opened again"
                )
            return run()

        def counted() -> float:
            self.round.started(name)
            try:
                next_s = checked()
            except BaseException:
                self.round.failed(name)
                raise
            self.round.ended(name, self._dues.get(name, NOW))
            if self.round.complete:
                self._on_round(self)
            return next_s

        return counted

    def take_mark(self) -> None:
        """List the folder before the first passes, so that one round of them may be enough."""
        self.round.again(self._fingerprint())

    def try_to_rest(self, hurry: Callable[[], None]) -> Resting | None:
        """What to keep of the table if it may rest; else another round begins, and ``hurry`` is
        called if that need not wait."""
        with self._settling:
            if not self.round.complete:
                return None
            before = self.round.mark
            mark = None if self.round.restless else self._fingerprint()
            if mark is not None and mark == before and self.round.complete:
                return self._resting(mark)
            self.round.again(mark)
        if self.round.may_hurry(self.table.world.clock.monotonic_s()):
            hurry()
        return None

    def _fingerprint(self) -> bytes | None:
        """Of the table's whole folder, a LIST page for each thousand objects; None if the store
        does not respond."""
        try:
            return fingerprint(self.table.bucket.list())
        except (BlockstoreError, OSError) as error:
            _logger.warning("the table was not listed, and does not rest: %s", error)
            return None

    def _resting(self, mark: bytes) -> Resting:
        clock, longest_s = self.table.world.clock, self._schedule.quiet_s
        state, now_s = self.table.log.state, clock.monotonic_s()
        before = self._rested
        if before is not None and before.mark == mark:
            wait_s = before.wait_s
        else:
            wait_s = min(self._schedule.compact_s, longest_s)
        due_s = rests_until(now_s, self.round.due, longest_s=longest_s)
        return Resting(
            place=self.place,
            held=self.held,
            version=state.version,
            last=state.last,
            hurried_s=self.round.hurried_s,
            mark=mark,
            wait_s=wait_s,
            look_s=min(now_s + wait_s, due_s),
            due_s=due_s,
        )

    def _still_held(self, rested: Resting) -> Held | None:
        """The role from before the rest. Raises Fenced if another process has claimed it since,
        NotFound if the table is another one."""
        if not self.table.indexed:
            raise NotFound(f"the table at {self.table.url} has lost its index: it is opened again")
        log, held = self.table.log, rested.held
        if held is not None and still_held(log.state, held):
            return held
        before = replace(State.EMPTY, version=rested.version, last=rested.last)
        collected = log.boundary.read() >= rested.version
        if held is None or not (collected or log.is_same(before)):
            raise NotFound(f"another table is at {self.table.url} now: it is opened again")
        check_held(log.state, held)
        return held

    def compact(self) -> float:
        """Do one merge."""
        next_s = self._merging.turn()
        self._dues[COMPACT] = NOW if next_s == 0.0 or self._merging.pending else None
        return next_s

    def clean(self) -> float:
        """Publish aged blocks, raise the watermarks, mark and remove.

        Raises AccessDenied where the pass may not mark or remove, after what it did is counted: a
        person must grant the rights.
        """
        assert self._cleaner is not None, "a shard does not clean"
        cleaned = self._cleaner.run()
        self._ledger.count(
            self.name,
            discovered=len(cleaned.discovered),
            marked=len(cleaned.marked),
            withdrawn=len(cleaned.withdrawn),
            removed=len(cleaned.removed),
            removed_objects=cleaned.objects + cleaned.files.objects,
            removed_bytes=cleaned.bytes + cleaned.files.bytes,
        )
        self._ledger.quarantined(self.name, CLEAN, found_by_cleaning(cleaned, self.table.url))
        waiting, kept, kept_bytes = len(cleaned.waiting), len(cleaned.kept), cleaned.kept_bytes
        self._ledger.note(
            self.name,
            lambda status: replace(status, waiting=waiting, kept=kept, kept_bytes=kept_bytes),
        )
        for ulid, why in cleaned.failed.items():
            _logger.warning("block %s was not cleaned: %s", ulid, why, extra={"block": ulid})
        for file, why in cleaned.files.failed.items():
            _logger.warning("file %s was not cleaned: %s", file, why)
        if cleaned.files.undecided is not None:
            _logger.warning("no file was marked or removed: %s", cleaned.files.undecided)
        if cleaned.changed:
            _logger.info(
                "cleaned: %s published, %s marked, %s withdrawn, %s removed",
                len(cleaned.discovered),
                len(cleaned.marked),
                len(cleaned.withdrawn),
                len(cleaned.removed),
            )
        if cleaned.denied is not None:
            raise cleaned.denied
        undone = cleaned.failed or cleaned.dropped or cleaned.files.failed
        self._dues[CLEAN] = NOW if undone else cleaned.due_s
        return self._schedule.clean_s

    def retention(self) -> float:
        """Expire what is older than the table's retention."""
        retained = retain(
            self.table, self.held, skip=self._skip, objects_per_s=self._schedule.objects_per_s
        )
        self._ledger.count(self.name, retired=len(retained.blocks))
        for ulid, why in retained.failed.items():
            _logger.warning("block %s was not expired: %s", ulid, why, extra={"block": ulid})
        if retained.blocks:
            _logger.info(
                "retention expired %s blocks",
                len(retained.blocks),
                extra={"version": retained.version},
            )
        self._dues[RETENTION] = NOW if retained.failed else self._retention_due_s()
        return self._schedule.retention_s

    def _retention_due_s(self) -> Due:
        if not self.table.indexed:
            return NOW
        return retention_due_s(self.table.log.state, self.table.bucket.now_ms())

    def index(self) -> float:
        """Collect old entries and checkpoints, and write a checkpoint that is missing."""
        collected = collect(self.table.log, self.table.world, held=self.held)
        written = (collected.checkpoint is not None) + (catch_up(self.table.log) is not None)
        self._ledger.count(
            self.name,
            collected_entries=collected.entries,
            collected_checkpoints=collected.checkpoints,
            written_checkpoints=written,
        )
        self._ledger.note(self.name, lambda status: replace(status, boundary=collected.boundary))
        self._dues[INDEX] = collected.due_s
        return self._schedule.index_s

    def export(self) -> float:
        """Write metadata for other engines, and remove what no longer counts of it."""
        for exporter in self._exporters:
            done = exporter.run()
            self._ledger.count(self.name, exports=done.written > 0, removed_objects=done.removed)
        now_s = self.table.world.clock.monotonic_s()
        self._ledger.note(self.name, lambda status: replace(status, exported_s=now_s))
        self._dues[EXPORT] = NOW if any(one.pending for one in self._exporters) else None
        return self._schedule.export_s

    def backlog(self) -> float:
        """Count the blocks, the planned merges and the blocks in quarantine."""
        seen, jobs = self._merging.look()
        self._merging.show(jobs)
        self._count(seen)
        found = self._marked.look(seen.candidates.marked, self._merging.damaged, self.table.url)
        self._ledger.quarantined(self.name, COMPACT, found)
        if COMPACT in self._passes():
            self._dues[BACKLOG] = NOW if jobs else self._merging.due_s(seen)
        else:
            self._dues[BACKLOG] = None  # others merge, and what they do is seen
        return self._schedule.backlog_s

    def _count(self, seen: Observation) -> None:
        table = self.table
        if table.indexed:
            state = table.log.state
            totals = state.blocks.totals()
            blocks, rows, size = len(state.blocks), totals.rows, totals.bytes
            horizon, floor, boundary = state.horizon, state.floor, table.log.boundary.read()
        else:
            metas = [one.meta for one in seen.inputs.values()]
            blocks, rows, size = (
                len(metas),
                sum(one.rows for one in metas),
                sum(one.bytes for one in metas),
            )
            horizon = floor = boundary = None
        self._ledger.note(
            self.name,
            lambda status: replace(
                status,
                indexed=table.indexed,
                version=seen.version,
                boundary=boundary,
                horizon=horizon,
                floor=floor,
                blocks=blocks,
                rows=rows,
                bytes=size,
                read_amplification=seen.read_amplification,
                seen_ms=table.world.clock.now_ms(),
            ),
        )

    def _claim(self) -> Held | None:
        if not self.table.indexed:
            return None
        role = COMPACTOR if self._shard is None else self._shard.role
        held = claim(self.table.log, self.table.world, role)
        _logger.info("holds the role %s as its epoch %s", role, held.epoch[0])
        return held

    def close(self) -> None:
        """Save the cache. The role stays until another process claims it."""
        self.table.catalog.save()


def _cache(folder: Path | None, url: str) -> Path | None:
    """The cache file of one table; None where the folder cannot be created."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _warn_once(folder, str(error))
        return None
    return folder / f"catalog-{sha256(url.encode()).hexdigest()[:16]}"


@cache
def _warn_once(folder: Path, problem: str) -> None:
    """Warn once per process: all its tables share the folder."""
    _logger.warning(
        "cannot create the cache folder %s (%s): tables are opened without a cache; make it "
        "writable, or change cache in [loops], and restart",
        folder,
        problem,
    )

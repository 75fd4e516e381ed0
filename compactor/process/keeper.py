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

import pyarrow.compute as pc

from blockstore.compactor.clean.checkpoints import catch_up
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.exports import Exporter
from blockstore.compactor.clean.retention import retain
from blockstore.compactor.config import ProcessConfig
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.plan.observe import Observation
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.lake import Place
from blockstore.compactor.process.ledger import Ledger
from blockstore.compactor.process.merge_loop import MergeLoop
from blockstore.compactor.run.monitor import MonitoredBucket
from blockstore.compactor.run.quarantine import DamageMarks, found_by_cleaning
from blockstore.errors import Conflict
from blockstore.export.formats import FORMATS
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import collect
from blockstore.index.presence import exists
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
    ) -> None:
        """Open the table and claim the role. Raises what opening and claiming raise."""
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
        self.held = self._claim()
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

    def loops(self) -> Mapping[str, tuple[float, Callable[[], float]]]:
        """The loops of this table: the interval of each, and one run, which returns the seconds
        until the next."""
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
        return {name: (interval_s, self._of_this(run)) for name, (interval_s, run) in loops.items()}

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

    def _of_this(self, run: Callable[[], float]) -> Callable[[], float]:
        """A pass that first checks that it is still the same table."""

        def checked() -> float:
            if not self._same():
                raise Conflict(
                    f"the table at {self.table.url} is gone, or another one has its name: it is "
                    "opened again"
                )
            return run()

        return checked

    def compact(self) -> float:
        """Do one merge."""
        return self._merging.turn()

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
        return self._schedule.retention_s

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
        return self._schedule.index_s

    def export(self) -> float:
        """Write metadata for other engines, and remove what no longer counts of it."""
        for exporter in self._exporters:
            done = exporter.run()
            self._ledger.count(self.name, exports=done.written > 0, removed_objects=done.removed)
        now_s = self.table.world.clock.monotonic_s()
        self._ledger.note(self.name, lambda status: replace(status, exported_s=now_s))
        return self._schedule.export_s

    def backlog(self) -> float:
        """Count the blocks, the planned merges and the blocks in quarantine."""
        seen, jobs = self._merging.look()
        self._merging.show(jobs)
        self._count(seen)
        marked = {block.ulid for block in seen.candidates if block.no_compact}
        found = self._marked.look(marked, self._merging.damaged, self.table.url)
        self._ledger.quarantined(self.name, COMPACT, found)
        return self._schedule.backlog_s

    def _count(self, seen: Observation) -> None:
        table = self.table
        if table.indexed:
            state = table.log.state
            frame = state.blocks.table()
            blocks, rows, size = (
                frame.num_rows,
                pc.sum(frame["rows"]).as_py(),
                pc.sum(frame["bytes"]).as_py(),
            )
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
                rows=rows or 0,
                bytes=size or 0,
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

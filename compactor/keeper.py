"""One table in the process: its handle, its role, and what each loop does for it. The loops are
thin: every step is one of the passes that the verbs run by hand.

Rules:
- The handle is shared and every pass takes a snapshot of its own; no pass waits for another, and
  none fails for another.
- On a table with an index the role is claimed once, when the table is found; whoever claims it
  later fences this process.
- A shard merges and counts its backlog, and does nothing else.
- The handle is of the table that was opened: no pass begins on another one that was made under its
  name since.
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

from blockstore.compactor.checkpoints import catch_up
from blockstore.compactor.clean import Cleaner
from blockstore.compactor.config import ProcessConfig
from blockstore.compactor.lake import Place
from blockstore.compactor.ledger import Ledger
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.merging import Merging
from blockstore.compactor.observe import Observation
from blockstore.compactor.quarantined import MarkedMalformed, found_by_cleaning
from blockstore.compactor.retention import retain
from blockstore.compactor.shards import Shard
from blockstore.compactor.watched import Watched
from blockstore.errors import Conflict
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import collect
from blockstore.index.log import exists
from blockstore.operations.place import whole_block
from blockstore.table import Table
from blockstore.world import World

__all__ = ["BACKLOG", "CLEAN", "COMPACT", "INDEX", "RETENTION", "Keeper"]

_logger = logging.getLogger(__name__)

COMPACT, CLEAN, RETENTION, INDEX, BACKLOG = "compact", "clean", "retention", "index", "backlog"


class Keeper:
    """Looks after one table."""

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
        self.watched = Watched(place.bucket, world.clock, abandon)
        self.table = Table.open_bucket(
            self.watched, world, discovery=None, cache=_cache(config.loops.cache, place.bucket.url)
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
        self._marked = MarkedMalformed(self.table.bucket)
        self._merging = Merging(
            name=place.name,
            table=self.table,
            watched=self.watched,
            held=self.held,
            settings=settings,
            engine=engine,
            ledger=ledger,
            interval_s=config.loops.compact_s,
            shard=shard,
            stopping=stopping.is_set,
        )

    def loops(self) -> Mapping[str, tuple[float, Callable[[], float]]]:
        """The loops of this table: how often, and one run, which answers when the next is due."""
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
        return {name: (interval_s, self._of_this(run)) for name, (interval_s, run) in loops.items()}

    def there(self) -> bool:
        """Whether the table that was opened is still there, and no other was made under its
        name."""
        return self._same() and (self.table.indexed or whole_block(self.table.bucket) is not None)

    def _same(self) -> bool:
        """The same, but that a table without an index may be gone: then there is nothing to harm.

        A small request or two.
        """
        table = self.table
        if not table.indexed:
            return not exists(table.bucket)
        return not table.log.replaced and table.log.is_same(table.log.state)

    def _of_this(self, run: Callable[[], float]) -> Callable[[], float]:
        """A pass that first looks whether it is still the same table."""

        def checked() -> float:
            if not self._same():
                raise Conflict(
                    f"the table at {self.table.url} is gone, or another one was made under its "
                    "name: it is opened anew"
                )
            return run()

        return checked

    def compact(self) -> float:
        """Merge: one job."""
        return self._merging.turn()

    def clean(self) -> float:
        """Publish aged blocks, raise the watermarks, mark and remove.

        Raises AccessDenied where the pass may not mark or remove, after what it did is counted:
        nothing goes until a person has looked.
        """
        assert self._cleaner is not None, "a shard does not clean"
        cleaned = self._cleaner.run()
        self._ledger.count(
            self.name,
            discovered=len(cleaned.discovered),
            marked=len(cleaned.marked),
            withdrawn=len(cleaned.withdrawn),
            removed=len(cleaned.removed),
            removed_objects=cleaned.objects,
            removed_bytes=cleaned.bytes,
        )
        self._ledger.quarantined(self.name, CLEAN, found_by_cleaning(cleaned, self.table.url))
        waiting, kept, kept_bytes = len(cleaned.waiting), len(cleaned.kept), cleaned.kept_bytes
        self._ledger.note(
            self.name,
            lambda status: replace(status, waiting=waiting, kept=kept, kept_bytes=kept_bytes),
        )
        for ulid, why in cleaned.failed.items():
            _logger.warning("block %s was not cleaned: %s", ulid, why, extra={"block": ulid})
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
        """Take out what is older than the table's retention."""
        retained = retain(
            self.table, self.held, skip=self._skip, objects_per_s=self._schedule.objects_per_s
        )
        self._ledger.count(self.name, retired=len(retained.blocks))
        for ulid, why in retained.failed.items():
            _logger.warning("block %s was not taken out: %s", ulid, why, extra={"block": ulid})
        if retained.blocks:
            _logger.info(
                "retention took %s blocks out",
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

    def backlog(self) -> float:
        """Count what there is and what waits."""
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
        """Let go of what was read; the role stays until another process claims it."""
        self.table.catalog.save()


def _cache(folder: Path | None, url: str) -> Path | None:
    """The cache file of one table;

    None where there can be none, for a table is worth more than its cache.
    """
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
    """Once a process: the folder is that of all its tables."""
    _logger.warning(
        "the cache folder %s cannot be made (%s): tables are opened without it; make it writable, "
        "or change cache in [loops], "
        "and restart",
        folder,
        problem,
    )

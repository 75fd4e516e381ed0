"""A table in memory that lives through appends, merges and collection, for tests of who follows
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.compactor.merge import MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.result import merged_block
from blockstore.compactor.run.change import Compact
from blockstore.format import Properties, VisibleBy
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.blocks import Blocks
from blockstore.index.gc import collect
from blockstore.lifecycle.upload import finish_upload
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.spark.streaming.follower import Window
from blockstore.table import Table
from blockstore.world import World

__all__ = ["Followed"]

HOUR_MS = 3_600_000


@dataclass
class Followed:
    """The table, and what was appended to it."""

    folder: Path
    world: World = field(default_factory=World.manual)
    written: list[int] = field(default_factory=list)
    bucket: MemoryBucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = MemoryBucket(self.world.clock)
        self.remake()

    def remake(self) -> None:
        """Delete the table, if there is one, and make it anew."""
        self.bucket.delete([one.key for one in self.bucket.list("")])
        definition = Definition.create(
            pa.schema([("id", pa.int64())]), sort_by=["id"], properties=Properties.parse({})
        )
        index_log.create(self.bucket, self.world, definition)

    def open(self) -> Table:
        return Table.open_bucket(self.bucket, self.world)

    def append(self, rows: int = 1, labels: Mapping[str, str] | None = None) -> int:
        """Append a block of so many rows; answers its version."""
        ids = list(range(len(self.written), len(self.written) + rows))
        self.written += ids
        version = self.open().append(pa.table({"id": ids}), labels=labels).version
        assert version is not None
        return version

    def merge(self) -> None:
        """Merge all live blocks into one, as the compactor does."""
        table = self.open()
        state = table.log.state
        inputs = tuple(
            MergeInput(meta=block.meta, excepted=block.excepted) for block in state.blocks
        )
        if len(inputs) < 2:
            return
        task = MergeTask(ulid=self.world.ids.ulid(), inputs=inputs, definition=state.definition)
        options = MergeOptions(memory_bytes=1 << 22, work_dir=self.folder)
        merged = LocalEngine().merge(self.bucket, self.world, task, options)
        block = finish_upload(
            self.bucket, self.world, merged_block(task, merged, visible_by=VisibleBy.INDEX)
        )
        read = {one.meta.ulid: one.excepted for one in inputs}
        table.log.commit(
            Compact(
                commit=self.world.ids.ulid(), block=block, read=read, read_version=state.version
            )
        )

    def collect(self, hours: int = 100) -> int:
        """Let time pass and the index be collected; answers the boundary."""
        clock = self.world.clock
        assert isinstance(clock, ManualClock)
        clock.advance(hours * 3600)
        log = self.open().log
        collect(log, self.world)
        return log.boundary.read()

    def ids(
        self, window: Window, labels: tuple[str, ...] = (), where: str | None = None
    ) -> list[Any]:
        """The rows of a window, block by block."""
        definition = self.open().definition
        found: list[Any] = []
        for block in window.blocks:
            snapshot = Snapshot(
                definition=definition, version=block.version, blocks=Blocks.of([block])
            )
            plan = plan_scan(snapshot, columns=["id"], where=where, labels=labels)
            found += read_plan(self.bucket, plan, self.world).read_all()["id"].to_pylist()
        return found

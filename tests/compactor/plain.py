"""A table without an index in memory, with blocks of two chunks: what compaction on the list path
acts on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge import MergeOptions
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.jobs import PlannedJob, Reason
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.run.execute import Executor
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import JobResult, Report
from blockstore.compactor.settings import Settings
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.lifecycle.catalog import Catalog
from blockstore.names import META
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

__all__ = [
    "DEFINITION",
    "DELETE_S",
    "SCHEMA",
    "SYNC_S",
    "Plain",
    "Rows",
    "merged_twice",
    "overlapping",
    "plain",
]

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
DEFINITION = Definition.create(SCHEMA, sort_by=["row"])
SYNC_S = 15 * 60 + 1
DELETE_S = 48 * 3600 + 1
Rows = Counter[tuple[str, int]]


@dataclass
class Plain:
    """The table, and the rows that must be read from it once all blocks have aged."""

    work_dir: Path
    world: World = field(default_factory=lambda: World.manual(seed=1))
    expected: Rows = field(default_factory=Counter)
    bucket: MemoryBucket = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)

    def copy(self) -> Plain:
        """The same table at the same time, in a bucket and a world of its own."""
        world = World.manual(seed=2, now_ms=self.world.clock.now_ms())
        bucket = MemoryBucket(world.clock)
        # Ages are part of the table: objects keep their times.
        bucket._contents.objects = dict(self.bucket._contents.objects)
        bucket._contents.keys = list(self.bucket._contents.keys)
        return Plain(self.work_dir, world, self.expected.copy(), bucket)

    def open(self, bucket: Bucket | None = None, *, seed: int | None = None) -> Table:
        """A handle; with a ``seed``, of a process with identifiers of its own."""
        clock = self.world.clock
        world = self.world if seed is None else replace(self.world, ids=Ids.seeded(clock, seed))
        return Table(bucket or self.bucket, world, Unindexed(DEFINITION, given=True))

    def append(self, writer: str, count: int = 4, **options: object) -> str:
        data = pa.table({"writer": [writer] * count, "row": list(range(count))}, schema=SCHEMA)
        ulid = self.open().append(data, **options).ulid  # type: ignore[arg-type]
        assert ulid is not None
        self.expected.update((writer, row) for row in range(count))
        return ulid

    def settings(self, **options: object) -> Settings:
        return Settings(tier_blocks=2, work_dir=self.work_dir, **options)  # type: ignore[arg-type]

    def compact(self, bucket: Bucket | None = None, *, seed: int | None = None) -> Report:
        return compact_once(self.open(bucket, seed=seed), self.settings())

    def merge(
        self, ulids: Iterable[str], bucket: Bucket | None = None, *, seed: int | None = None
    ) -> JobResult:
        """Merge just these blocks, as a compactor does that has seen no others."""
        table = self.open(bucket, seed=seed)
        seen = observe(table)
        inputs = tuple(block for block in seen.candidates if block.ulid in set(ulids))
        job = PlannedJob(
            reason=Reason.SIZE, details="asked for", stream=inputs[0].stream, inputs=inputs
        )
        options = MergeOptions(work_dir=self.work_dir)
        return Executor(table=table, engine=LocalEngine(), options=options).run(job, seen)

    def found(self, table: Table | None = None) -> Rows:
        data = (table or self.open()).snapshot(strict=True).scan().to_table()
        return Counter(zip(data["writer"].to_pylist(), data["row"].to_pylist(), strict=True))

    def metas(self) -> dict[str, BlockMeta]:
        """Every complete block."""
        found = Catalog(self.bucket, self.world).sync().found
        return {ulid: one.meta for ulid, one in found.items() if one.meta is not None}

    def merges(self) -> list[BlockMeta]:
        return [meta for meta in self.metas().values() if meta.level > 1]

    def age(self, seconds: float = SYNC_S) -> None:
        self.world.clock.sleep(seconds)


def plain(work_dir: Path, *writers: str) -> Plain:
    """A table of one aged block a writer."""
    made = Plain(work_dir)
    for writer in writers:
        made.append(writer)
        made.world.clock.sleep(1)
    made.age()
    return made


def merged_twice(work_dir: Path) -> Plain:
    """Merges of {a, b} and of {b, c} by compactors that did not see each other; all aged, nothing
    marked."""
    made = plain(work_dir, "a", "b", "c")
    ulids = sorted(made.metas())
    faulty = FaultyBucket(made.bucket)
    waiting = [True]

    def overtake(call: Call) -> None:
        if call.method == "put" and call.key.endswith(f"/{META}") and waiting:
            waiting.clear()
            made.merge(ulids[:2], seed=5)

    faulty.before.append(overtake)
    made.merge(ulids[1:], faulty, seed=6)
    assert [len(meta.sources) for meta in made.merges()] == [2, 2]
    made.age()
    return made


def overlapping(work_dir: Path) -> Plain:
    """The same without a, b and c themselves, as after a cleaning that saw one merge alone: the
    other is read in part."""
    made = merged_twice(work_dir)
    singles = [ulid for ulid, meta in made.metas().items() if meta.level == 1]
    made.bucket.delete([found.key for ulid in singles for found in made.bucket.list(ulid)])
    return made

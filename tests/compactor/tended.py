"""A lake in memory and processes that manage it; a test runs their loops one by one in its own
thread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.compactor.config import ProcessConfig, Schedule
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.ledger import LAKE
from blockstore.compactor.process.loops import Loop
from blockstore.compactor.process.process import OPEN, TABLES, Process
from blockstore.compactor.process.status import TableStatus
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.ids import Ids
from blockstore.index import log as index_log
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
SCHEDULE = Schedule(objects_per_s=1e6, quiet_s=0.0)
Rows = Counter[tuple[str, int]]


@dataclass
class Tended:
    """A lake, its clock, and what must be read from each of its tables."""

    work_dir: Path
    world: World = field(default_factory=lambda: World.manual(seed=3))
    bucket: MemoryBucket = None  # type: ignore[assignment]
    expected: dict[str, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bucket = MemoryBucket(self.world.clock)

    def create(self, name: str, *, indexed: bool = True, **properties: object) -> None:
        self.expected[name] = Counter()
        if indexed:
            definition = Definition.create(
                SCHEMA, sort_by=["row"], properties=Properties.parse(properties)
            )
            index_log.create(self.place(name), self.world, definition)

    def place(self, name: str) -> Bucket:
        return Prefixed(self.bucket, name)

    def table(self, name: str) -> Table:
        return Table.open_bucket(self.place(name), self.world)

    def bare(self, name: str) -> Table:
        """A table without an index."""
        definition = Definition.create(SCHEMA, sort_by=["row"])
        return Table(self.place(name), self.world, Unindexed(definition, given=True))

    def append(self, name: str, writer: str, table: Table | None = None, **options: object) -> str:
        rows = pa.table({"writer": [writer] * 3, "row": [0, 1, 2]}, schema=SCHEMA)
        block = (table or self.table(name)).append(rows, **options)  # type: ignore[arg-type]
        self.expected[name] |= Counter({(writer, row): 1 for row in range(3)})
        assert block.ulid is not None
        return block.ulid

    def fill(self, name: str, blocks: int, **options: object) -> list[str]:
        table = self.table(name)
        first = len(self.expected[name])
        return [
            self.append(name, f"w{first + number}", table, **options) for number in range(blocks)
        ]

    def read(self, name: str) -> Rows:
        found = self.table(name).snapshot().scan().to_table()
        return Counter(zip(found["writer"].to_pylist(), found["row"].to_pylist(), strict=True))

    def live(self, name: str) -> list[str]:
        return self.table(name).log.state.blocks.ulids()

    def check(self) -> None:
        for name, expected in self.expected.items():
            assert self.read(name) == expected, name

    def process(self, bucket: Bucket | None = None, **options: object) -> Tending:
        return Tending(self, bucket or self.bucket, **options)  # type: ignore[arg-type]


class Tending(Process):
    """A process whose scheduler is never started."""

    def __init__(
        self,
        lake: Tended,
        bucket: Bucket,
        *,
        settings: Settings | None = None,
        tables: dict[str, dict[str, object]] | None = None,
        loops: Schedule = SCHEDULE,
        engine: MergeEngine | None = None,
        shard: Shard | None = None,
        seed: int = 11,
    ) -> None:
        settings = settings or Settings(
            tier_blocks=2, work_dir=lake.work_dir, memory_bytes=64 << 20, concurrency=1
        )
        world = replace(lake.world, ids=Ids.seeded(lake.world.clock, seed))
        config = ProcessConfig(settings=settings, tables=tables or {}, loops=loops)
        super().__init__(bucket, world, config, engine or LocalEngine(), shard=shard)
        self.loops.add(
            Loop(
                table=LAKE,
                name=TABLES,
                url=bucket.url,
                interval_s=loops.tables_s,
                run=self.find_tables,
            )
        )

    def turn(self, table: str, name: str) -> float | None:
        """One run of one loop; return the seconds until the next."""
        return self.loops.turn(self.loops.of(table)[name])

    def look(self) -> None:
        """Find the tables, and open them."""
        self.turn(LAKE, TABLES)
        for table in self.status().tables:
            if OPEN in self.loops.of(table.name):
                self.turn(table.name, OPEN)

    def round(self) -> None:
        """Run every loop of every table once, and merge until nothing is left to merge now."""
        self.look()
        for table in self.status().tables:
            for name in self.loops.of(table.name):
                if name in self.loops.of(table.name) and name != OPEN:
                    while self.turn(table.name, name) == 0.0:
                        pass

    def of(self, table: str) -> TableStatus:
        return next(one for one in self.status().tables if one.name == table)

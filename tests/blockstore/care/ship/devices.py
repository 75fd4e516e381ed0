"""What the tests of shipping share: a device's folder of finished blocks, and a table to ship to.

A block is built from twelve rows of one writer, in chunks of two, so that each of its files is a
crash point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.ship.build import build_block
from blockstore.care.ship.shipper import Shipper
from blockstore.clock import ManualClock
from blockstore.format.block import BlockMeta
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.index import log as index_log
from blockstore.operations.unindexed import declare
from blockstore.table import Table
from blockstore.world import World

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
DEFINITION = Definition.create(SCHEMA, sort_by=["row"])
ROWS = 4
NOW = 1_700_000_000_000
HOUR = 3600

Rows = Counter[tuple[str, int]]


def rows(writer: str) -> pa.Table:
    return pa.table({"writer": [writer] * ROWS, "row": list(range(ROWS))}, schema=SCHEMA)


def expected(**times: int) -> Rows:
    return Counter({(writer, row): n for writer, n in times.items() for row in range(ROWS) if n})


@contextmanager
def two_chunks() -> Iterator[None]:
    """Blocks of four rows have two chunks: what a writer holds is written after every second
    row."""
    make = BlockWriter.__init__

    def small(self: BlockWriter, *args: object, **options: object) -> None:
        make(self, *args, **{**options, "buffer_bytes": 40})  # type: ignore[arg-type]

    with mock.patch.object(BlockWriter, "__init__", small):
        yield


def world_at(seconds: float, seed: int) -> World:
    """A world whose clock is so many seconds from the store's."""
    clock = ManualClock(NOW + int(seconds * 1000))
    return replace(World.manual(seed=seed), clock=clock, ids=Ids.seeded(clock, seed))


@dataclass
class Device:
    """A folder in memory and the clock of its machine."""

    folder: Bucket
    world: World

    @classmethod
    def new(cls, *, seed: int = 1, off_s: float = 0) -> Device:
        world = world_at(off_s, seed)
        return cls(MemoryBucket(world.clock, "memory://device"), world)

    def build(self, *writers: str) -> list[BlockMeta]:
        built = []
        for writer in writers:
            with two_chunks():
                meta = build_block(self.folder, self.world, DEFINITION, rows(writer))
            assert meta is not None
            assert len(meta.chunks) == 2
            built.append(meta)
            self.world.clock.sleep(1)
        return built

    def shipper(self, target: Bucket, **options: bool) -> Shipper:
        return Shipper(self.folder, target, self.world, **options)


@dataclass
class Place:
    """A table in memory, with an index or without, and the store's own clock."""

    bucket: MemoryBucket
    world: World
    indexed: bool = True

    @classmethod
    def new(cls, *, indexed: bool = True) -> Place:
        world = world_at(0, seed=9)
        bucket = MemoryBucket(world.clock, "memory://table")
        if indexed:
            index_log.create(bucket, world, DEFINITION)
        else:
            declare(bucket, world, DEFINITION)
        return cls(bucket, world, indexed)

    def open(self, discovery: str = "index") -> Table:
        return Table.open_bucket(
            self.bucket, self.world, discovery=discovery if self.indexed else "list"
        )

    def found(self, discovery: str = "index") -> Rows:
        """The rows that a fresh reader sees."""
        return found_in(self.open(discovery))

    def wait(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    def age(self) -> None:
        """Until everything that lies there counts by its age."""
        self.wait(2 * HOUR)


def found_in(table: Table) -> Rows:
    """The rows of a table's newest snapshot."""
    read = table.snapshot().scan().to_table()
    return Counter(zip(read["writer"].to_pylist(), read["row"].to_pylist(), strict=True))


def everywhere(place: Place) -> Rows:
    """The rows that readers see once all is aged; by the index and by listing they may differ only
    until discovery."""
    place.age()
    return place.found("list")


Act = Callable[[], object]

"""Lakes in a folder or in memory that tests fill, break and take away, under a clock that does
not move."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.metered import Metered
from blockstore.reader.tables import Polling, Tables
from blockstore.table import Table, create
from blockstore.world import World
from tests.support.faulty import FaultyBucket

__all__ = ["SCHEMA", "Scene"]

SCHEMA = pa.schema([("n", pa.int64())])


class Scene:
    """A lake, the tables that read it, and what is asked of the store."""

    def __init__(self, url: str, **polling: object) -> None:
        self.world = World.manual(seed=7)
        self.url = url
        self.bucket: Bucket = open_bucket(url, self.world)
        self.meters: list[Metered] = []
        self.faulty: list[FaultyBucket] = []
        self.tables = Tables(
            [url],
            world=self.world,
            polling=Polling(**{"interval_s": 15.0, **polling}),  # type: ignore[arg-type]
            wrap=self._wrap,
        )

    def _wrap(self, bucket: Bucket) -> Bucket:
        self.faulty.append(FaultyBucket(bucket))
        self.meters.append(Metered(self.faulty[-1]))
        return self.meters[-1]

    def create(self, name: str, values: Iterable[int] = ()) -> Table:
        table = create(
            f"{self.url}/{name}?durable=false", schema=SCHEMA, sort_by=["n"], world=self.world
        )
        for value in values:
            self.append(table, value)
        return table

    def append(self, table: Table, value: int) -> None:
        table.append(pa.table({"n": [value]}, schema=SCHEMA))

    def drop(self, name: str) -> None:
        self.bucket.delete([info.key for info in self.bucket.list(f"{name}/")])

    def advance(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    def settle(self) -> int:
        """Let the loop do whatever is due; how much that was."""
        return sum(1 for _ in iter(self.tables.step, False))

    def requests(self) -> int:
        return sum(sum(meter.counts.values()) for meter in self.meters)

    def values(self, name: str) -> list[int]:
        found: list[int] = sorted(self.tables.snapshot(name).scan().to_table()["n"].to_pylist())
        return found

    def values_if_there(self, name: str) -> list[int]:
        """The same, but the old rows of a table whose files are gone are given by what the index
        said of them."""
        snapshot = self.tables.snapshot(name)
        blocks = [block.meta.chunks[0].columns["n"] for block in snapshot.blocks]
        return sorted(int(statistics.min) for statistics in blocks)  # type: ignore[arg-type]

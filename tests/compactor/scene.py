"""A table in memory with blocks of two chunks, an earlier merge and a reverted source: what
compaction tests act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Report
from blockstore.compactor.settings import Settings
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import FaultyBucket

__all__ = ["Hide", "Scene", "small_chunks"]

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
Rows = Counter[tuple[str, int]]


@contextmanager
def small_chunks() -> Iterator[None]:
    """Every writer starts a new chunk after a few rows."""
    make = BlockWriter.__init__

    def small(self: BlockWriter, *args: object, **options: object) -> None:
        tiny = {"buffer_bytes": 26, "row_group_rows": 6, "chunk_size": 26}
        make(self, *args, **{**options, **tiny})  # type: ignore[arg-type]

    with mock.patch.object(BlockWriter, "__init__", small):
        yield


@dataclass(kw_only=True)
class Hide(Change):
    """Except a source in the one live block that holds it: what a revert commits."""

    operation: Operation = Operation.REVERT
    commit: str
    source: str

    def draft(self, state: State) -> Draft:
        holder = next(block.ulid for block in state.blocks if self.source in block.meta.sources)
        return Draft(excepts={holder: (self.source,)})


@dataclass
class Scene:
    """The table, and the rows that must be read from it."""

    work_dir: Path
    world: World = field(default_factory=lambda: World.manual(seed=1))
    expected: Rows = field(default_factory=Counter)
    bucket: MemoryBucket = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)
            index_log.create(self.bucket, self.world, Definition.create(SCHEMA, sort_by=["row"]))

    def copy(self) -> Scene:
        """The same table in a bucket of its own."""
        bucket = MemoryBucket(self.world.clock)
        for found in self.bucket.list():
            bucket.put(found.key, self.bucket.get(found.key).data)
        return Scene(self.work_dir, self.world, self.expected.copy(), bucket)

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def append(self, writer: str, count: int = 4) -> str:
        data = pa.table({"writer": [writer] * count, "row": list(range(count))}, schema=SCHEMA)
        ulid = self.open().append(data).ulid
        assert ulid is not None
        self.expected.update((writer, row) for row in range(count))
        return ulid

    def hide(self, source: str, writer: str) -> None:
        self.open().log.commit(Hide(commit=self.world.ids.ulid(), source=source))
        for key in [key for key in self.expected if key[0] == writer]:
            del self.expected[key]

    def compact(self, bucket: FaultyBucket | None = None) -> Report:
        settings = Settings(tier_blocks=2, work_dir=self.work_dir)
        return compact_once(self.open(bucket), settings)

    def found(self) -> Rows:
        table = self.open().snapshot().scan().to_table()
        return Counter(zip(table["writer"].to_pylist(), table["row"].to_pylist(), strict=True))

    def live(self) -> list[str]:
        return self.open().log.state.blocks.ulids()


def worn(work_dir: Path) -> Scene:
    """Three blocks merged into one, one of their sources reverted, three blocks more."""
    made = Scene(work_dir)
    sources = {writer: made.append(writer) for writer in ("a", "b", "c")}
    made.compact()
    made.hide(sources["b"], "b")
    for writer in ("d", "e", "f"):
        made.append(writer)
    return made

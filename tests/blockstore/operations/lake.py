"""A small table for tests of transactions: rows as plain tuples, blocks of several chunks, merges
on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge import MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.result import merged_block
from blockstore.compactor.run.change import Compact
from blockstore.format.block import Job, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.format.sources import write_sources
from blockstore.index import log as index_log
from blockstore.lifecycle.upload import finish_upload
from blockstore.operations.append import AppendedBlock
from blockstore.table import Table
from blockstore.world import World

__all__ = ["SCHEMA", "Lake", "Row", "Rows", "small_chunks", "table_of"]

SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int64()), ("value", pa.float64())])

Row = tuple[str | None, int | None, float | None]
Rows = Counter[tuple[Row, str]]
"""How often each row of each source is seen."""


@contextmanager
def small_chunks() -> Iterator[None]:
    """Every writer starts a new chunk after a few rows."""
    make = BlockWriter.__init__

    def small(self: BlockWriter, *args: object, **options: object) -> None:
        tiny = {"buffer_bytes": 60, "row_group_rows": 3, "chunk_size": 60}
        make(self, *args, **{**options, **tiny})  # type: ignore[arg-type]

    with mock.patch.object(BlockWriter, "__init__", small):
        yield


def table_of(rows: Iterable[Row]) -> pa.Table:
    """Rows as Arrow."""
    listed = list(rows)
    columns = {name: [row[place] for row in listed] for place, name in enumerate(SCHEMA.names)}
    return pa.table(columns, schema=SCHEMA)


@dataclass
class Lake:
    """One table in memory."""

    world: World = field(default_factory=lambda: World.manual(seed=7))
    sort_by: tuple[str, ...] = ("key",)
    properties: Properties = field(default_factory=Properties)
    bucket: MemoryBucket = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)
            definition = Definition.create(SCHEMA, sort_by=self.sort_by, properties=self.properties)
            index_log.create(self.bucket, self.world, definition)

    def copy(self, seed: int | None = None) -> Lake:
        """The same table in a bucket of its own."""
        bucket = MemoryBucket(self.world.clock)
        for found in self.bucket.list():
            bucket.put(found.key, self.bucket.get(found.key).data)
        world = (
            self.world
            if seed is None
            else World.manual(seed=seed, now_ms=self.world.clock.now_ms())
        )
        return Lake(world, self.sort_by, self.properties, bucket)

    def copy_handle(self, seed: int) -> Lake:
        """The same table, for a thread with a world of its own."""
        world = World.manual(seed=seed, now_ms=self.world.clock.now_ms())
        return Lake(world, self.sort_by, self.properties, self.bucket)

    def open(self, bucket: Bucket | None = None, discovery: str = "index") -> Table:
        """A fresh handle."""
        return Table.open_bucket(bucket or self.bucket, self.world, discovery=discovery)

    def append(
        self, *rows: Row, publish: bool = True, job: Job | None = None, **labels: str
    ) -> AppendedBlock:
        """Append rows by a process of their own."""
        self.world.clock.sleep(1)
        return self.open().append(table_of(rows), publish=publish, job=job, labels=labels or None)

    def source(self, *rows: Row, **labels: str) -> str:
        """Append rows and return the write's ULID."""
        ulid = self.append(*rows, **labels).ulid
        assert ulid is not None
        return ulid

    def merge(self, work_dir: Path, ulids: Iterable[str] | None = None) -> str | None:
        """Merge live blocks (default: all) of one stream, as the compactor does; returns the merged
        block."""
        self.world.clock.sleep(1)
        log = self.open().log
        state = log.state
        wanted = state.blocks.ulids() if ulids is None else sorted(ulids)
        live = [block for ulid in wanted if (block := state.blocks.get(ulid)) is not None]
        if not live:
            return None
        task = MergeTask(
            ulid=self.world.ids.ulid(),
            inputs=tuple(MergeInput(meta=block.meta, excepted=block.excepted) for block in live),
            definition=state.definition,
        )
        merged = LocalEngine().merge(self.bucket, self.world, task, MergeOptions(work_dir=work_dir))
        block = None
        if merged.written.rows:
            listed = write_sources(self.bucket, task.ulid, task.sources)
            made = merged_block(task, merged, visible_by=VisibleBy.INDEX, sources_file=listed)
            block = finish_upload(self.bucket, self.world, made)
        change = Compact(
            commit=self.world.ids.ulid(),
            block=block,
            read={one.ulid: one.excepted for one in live},
            read_version=state.version,
        )
        log.commit(change)
        return None if block is None else block.ulid

    def rows(self, discovery: str = "index", **at: int) -> Rows:
        """What a fresh reader sees, with the source of every row."""
        table = (
            self.open(discovery=discovery)
            .snapshot(**at)
            .scan(columns=[*SCHEMA.names, "_source"])
            .to_table()
        )  # type: ignore[arg-type]
        columns = [table[name].to_pylist() for name in table.column_names]
        return Counter(
            ((key, number, value), source)
            for key, number, value, source in zip(*columns, strict=True)
        )

    def plain(self, **at: int) -> Counter[Row]:
        """What a fresh reader sees."""
        seen: Counter[Row] = Counter()
        for (row, _), count in self.rows(**at).items():
            seen[row] += count
        return seen

    def plain_by_listing(self) -> Counter[Row]:
        """What a fresh reader sees that also lists."""
        seen: Counter[Row] = Counter()
        for (row, _), count in self.rows(discovery="list").items():
            seen[row] += count
        return seen

    def live(self) -> list[str]:
        """The live blocks."""
        return self.open().log.state.blocks.ulids()

    def check(self) -> None:
        """Live blocks share no source, and all their sources are accounted; a block of level 2 or
        more says of each row where it came from, and nothing else than its own sources."""
        state = self.open().log.state
        seen: set[str] = set()
        for block in state.blocks:
            assert seen.isdisjoint(block.meta.sources), block.ulid
            seen.update(block.meta.sources)
            assert len(state.accounted.held(block.meta.sources)) == len(block.meta.sources)
            assert block.excepted <= set(block.meta.sources)
            assert block.excepted != set(block.meta.sources), (
                "a block of which nothing is seen stays live"
            )
            for file in block.meta.chunks:
                rows = read_chunk(self.bucket, f"{block.ulid}/{file.path}", file)
                if block.meta.level > 1:
                    assert set(rows["_source"].to_pylist()) <= set(block.meta.sources)
                keys = rows["key"].to_pylist()
                assert keys == sorted(keys, key=lambda key: (key is None, key or "")), (
                    "a chunk is not in order"
                )

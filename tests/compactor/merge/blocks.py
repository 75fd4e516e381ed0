"""Blocks for merge tests, written by the product's own writer into a bucket in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge import Merged, MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.result import merged_block
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.definition import Definition
from blockstore.format.new_block import write_segments
from blockstore.names import object_key
from blockstore.world import World

__all__ = ["Bench"]


@dataclass
class Bench:
    """A bucket, a world and a definition, to write blocks and to merge them."""

    work_dir: Path
    definition: Definition
    world: World = field(default_factory=World.manual)
    bucket: MemoryBucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = MemoryBucket(self.world.clock)

    def block(
        self, *chunks: pa.Table, presorted: bool = False, definition: Definition | None = None
    ) -> BlockMeta:
        """A level-1 block with one chunk a table."""
        ulid = self.world.ids.ulid()
        parts = []
        for number, chunk in enumerate(chunks):
            writer = BlockWriter(
                self.bucket,
                self.world,
                ulid,
                definition or self.definition,
                producer="test",
                token=f"part{number}",
                presorted=presorted,
            )
            writer.write(chunk)
            parts.append(writer.finish())
        whole = replace(
            parts[0],
            files=tuple(file for part in parts for file in part.files),
            segments=tuple(one for part in parts for one in part.segments),
        )
        whole = replace(whole, segments_file=write_segments(self.bucket, ulid, whole))
        meta = writer.describe(whole)
        return replace(
            meta,
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            min_time=min(part.min_time for part in parts),
            max_time=max(part.max_time for part in parts),
        )

    def task(self, inputs: Iterable[BlockMeta | MergeInput]) -> MergeTask:
        listed = tuple(
            one if isinstance(one, MergeInput) else MergeInput(meta=one) for one in inputs
        )
        return MergeTask(ulid=self.world.ids.ulid(), inputs=listed, definition=self.definition)

    def merge(
        self,
        inputs: Iterable[BlockMeta | MergeInput],
        *,
        memory_bytes: int = 1 << 26,
        chunk_bytes: int = 1 << 20,
    ) -> tuple[BlockMeta, Merged]:
        """The merged block; its meta.json is not written."""
        task = self.task(inputs)
        options = MergeOptions(
            memory_bytes=memory_bytes, chunk_bytes=chunk_bytes, work_dir=self.work_dir
        )
        merged = LocalEngine().merge(self.bucket, self.world, task, options)
        return merged_block(task, merged, visible_by=VisibleBy.INDEX), merged

    def rows(self, meta: BlockMeta) -> pa.Table:
        """The rows of a block, in the order of its chunks."""
        chunks = [
            read_chunk(self.bucket, object_key(meta.ulid, file.path), file) for file in meta.chunks
        ]
        return pa.concat_tables(chunks)

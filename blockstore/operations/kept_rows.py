"""A block's rows, or some of them, written as another block that takes its place.

Rules (format, "sources"; protocol 3.3):
- The rewrite has the sources of the block that it replaces and ``revision`` + 1, and is visible by
  its index entry alone. It carries ``_source`` and therefore has level 2 or more. Rows of excepted
  sources do not come along.
- Rows keep their order, and chunks their limits, so each chunk stays sorted.
- What is read is compared with its SHA-256 first: a damaged row never gets a fresh hash.
- One chunk is held at a time. A chunk of which nothing goes is copied as it is, where the table's
  definition has not changed since it was written.
- Unknown fields of meta.json are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from blockstore.format.block import BlockMeta, ChunkFile, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.names_now import sort_by_of
from blockstore.format.new_block import WrittenChunks, block_meta, to_ms, write_segments
from blockstore.format.sources import write_sources
from blockstore.format.statistics import decode
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.upload import copy_file
from blockstore.operations.access import Access
from blockstore.operations.matching import Fate, untrue
from blockstore.operations.staging import complete
from blockstore.operations.view import snapshot_of
from blockstore.predicate import Predicate
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import ScanPlan, plan_scan

SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Writes rewrites of live blocks of ``state``, on behalf of ``producer``."""

    access: Access
    state: State
    producer: str

    def without(
        self,
        block: LiveBlock,
        fates: Mapping[str, Fate],
        predicate: Predicate,
        labels: Iterable[str] = (),
    ) -> BlockMeta | None:
        """The block without the rows for which ``predicate`` is true, durable (R3);

        None if no row is left.
        """
        ulid = self.access.world.ids.ulid()
        whole = self._plan(block, None, labels)
        kept = (
            self._plan(block, untrue(predicate), labels) if Fate.FILTER in fates.values() else whole
        )
        parts = []
        for place, file in enumerate(block.meta.chunks):
            fate = fates[file.path]
            if fate is Fate.DROP:
                continue
            if fate is Fate.KEEP and self._is_current(block):
                parts.append(self._copied(block, file, ulid))
                continue
            plan = kept if fate is Fate.FILTER else whole
            chunk = tuple(one for one in plan.chunks if one.file.path == file.path)
            rows = read_plan(
                self.access.bucket, replace(plan, chunks=chunk), self.access.world, verify=True
            )
            parts.append(self._written(block, rows, ulid, place))
        return self._finished(block, ulid, parts)

    def of_rows(
        self,
        block: LiveBlock,
        rows: Iterable[pa.RecordBatch],
        parents: Sequence[Parent] | None = None,
    ) -> BlockMeta | None:
        """The block with these rows instead, each with its ``_source``, in any order; durable.

        None if there is none. ``parents`` is that block, unless it was never committed.
        """
        ulid = self.access.world.ids.ulid()
        with self._writer(block, ulid, token="", presorted=False) as writer:
            for batch in rows:
                writer.write(batch)
            written = writer.finish()
        return self._finished(block, ulid, [written], parents)

    @property
    def _definition(self) -> Definition:
        return self.state.definition

    def _plan(self, block: LiveBlock, where: Predicate | None, labels: Iterable[str]) -> ScanPlan:
        names = [*self._definition.schema.names, SOURCE]
        return plan_scan(snapshot_of(self.state, block), columns=names, where=where, labels=labels)

    def _is_current(self, block: LiveBlock) -> bool:
        """Whether its chunks are as a rewrite would write them."""
        meta, definition = block.meta, self._definition
        ordered = (meta.sort_by, meta.time_column) == (definition.sort_by, definition.time_column)
        return (
            meta.level > 1
            and not block.excepted
            and ordered
            and meta.schema_id == definition.schema_id
        )

    def _copied(self, block: LiveBlock, file: ChunkFile, ulid: str) -> WrittenChunks:
        segments = copy_file(self.access.bucket, block.ulid, ulid, file)
        low, high = _time_range(file, block.meta, self._definition)
        return WrittenChunks(
            files=(file,),
            rows=file.rows,
            bytes=file.bytes,
            min_time=low,
            max_time=high,
            segments=(segments,),
        )

    def _written(
        self, block: LiveBlock, rows: Iterator[pa.RecordBatch], ulid: str, place: int
    ) -> WrittenChunks:
        # A token of its own: a copied chunk may bear any name that an earlier rewrite gave it.
        token = f"{self.access.world.ids.token()}-{place:06d}"
        in_order = sort_by_of(block.meta, self._definition) == self._definition.sort_by
        with self._writer(block, ulid, token=token, presorted=in_order) as writer:
            for batch in rows:
                writer.write(batch)
            return writer.finish()

    def _writer(self, block: LiveBlock, ulid: str, *, token: str, presorted: bool) -> BlockWriter:
        return BlockWriter(
            self.access.bucket,
            self.access.world,
            ulid,
            self._definition,
            labels=block.meta.labels,
            producer=self.producer,
            token=token,
            extra_columns=(SOURCE,),
            presorted=presorted,
        )

    def _finished(
        self,
        block: LiveBlock,
        ulid: str,
        parts: list[WrittenChunks],
        parents: Sequence[Parent] | None = None,
    ) -> BlockMeta | None:
        filled = [part for part in parts if part.rows]
        if not filled:
            return None
        old = block.meta
        written = WrittenChunks.together(filled)
        if self._definition.time_column is None:
            written = replace(written, min_time=old.min_time, max_time=old.max_time)
        meta = block_meta(
            written,
            ulid=ulid,
            definition=self._definition,
            visible_by=VisibleBy.INDEX,
            producer=self.producer,
            level=max(old.level, 2),
            sources=old.sources,
            parents=(parent_of(old),) if parents is None else tuple(parents),
            labels=old.labels,
            resolution=old.resolution,
            revision=old.revision + 1,
            own=False,
            uploaded_time=self.access.world.clock.now_ms(),
            sources_file=write_sources(self.access.bucket, ulid, old.sources),
            segments=write_segments(self.access.bucket, ulid, written),
        )
        return complete(self.access, replace(meta, unknown=old.unknown))


def parent_of(meta: BlockMeta) -> Parent:
    """A block, as those that take its place name it."""
    return Parent(ulid=meta.ulid, min_time=meta.min_time, max_time=meta.max_time)


def _time_range(file: ChunkFile, meta: BlockMeta, definition: Definition) -> tuple[int, int]:
    """The times of a chunk, by its statistics where it has some, else those of its block."""
    name = definition.time_column
    found = None if name is None else file.columns.get(name)
    if name is None or found is None or found.min is None or found.max is None:
        return meta.min_time, meta.max_time
    kind = definition.schema.field(name).type
    low, high = decode(kind, found.min), decode(kind, found.max)
    if not isinstance(low, int) or not isinstance(high, int):
        return meta.min_time, meta.max_time
    return to_ms(kind, low, name), to_ms(kind, high, name) + 1

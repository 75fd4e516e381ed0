"""A worn table in memory: what the tests of care damage, mark, mend and bring back.

Three blocks of two chunks merged into one (their directories still lie there), two blocks more, one
of them with a label, one that only a listing shows, a checkpoint, a tag's pin, and rows with nulls
and NaNs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Report, Severity
from blockstore.care.repair.copies import Copies
from blockstore.care.verify import verify
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.block import BlockMeta, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.meta import encode, load_meta
from blockstore.format.new_block import block_meta
from blockstore.index import log as index_log
from blockstore.index.change import Draft
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.gc import collect
from blockstore.names import meta_key, object_key, parse_entry
from blockstore.operations.expire import expire
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.scene import Hide, small_chunks
from tests.support.faulty import FaultyBucket
from tests.support.index_data import Planned
from tests.support.rechain import rechain
from tests.support.sealing import forged

__all__ = ["NOW", "SCHEMA", "Care", "Rows", "rows", "rows_of", "worn"]

NOW = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        ("writer", pa.string()),
        ("row", pa.int64()),
        ("value", pa.float64()),
        ("at", pa.timestamp("ms", "UTC")),
    ]
)
Rows = Counter[tuple[str, int]]


def rows(writer: str, count: int = 4) -> pa.Table:
    """Rows of one writer; the second has no value, the third is not a number."""
    values = [None if row == 1 else float("nan") if row == 2 else row / 2 for row in range(count)]
    times = [NOW - 1000 * row for row in range(count)]
    return pa.table(
        {"writer": [writer] * count, "row": list(range(count)), "value": values, "at": times},
        schema=SCHEMA,
    )


def rows_of(*writers: str) -> Rows:
    """What a reader reads of these writers."""
    return Counter((writer, row) for writer in writers for row in range(4))


@dataclasses.dataclass
class Care:
    """A table in a bucket of its own."""

    bucket: MemoryBucket
    world: World
    blocks: dict[str, str]
    """By writer: the ULID of the block that it wrote."""
    merged_ulid: str = ""

    def copy(self) -> Care:
        """The same table in another bucket; the world goes on for both."""
        bucket = MemoryBucket(self.world.clock)
        for found in self.bucket.list():
            bucket.put(found.key, self.bucket.get(found.key).data)
        return Care(bucket, self.world, dict(self.blocks), self.merged_ulid)

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def append(self, writer: str, count: int = 4, **options: object) -> str:
        with small_chunks():
            ulid = self.open().append(rows(writer, count), **options).ulid  # type: ignore[arg-type]
        assert ulid is not None
        self.blocks[writer] = ulid
        return ulid

    def found(self) -> Rows:
        """What a reader reads."""
        table = self.open().snapshot().scan(columns=["writer", "row"]).to_table()
        return Counter(zip(table["writer"].to_pylist(), table["row"].to_pylist(), strict=True))

    def verify(self, *, deep: bool = False) -> Report:
        return verify(self.bucket, self.world, deep=deep)

    def tag(self, name: str, version: int) -> None:
        """Pin a version, whose checkpoint is there."""
        plan = Draft(tags={name: version})
        self.open().log.commit(
            Planned(operation=Operation.TAG, commit=self.world.ids.ulid(), plan=plan)
        )

    def hide(self, source: str) -> None:
        """Hide the rows of a write, as a revert does."""
        self.open().log.commit(Hide(commit=self.world.ids.ulid(), source=source))

    def expire(self, ulid: str) -> None:
        """Take a block out of the table."""
        expire(self.open().log, self.world, [ulid], "retention")

    def compact(self) -> None:
        """Merge what there is to merge."""
        with small_chunks():
            compact_once(self.open(), Settings(tier_blocks=2, work_dir=Path("/tmp")))

    def forge_merge(
        self,
        ulid: str,
        rows_from: Care,
        parts: list[BlockMeta],
        revision: int,
        visible_by: VisibleBy = VisibleBy.AGE,
    ) -> str:
        """A merge of these blocks, visible by its age, whose rows are read in another table."""
        definition = self.open_any().definition
        sources = tuple(sorted(source for meta in parts for source in meta.sources))
        copies = Copies(bucket=rows_from.bucket)
        with BlockWriter(
            self.bucket,
            self.world,
            ulid,
            definition,
            producer="compactor",
            extra_columns=("_source",),
        ) as writer:
            for meta in parts:
                for batch in copies.files(meta).rows(definition.schema):
                    writer.write(batch)
            written = writer.finish()
        meta = block_meta(
            written,
            ulid=ulid,
            definition=definition,
            visible_by=visible_by,
            producer="compactor",
            level=2,
            sources=sources,
            parents=tuple(
                Parent(ulid=one.ulid, min_time=one.min_time, max_time=one.max_time) for one in parts
            ),
            revision=revision,
            own=False,
        )
        self.bucket.put(meta_key(ulid), encode(meta))
        return ulid

    def open_any(self) -> Table:
        return Table.open_bucket(self.bucket, self.world, discovery=None)

    def without_index(self) -> Care:
        """The same blocks as a table that never had an index: without the merge, which only an
        index shows."""
        for key in self.objects():
            if key.startswith(("index/", "gc/", self.merged_ulid)):
                self.bucket.delete([key])
        return self

    def collect(self) -> None:
        """Let the history expire: the boundary moves to the version before the latest one."""
        self.world.clock.sleep(49 * 3600)
        self.append("latest")
        collect(self.open().log, self.world)

    def listed_rows(self) -> Rows:
        """What a reader without an index reads."""
        table = Table.open_bucket(self.bucket, self.world, discovery="list").snapshot()
        rows = table.scan(columns=["writer", "row"]).to_table()
        return Counter(zip(rows["writer"].to_pylist(), rows["row"].to_pylist(), strict=True))

    def is_sound(self) -> bool:
        """Whether a deep look finds nothing but what is left over."""
        return all(one.severity is Severity.NOTE for one in self.verify(deep=True))

    def merged(self) -> str:
        """The merged block."""
        return self.merged_ulid

    def edit(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Damage an object: as a faulty program would have written it."""
        self.bucket.put(key, forged(self.bucket.get(key).data, change))
        if parse_entry(key) is not None:
            rechain(self.bucket)

    def objects(self, prefix: str = "") -> list[str]:
        return sorted(found.key for found in self.bucket.list(prefix))

    def forge(self, ulid: str, change: Callable[[BlockMeta], BlockMeta]) -> BlockMeta:
        """Another meta.json for a block, as a faulty program would have written it."""
        meta = change(load_meta(self.bucket, ulid))
        self.bucket.put(meta_key(ulid), encode(meta))
        return meta

    def forge_chunk(self, ulid: str, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Other rows in a chunk, with the hash and size that belong to them, in meta.json and,
        where an entry names the block, in the index: what a faulty program would have written. Rows
        keep the file's columns."""
        key = object_key(ulid, path)
        table = change(pq.read_table(pa.BufferReader(self.bucket.get(key).data)))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        self.bucket.put(key, data)
        sha256 = hashlib.sha256(data).hexdigest()
        before = load_meta(self.bucket, ulid)
        old = next(file for file in before.files if file.path == path)
        footer = min(old.footer or 1, len(data))
        self.forge(
            ulid,
            lambda meta: dataclasses.replace(
                meta,
                rows=meta.rows
                + table.num_rows
                - next(file.rows for file in meta.files if file.path == path),
                files=tuple(
                    dataclasses.replace(
                        file, bytes=len(data), sha256=sha256, rows=table.num_rows, footer=footer
                    )
                    if file.path == path
                    else file
                    for file in meta.files
                ),
            ),
        )
        self._in_index(
            f'"{old.sha256}","footer":{old.footer}'.encode(),
            f'"{sha256}","footer":{footer}'.encode(),
        )
        self._in_index(
            f'"bytes":{old.bytes},"rows":{old.rows},"sha256":"{sha256}"'.encode(),
            f'"bytes":{len(data)},"rows":{table.num_rows},"sha256":"{sha256}"'.encode(),
        )

    def forge_statistics(self, ulid: str, old: bytes, new: bytes) -> None:
        """Other statistics than were taken, in meta.json and in the index."""
        self.edit(meta_key(ulid), lambda data: data.replace(old, new, 1))
        for key in self.objects("index/"):
            if key.endswith(".json"):
                data = self.bucket.get(key).data
                start = data.find(f'"ulid":"{ulid}"'.encode())
                if start >= 0:
                    self.edit(key, lambda data: _after(data, ulid, old, new))

    def _in_index(self, old: bytes, new: bytes) -> None:
        for key in self.objects("index/"):
            if key.endswith(".json") and old in self.bucket.get(key).data:
                self.edit(key, lambda data: data.replace(old, new))


def _after(data: bytes, ulid: str, old: bytes, new: bytes) -> bytes:
    """The first ``old`` after a block's name replaced."""
    start = data.find(f'"ulid":"{ulid}"'.encode())
    return data[:start] + data[start:].replace(old, new, 1)


@cache
def _made() -> Care:
    world = World.manual(seed=7)
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(SCHEMA, sort_by=["writer", "row"], time_column="at")
    index_log.create(bucket, world, definition)
    made = Care(bucket, world, {})
    for writer in ("a", "b", "c"):
        made.append(writer)
    made.compact()
    state = made.open().log.poll()
    write_checkpoint(bucket, state)
    (made.merged_ulid,) = state.blocks.ulids()
    made.append("d")
    made.append("e", labels={"day": "1"})
    made.append("f", publish=False)
    world.clock.sleep(3600)
    return made


def worn() -> Care:
    """The table, in a bucket of its own, an hour after it was written."""
    made = _made().copy()
    made.world.clock.sleep(3600)
    return made

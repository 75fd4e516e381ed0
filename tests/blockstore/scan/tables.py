"""Small tables on a bucket, made block by block, with the rows that a reader must see kept
beside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import BlockMeta
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.scan import Snapshot
from blockstore.world import World

NOON = datetime.datetime(2013, 1, 1, 12)
ODD = 'a.b "ü"'
SCHEMA = pa.schema(
    [("time", pa.timestamp("us")), ("n", pa.int32()), ("s", pa.string()), (ODD, pa.float64())]
)


def row(hour: float, n: int | None, s: str | None = "x", odd: float | None = 0.5) -> dict[str, Any]:
    return {"time": NOON + datetime.timedelta(hours=hour), "n": n, "s": s, ODD: odd}


class Lake:
    """A table without a log: its snapshot is what was put together by hand."""

    def __init__(self, bucket: Bucket | None = None, definition: Definition | None = None) -> None:
        self.world = World.manual(seed=7)
        self.bucket = bucket or MemoryBucket(self.world.clock)
        self.definition = definition or Definition.create(SCHEMA, time_column="time", sort_by=["n"])
        self.live: list[LiveBlock] = []
        self.listed: list[ChosenBlock] = []
        self.group_rows = 1_000_000
        self._next_row_id = 1000

    def write(
        self,
        rows: list[dict[str, Any]],
        *,
        sources: list[str] | None = None,
        labels: Mapping[str, str] | None = None,
        chunks: int = 1,
        extra: tuple[str, ...] = (),
    ) -> BlockMeta:
        """Upload a block of ``chunks`` chunks; with ``sources`` the rows carry ``_source`` and make
        a merge."""
        ulid = self.world.ids.ulid()
        self.world.clock.sleep(0.002)
        if sources is not None and "_source" not in extra:
            extra = ("_source", *extra)
        step = -(-len(rows) // chunks)
        files, metas = [], []
        for number in range(chunks):
            writer = BlockWriter(
                self.bucket,
                self.world,
                ulid,
                self.definition,
                labels=labels or {},
                producer="test",
                token=f"t{number}",
                extra_columns=extra,
                row_group_rows=self.group_rows,
            )
            part = rows[number * step : (number + 1) * step]
            schema = pa.schema([*self.definition.schema, *_extra_fields(extra)])
            writer.write(pa.Table.from_pylist(part, schema=schema))
            written = writer.finish()
            files += written.files
            metas.append(writer.describe(written))
        return replace(
            metas[0],
            rows=len(rows),
            min_time=min(meta.min_time for meta in metas),
            max_time=max(meta.max_time for meta in metas),
            files=tuple(files),
            level=1 if sources is None else 2,
            sources=(ulid,) if sources is None else tuple(sorted(sources)),
            own=sources is None,
        )

    def commit(self, meta: BlockMeta, *, excepted: Iterable[str] = ()) -> str:
        self.live.append(
            LiveBlock(
                meta=replace(meta, schema=b""),
                version=len(self.live) + 1,
                first_row_id=self._next_row_id,
                excepted=frozenset(excepted),
            )
        )
        self._next_row_id += meta.rows
        return meta.ulid

    def append(self, rows: list[dict[str, Any]], **options: Any) -> str:
        return self.commit(self.write(rows, **options))

    def list_only(self, meta: BlockMeta, only_sources: frozenset[str] | None = None) -> None:
        self.listed.append(ChosenBlock(meta=replace(meta, schema_id=0), only_sources=only_sources))

    def snapshot(self) -> Snapshot:
        return Snapshot(
            definition=self.definition,
            version=len(self.live),
            blocks=Blocks.of(self.live),
            listed=tuple(self.listed),
        )


def _extra_fields(names: tuple[str, ...]) -> list[pa.Field]:
    types = {"_source": pa.string(), "_row_id": pa.int64(), "_version": pa.int64()}
    return [pa.field(name, types[name]) for name in names]

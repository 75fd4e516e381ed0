"""Text that is no UTF-8, as other programs write it:

DuckDB refuses it, and the block that holds it is named.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.api import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.reader.cache import ChunkCache
from blockstore.reader.query import Engine
from blockstore.table import Table
from blockstore.world import World
from tests.support.raw_text import raw_text, unchecked

SCHEMA = pa.schema([("name", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize("kind", ["folder", "cached"])
def test_the_query_that_needs_it_fails_with_the_block_and_others_are_answered(
    tmp_path: Path, kind: str
) -> None:
    world = World.manual()
    bucket: Bucket = MemoryBucket(world.clock, "memory://x")
    if kind == "folder":
        bucket = LocalBucket(str(tmp_path / "t"), world.clock, durable=False)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    table = Table.open_bucket(bucket, world)
    table.append(pa.table({"name": ["good"], "n": [1]}))
    with unchecked():
        ulid = table.append(pa.table({"name": raw_text([b"ok", b"caf\xe9"]), "n": [2, 3]})).ulid
    cache = ChunkCache(tmp_path / "cache", world)
    with Engine({"t": table.snapshot()}, world=world, cache=cache) as engine:
        says = (
            rf"block {ulid} of .*: chunks/000001.parquet holds text that is not UTF-8 "
            r"\(.*caf\\xE9.*revert"
        )
        with pytest.raises(bs.Corrupt, match=says):
            engine.query("SELECT name FROM t").read_all()
        assert engine.query("SELECT sum(n) FROM t").read_all()[0][0].as_py() == 6
        assert engine.query("SELECT name FROM t WHERE n = 1").read_all()[0][0].as_py() == "good"

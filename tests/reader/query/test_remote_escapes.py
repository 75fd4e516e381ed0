"""The same attempts over a remote table: nothing of the cache but the query's own files is in
reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BlockstoreError
from blockstore.format.definition import Definition
from blockstore.index.log import create
from blockstore.reader.cache import ChunkCache
from blockstore.reader.query import Engine
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.reader.query.test_escapes import SECRET, attempts

ROWS = 150_000


def remote(world: World, name: str, value: str) -> TableSnapshot:
    bucket = MemoryBucket(world.clock, f"memory://{name}")
    schema = pa.schema([("a", pa.string()), ("noise", pa.float64())])
    create(bucket, world, Definition.create(schema))
    table = Table.open_bucket(bucket, world)
    noise = np.random.default_rng(1).random(ROWS)
    table.append(pa.table({"a": [value] * ROWS, "noise": noise}, schema=schema))
    return table.snapshot()


@pytest.fixture
def world() -> World:
    return World.real()


@pytest.mark.parametrize("isolated", [False, True])
def test_no_attempt_gets_past_a_remote_table(tmp_path: Path, world: World, isolated: bool) -> None:
    cache = ChunkCache(tmp_path, world)
    tables = {"t": remote(world, "t", "open"), "hidden": remote(world, "hidden", SECRET)}
    with Engine(tables, world=world, cache=cache, isolated=isolated) as engine:
        rows = engine.query("SELECT max(a) AS a FROM hidden").read_all()
        assert rows.to_pylist() == [{"a": SECRET}]
        (other,) = (path for path in (tmp_path / "columns").iterdir() if not path.suffix)
        before = sorted(map(str, tmp_path.rglob("*")))
        reported, came_through = [], []
        for attempt in attempts():
            sql = attempt.format(p=other, c=f"{tmp_path}/loose.csv", d=tmp_path)
            try:
                with engine.run(sql, allowed={"t"}) as answer:
                    came_through.append((sql, answer.reader.read_all().num_rows))
            except BlockstoreError as error:
                reported.append(str(error))
        assert came_through == []
        assert len(reported) > 200
        assert [text for text in reported if SECRET in text] == []
        left = sorted(map(str, tmp_path.rglob("*")))
        assert [path for path in left if path not in before and "/held/" not in path] == []

"""SQL over a real S3 server: whole chunks in the cache, checked, fetched once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore.table as tables
from blockstore.reader.cache import ChunkCache
from blockstore.reader.query import Engine, query
from blockstore.world import World

pytestmark = pytest.mark.s3


def test_a_table_on_s3_is_answered_by_way_of_the_cache(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table = tables.create(f"{s3_url}/t", schema=pa.schema([("n", pa.int64())]), sort_by=["n"])
    for start in range(0, 30, 10):
        table.append(pa.table({"n": range(start, start + 10)}))
    assert query(f"{s3_url}/t", "SELECT sum(n) AS s FROM t").read_all().to_pylist() == [{"s": 435}]
    cache = ChunkCache(tmp_path / "other", World.real())
    with Engine({"t": table.snapshot()}, cache=cache) as engine:
        assert engine.query(
            "SELECT count(*) AS c FROM t WHERE n BETWEEN 12 AND 15"
        ).read_all().to_pylist() == [{"c": 4}]
        one = cache.bytes_used()
        assert engine.query("SELECT count(n) AS c FROM t").read_all().to_pylist() == [{"c": 30}]
        assert cache.bytes_used() > 2 * one

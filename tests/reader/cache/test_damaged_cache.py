"""Queries over a cache whose disk lost bytes: right rows or an error to ask again, and never the
bucket's fault."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Unavailable
from blockstore.reader.cache import ChunkCache, Hold, Wanted
from blockstore.reader.query import Engine
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.reader.query.lakes import lake, snapshot_of

SUM = "SELECT sum(n) AS n, count(s) AS s FROM t"


@pytest.fixture(scope="module")
def table() -> TableSnapshot:
    return snapshot_of(lake(MemoryBucket(World.manual().clock, "memory://x")))


def asked(table: TableSnapshot, cache: ChunkCache) -> list[dict[str, object]]:
    with Engine({"t": table}, world=table.world, cache=cache) as engine:
        found: list[dict[str, object]] = engine.query(SUM).read_all().to_pylist()
        return found


def spoil(path: Path, how: str) -> None:
    state, data = path.stat(), bytearray(path.read_bytes())
    if how == "empty":
        data = bytearray()
    elif how == "zeros":
        data = bytearray(len(data))
    else:
        for place in range(4, len(data) - 8, 50):
            data[place] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


HOWS = ("empty", "zeros", "bits")


@pytest.mark.parametrize("how", HOWS)
def test_damage_that_a_power_loss_left_is_healed_by_the_first_query(
    tmp_path: Path, table: TableSnapshot, how: str
) -> None:
    right = asked(table, ChunkCache(tmp_path, table.world))
    for path in (tmp_path / "files").iterdir():
        spoil(path, how)
    cache = ChunkCache(tmp_path, table.world)
    assert asked(table, cache) == right
    assert cache.counts.hits == 0
    assert asked(table, cache) == right
    assert cache.counts.hits == cache.counts.misses


class Spoiling(ChunkCache):
    """The disk loses bytes once, after they were checked and before the engine reads them."""

    how = ""

    def hold(self, wanted: Iterable[Wanted]) -> Hold:
        hold = super().hold(wanted)
        how, self.how = self.how, ""
        for path in hold.paths if how else ():
            if how == "gone":
                os.unlink(path)
            else:
                spoil(Path(path), how)
        return hold


@pytest.mark.parametrize("how", ["empty", "zeros", "gone"])
def test_damage_under_a_query_is_told_as_the_caches_and_the_next_one_answers(
    tmp_path: Path, table: TableSnapshot, how: str
) -> None:
    cache = Spoiling(tmp_path, table.world)
    right = asked(table, cache)
    cache.how = how
    with pytest.raises(
        Unavailable, match=r"the cached copy of .* was damaged and is dropped: ask again"
    ) as told:
        asked(table, cache)
    assert "restore" not in str(told.value)
    assert asked(table, cache) == right

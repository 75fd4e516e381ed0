"""A table that release 0.1.0 wrote opens, takes every kind of commit, and stays whole through
merges and collection."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.verify import verify
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import NewerFormat
from blockstore.format import features
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.gc import collect
from blockstore.names import entry_key
from blockstore.table import Table
from blockstore.world import World
from tests.golden.make_release_0_1 import FOLDER, rows

LIVE = {*range(10), *range(20, 40), *range(50, 80), *range(90, 100)} - {21}
TAGGED = set(range(40))
DAY_S = 86_400


@pytest.fixture
def world() -> World:
    return World.manual(seed=11)


@pytest.fixture
def table(world: World) -> Table:
    """A copy, as its next writer opens it a month later."""
    bucket = MemoryBucket(world.clock)
    for path in sorted(path for path in FOLDER.rglob("*") if path.is_file()):
        bucket.put(path.relative_to(FOLDER).as_posix(), path.read_bytes())
    world.clock.sleep(30 * DAY_S)
    return Table.open_bucket(bucket, world)


def readings(table: Table, **at: object) -> list[int]:
    found: list[int] = (
        table.snapshot(**at).scan(columns=["reading"]).to_table()["reading"].to_pylist()
    )
    return sorted(found)


def errors(table: Table, world: World) -> list[str]:
    return [one.what for one in verify(table.bucket, world, deep=True).errors]


def test_it_reads_as_that_release_read_it(table: Table, world: World) -> None:
    assert readings(table) == sorted(LIVE)
    assert readings(table, tag="four") == sorted(TAGGED)
    assert readings(table, version=9) == sorted(LIVE - set(range(60, 80)))
    assert errors(table, world) == []


def test_the_first_commit_names_the_entry_below_by_its_commit_and_begins_the_chain(
    table: Table, world: World
) -> None:
    last = orjson.loads(table.bucket.get(entry_key(11)).data)
    assert "prev" not in last
    table.append(rows(8))
    first = orjson.loads(table.bucket.get(entry_key(12)).data)
    assert first["prev"] == {"commit": last["commit"]}
    assert first["requires"] == ["chain/0.2"]
    table.append(rows(10))
    second = orjson.loads(table.bucket.get(entry_key(13)).data)
    assert second["prev"]["commit"] == first["commit"]
    assert len(second["prev"]["chain"]) == 64
    assert Table.open_bucket(table.bucket, world).log.state == table.log.state


def test_it_takes_every_kind_of_commit(table: Table, world: World, tmp_path: Path) -> None:
    expected = set(LIVE)
    table.append(rows(8), job=bs.Job(app="nightly", batch=4))
    expected |= set(range(80, 90))
    table.delete("reading = 22")
    expected -= {22}
    table.overwrite(rows(11, sensor="s5"), where="sensor = 's5'")
    expected = expected - set(range(50, 60)) | set(range(110, 120))
    table.tag("now")
    assert readings(table) == sorted(expected)
    compact_once(table, Settings(tier_blocks=3, memory_bytes=64 << 20, work_dir=tmp_path / "work"))
    assert readings(table) == sorted(expected)
    table.restore(tag="four")
    assert readings(table) == sorted(TAGGED)
    table.restore(tag="now")
    assert readings(table) == sorted(expected)
    write_checkpoint(table.bucket, table.log.state)
    for number in (30, 31):
        world.clock.sleep(3 * DAY_S)
        table.append(rows(number))
        expected |= set(range(10 * number, 10 * number + 10))
    assert collect(table.log, world).entries
    fresh = Table.open_bucket(table.bucket, world)
    assert readings(fresh) == sorted(expected)
    assert readings(fresh, tag="four") == sorted(TAGGED)
    assert errors(fresh, world) == []


def test_batches_of_before_are_still_known(table: Table) -> None:
    again = table.append(rows(3), job=bs.Job(app="nightly", batch=3))
    assert again.already
    assert readings(table) == sorted(LIVE)


def test_that_release_refuses_it_afterwards_and_says_why(
    table: Table, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(8))
    monkeypatch.setattr(features, "KNOWN", frozenset())
    with pytest.raises(NewerFormat, match=r"'chain'.*0\.2"):
        Table.open_bucket(table.bucket, world)

"""Many tables of which few are asked for: requests, memory, threads, and that nothing is missed or
said wrongly of those that are not polled."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import pyarrow as pa
import pytest

from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import AccessDenied, Corrupt, NotFound, Unavailable
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.log import Log
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.reader.errors import UnknownTable
from blockstore.reader.tables import Polling, Tables, TableState
from blockstore.reader.tables.attention import EAGER
from blockstore.table import Table
from tests.reader.tables.lakes import SCHEMA, Scene
from tests.support.faulty import Call

MANY = 150


def lake(tables: int, name: str) -> Scene:
    """So many tables in memory, without blocks."""
    scene = Scene(f"memory://{name}")
    definition = Definition.create(SCHEMA, sort_by=["n"])
    for number in range(tables):
        index_log.create(Prefixed(scene.bucket, f"t{number:05}"), scene.world, definition)
    return scene


def append(scene: Scene, name: str, value: int) -> None:
    table = Table.open_bucket(Prefixed(scene.bucket, name), scene.world)
    table.append(pa.table({"n": [value]}, schema=SCHEMA))


@pytest.fixture
def many(request: pytest.FixtureRequest) -> Scene:
    scene = lake(MANY, request.node.name)
    scene.settle()
    return scene


def minutes(scene: Scene, count: int, asked: list[str]) -> list[int]:
    """What each minute costs in which these tables are asked for."""
    costs = []
    for _ in range(count):
        before = scene.requests()
        for _ in range(12):
            for name in asked:
                scene.tables.snapshot(name)
            scene.advance(5)
            scene.settle()
        costs.append(scene.requests() - before)
    return costs


def test_only_tables_in_use_are_polled(many: Scene) -> None:
    asked = [f"t{number:05}" for number in range(90, 110)]
    minutes(many, 1, asked)
    costs = minutes(many, 5, asked)
    polls_a_minute = 60 / (15 * 0.9)
    assert max(costs) <= 2 * len(asked) * polls_a_minute + 60
    assert many.tables.ready


def test_tables_that_nothing_asks_for_cost_a_listing(many: Scene) -> None:
    costs = minutes(many, 5, [])
    assert max(costs) <= 60
    assert len(many.tables.names()) == MANY


def test_the_start_opens_the_first_tables_only_and_is_ready(many: Scene) -> None:
    read = [view for view in many.tables.views() if view.state is TableState.READY]
    assert len(read) == EAGER
    assert many.tables.ready
    assert many.tables.halted is None


def test_a_table_that_is_first_asked_for_after_hours_is_read_then(many: Scene) -> None:
    many.advance(6 * 3600)
    many.settle()
    append(many, "t00140", 7)
    assert many.values("t00140") == [7]


def test_a_quiet_table_never_shows_an_older_snapshot_than_promised(many: Scene) -> None:
    assert many.values("t00130") == []
    for value in range(5):
        many.advance(700)
        many.settle()
        append(many, "t00130", value)
        assert many.values("t00130") == list(range(value + 1))


def test_two_gateways_see_the_same(many: Scene) -> None:
    other = Tables([many.url], world=many.world, polling=Polling())
    append(many, "t00145", 1)
    assert many.values("t00145") == [1]
    assert other.snapshot("t00145").count() == 1
    many.advance(3600)
    append(many, "t00145", 2)
    assert other.snapshot("t00145").count() == 2
    assert many.values("t00145") == [1, 2]


def test_idle_tables_are_forgotten_and_read_again(many: Scene) -> None:
    for number in range(MANY):
        many.tables.snapshot(f"t{number:05}")
    many.advance(700)
    many.settle()
    kept = [view for view in many.tables.views() if view.snapshot is not None]
    assert len(kept) == EAGER
    append(many, "t00001", 3)
    assert many.values("t00001") == [3]
    assert many.tables.halted is None


def test_a_table_that_was_never_asked_for_takes_little_memory(
    request: pytest.FixtureRequest,
) -> None:
    tables = 500
    scene = lake(tables, request.node.name)
    threads = threading.active_count()
    gc.collect()
    tracemalloc.start()
    try:
        scene.settle()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # 64 tables were read, and 436 were not.
    assert used / tables < 24_000
    assert threading.active_count() <= threads + 4


def test_a_table_that_is_dropped_and_comes_back_while_nothing_asks(many: Scene) -> None:
    log = Log(Prefixed(many.bucket, "t00133"), many.world)
    drop_table(log, many.world)
    with pytest.raises((NotFound, UnknownTable)):
        many.tables.snapshot("t00133")
    assert "t00133" not in many.tables.names()
    many.advance(3 * 3600)
    undrop_table(Log(Prefixed(many.bucket, "t00133"), many.world), many.world)
    assert many.values("T00133") == []
    assert "t00133" in many.tables.names()


def test_one_that_comes_back_is_listed_again_though_nothing_asks(many: Scene) -> None:
    drop_table(Log(Prefixed(many.bucket, "t00133"), many.world), many.world)
    with pytest.raises((NotFound, UnknownTable)):
        many.tables.snapshot("t00133")
    many.advance(3 * 3600)
    many.settle()
    undrop_table(Log(Prefixed(many.bucket, "t00133"), many.world), many.world)
    many.advance(20)
    many.settle()
    assert "t00133" in many.tables.names()


def test_tables_are_created_renamed_and_deleted_while_nothing_asks(many: Scene) -> None:
    for info in list(many.bucket.list("t00122/")):
        name = info.key.replace("t00122/", "renamed/")
        many.bucket.put(name, many.bucket.get(info.key).data)
        many.bucket.delete([info.key])
    many.advance(20)
    many.settle()
    assert many.values("renamed") == []
    with pytest.raises(UnknownTable):
        many.tables.snapshot("t00122")


def test_a_broken_table_is_said_once_it_is_asked_for_and_halts_nothing(many: Scene) -> None:
    many.bucket.put("t00120/index/00000000000000000001.json", b"not an entry")
    many.advance(3600)
    many.settle()
    assert many.tables.halted is None
    with pytest.raises(Corrupt):
        many.tables.snapshot("t00120")
    assert many.tables.halted is None
    (view,) = [one for one in many.tables.views() if one.name == "t00120"]
    assert view.state is TableState.DEGRADED
    many.advance(3600)
    many.settle()
    (view,) = [one for one in many.tables.views() if one.name == "t00120"]
    assert view.state is TableState.DEGRADED


def test_a_listing_that_fails_leaves_the_tables_that_can_be_read(many: Scene) -> None:
    def refuse(call: Call) -> None:
        if call.method == "prefixes":
            raise AccessDenied("listing is not allowed")

    many.faulty[0].before.append(refuse)
    for _ in range(4):
        many.advance(20)
        many.settle()
    assert many.tables.halted is None
    assert many.values("t00149") == []


def test_a_store_that_is_away_is_said_though_nothing_asks_and_forgotten_after(many: Scene) -> None:
    many.advance(3600)
    many.settle()

    def refuse(call: Call) -> None:
        raise Unavailable("the store does not respond")

    many.faulty[0].before.append(refuse)
    many.advance(20)
    many.settle()
    assert many.tables.halted is not None
    assert "does not respond" in many.tables.halted
    many.faulty[0].before.clear()
    many.advance(20)
    many.settle()
    assert many.tables.halted is None
    assert not [one for one in many.tables.views() if one.state is TableState.DEGRADED]

"""How many requests must follow one another before a query can begin: in a fresh gateway, in one
that polls, and from the command line."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.reader.query.ask import _TablesAt
from blockstore.reader.tables import At, Tables
from blockstore.table import Table
from blockstore.world import World
from tests.support.depth import DepthBucket, Time

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)


class Lake:
    """Three tables of three versions, and a folder that is none, on a store that takes a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = Time()
        self.seed = 100
        self.memory = MemoryBucket(self.time)
        self.memory.put("notes/file.txt", b"mine")
        for name in ("a", "b", "c"):
            place = Prefixed(self.memory, name)
            index_log.create(place, self.time.world(seed=2), Definition.create(SCHEMA))
            self.append(name)
            self.append(name)
        self.far = DepthBucket(self.memory, self.time)
        self.world = self.time.world(seed=9)
        for module in ("query.ask", "tables.tables"):
            monkeypatch.setattr(f"blockstore.reader.{module}.open_bucket", self.open_bucket)

    def append(self, name: str) -> None:
        self.seed += 1
        Table.open_bucket(Prefixed(self.memory, name), self.time.world(seed=self.seed)).append(ROWS)

    def open_bucket(self, url: str, world: World) -> Bucket:
        return self.far if url == "lake" else Prefixed(self.far, url)

    def tables(self, url: str) -> Tables:
        return Tables([url], world=self.world)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(monkeypatch)


FIRST: dict[str, tuple[Callable[[Lake], object], int, str]] = {
    "a command that names the table": (
        lambda lake: _TablesAt(["a"], lake.world, At()).snapshots(["a"]),
        2,
        "as open",
    ),
    "a command that names the lake": (
        lambda lake: _TablesAt(["lake"], lake.world, At()).snapshots(["a"]),
        2 + 4,
        "no table, folders, what they are (twice: one is no table), then as open",
    ),
    "a gateway of a table": (
        lambda lake: lake.tables("a").snapshot("a"),
        1 + 2,
        "it is a table, then as open",
    ),
    "a gateway of a lake": (
        lambda lake: lake.tables("lake").snapshot("a"),
        2 + 4,
        "no table, folders, what they are (twice: one is no table), then as open",
    ),
}


@pytest.mark.parametrize("what", FIRST)
def test_the_first_query_of(lake: Lake, what: str) -> None:
    ask, depth, chain = FIRST[what]
    with lake.far.watch() as seen:
        ask(lake)
    seen.expect(depth, chain)


def test_an_idle_poll_of_a_gateway_is_two_requests_side_by_side(lake: Lake) -> None:
    tables = lake.tables("lake")
    tables.poll_now()
    for _ in range(4):
        lake.time.sleep(15)
        with lake.far.watch() as seen:
            tables.poll_now("a")
        seen.expect(1, "what comes next, and the boundary or the last entry", requests=2)
        assert seen.bytes == 0


@pytest.mark.parametrize("before", [0, 1])
def test_a_poll_of_a_gateway_with_news(lake: Lake, before: int) -> None:
    """Every other poll looks at the last entry, and not at the boundary, if there are none."""
    tables = lake.tables("lake")
    tables.poll_now()
    for _ in range(before):
        tables.poll_now("a")
    lake.append("a")
    with lake.far.watch() as seen:
        tables.poll_now("a")
    assert tables.snapshot("a").version == 4
    seen.expect(2, "the entry, then the next one and the boundary")


def test_a_query_between_polls_costs_no_request(lake: Lake) -> None:
    tables = lake.tables("lake")
    tables.poll_now()
    with lake.far.watch() as seen:
        tables.snapshot("a")
    seen.expect(0, "the snapshot that is held")

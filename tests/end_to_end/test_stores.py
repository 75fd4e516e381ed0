"""Crash points and races of append, ship and replicate on the real S3 servers, through both
clients, in a bounded number.

The memory bucket is where all points are tried; here a few show that the stores keep what it
promises.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.local import LocalBucket
from blockstore.care.replicate import Replicator
from blockstore.care.ship import Shipper
from blockstore.care.ship.build import build_block
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.state import State
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.care.replicate.replicas import collected, go_on
from tests.support.faulty import FaultyBucket, Killed
from tests.support.tally import tally

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
DEFINITION = Definition.create(SCHEMA, sort_by=["row"])
POINTS = 7
"""Crash points a scenario and store, spread over its calls."""

WRITERS = 4
APPENDS = 4

RGW = [pytest.mark.s3, pytest.mark.xdist_group("rgw")]
STORES = [
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("obstore-s3", marks=pytest.mark.s3),
    pytest.param("rgw", marks=RGW),
    pytest.param("obstore-rgw", marks=RGW),
]

Rows = Counter[tuple[str, int]]


def rows(writer: str) -> pa.Table:
    return pa.table({"writer": [writer] * 3, "row": [0, 1, 2]}, schema=SCHEMA)


def expected(**times: int) -> Rows:
    return Counter({(writer, row): n for writer, n in times.items() for row in range(3) if n})


@dataclass
class Store:
    """A real server, and a fresh place on it for each point."""

    url: str
    client: str
    world: World
    folder: Path
    places: int = 0

    def bucket(self) -> Bucket:
        self.places += 1
        return open_bucket(f"{self.url}/{self.places}{self.client}", self.world)

    def table(self) -> Bucket:
        """A table of two blocks."""
        bucket = self.bucket()
        index_log.create(bucket, self.world, DEFINITION)
        for writer in ("a", "b"):
            Table.open_bucket(bucket, self.world).append(rows(writer))
        return bucket

    def device(self, *writers: str) -> Bucket:
        """A folder with a finished block of each writer."""
        self.places += 1
        folder = LocalBucket(self.folder / str(self.places), self.world.clock, durable=False)
        for writer in writers:
            assert build_block(folder, self.world, DEFINITION, rows(writer)) is not None
        return folder


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind = request.param.removeprefix("obstore-")
    client = "?client=obstore" if request.param.startswith("obstore") else ""
    return Store(request.getfixturevalue(f"{kind}_url"), client, World.real(), tmp_path)


def read(bucket: Bucket, world: World) -> Rows:
    table = Table.open_bucket(bucket, world).snapshot().scan().to_table()
    return Counter(zip(table["writer"].to_pylist(), table["row"].to_pylist(), strict=True))


def points(act: Callable[[FaultyBucket], object], bucket: Bucket) -> Iterator[dict[str, object]]:
    """Faults spread over the calls of an act, which is tried once to count them."""
    counting = FaultyBucket(bucket)
    act(counting)
    step = max(1, len(counting.calls) // POINTS)
    for number in range(1, len(counting.calls) + 1, step):
        tally("crash points on real servers")
        fault = ("kill_before", "kill_after", "lose_answer")[number % 3]
        yield {fault: {number} if fault == "lose_answer" else number}


def attempt(
    act: Callable[[FaultyBucket], object], bucket: Bucket, fault: dict[str, object]
) -> object:
    try:
        return act(FaultyBucket(bucket, **fault))  # type: ignore[arg-type]
    except (Killed, bs.BlockstoreError):
        return None


def test_an_append_that_died_is_there_whole_or_not_at_all(store: Store) -> None:
    def act(bucket: FaultyBucket) -> object:
        return Table.open_bucket(bucket, store.world).append(rows("new"))

    for fault in points(act, store.table()):
        bucket = store.table()
        answer = attempt(act, bucket, fault)
        found = read(bucket, store.world)
        assert found in (expected(a=1, b=1), expected(a=1, b=1, new=1)), fault
        if isinstance(answer, bs.AppendedBlock) and answer.published:
            assert found == expected(a=1, b=1, new=1), fault
        Table.open_bucket(bucket, store.world).append(rows("other"))
        assert read(bucket, store.world) == found + expected(other=1), fault


def test_a_shipper_that_died_ships_every_row_once(store: Store) -> None:
    def ship(folder: Bucket) -> Callable[[FaultyBucket], object]:
        return lambda bucket: Shipper(folder, bucket, store.world).once()

    for fault in points(ship(store.device("x", "y")), store.table()):
        bucket, folder = store.table(), store.device("x", "y")
        attempt(ship(folder), bucket, fault)
        Shipper(folder, bucket, store.world).once()
        assert read(bucket, store.world) == expected(a=1, b=1, x=1, y=1), fault


def test_a_replication_that_died_is_an_earlier_version_and_then_the_same(store: Store) -> None:
    source = store.table()
    earlier = [expected(), expected(a=1), expected(a=1, b=1)]

    def act(bucket: FaultyBucket) -> object:
        return Replicator(source, bucket, store.world).once()

    for fault in points(act, store.bucket()):
        bucket = store.bucket()
        attempt(act, bucket, fault)
        try:
            assert read(bucket, store.world) in earlier, fault
        except bs.NotFound:
            pass
        Replicator(source, bucket, store.world).once()
        assert read(bucket, store.world) == expected(a=1, b=1), fault


def test_appends_of_several_handles_at_once_are_all_there_once(store: Store) -> None:
    bucket = store.table()
    start = threading.Barrier(WRITERS)

    def write(number: int) -> list[bool]:
        table = Table.open_bucket(bucket, store.world)
        start.wait()
        return [table.append(rows(f"w{number}-{block}")).published for block in range(APPENDS)]

    answers = World.real(workers=WRITERS).pool.map(write, range(WRITERS))
    assert answers == [[True] * APPENDS] * WRITERS
    names = [f"w{number}-{block}" for number in range(WRITERS) for block in range(APPENDS)]
    assert read(bucket, store.world) == expected(a=1, b=1, **dict.fromkeys(names, 1))


def test_shippers_of_one_folder_at_once_ship_every_row_once(store: Store) -> None:
    bucket, folder = store.table(), store.device("x", "y", "z")
    start = threading.Barrier(3)

    def ship(_: int) -> int:
        shipper = Shipper(folder, bucket, store.world)
        start.wait()
        return len(shipper.once().refused)

    assert World.real(workers=3).pool.map(ship, range(3)) == [0, 0, 0]
    assert read(bucket, store.world) == expected(a=1, b=1, x=1, y=1, z=1)


def test_replications_at_once_end_as_one(store: Store) -> None:
    source, target = store.table(), store.bucket()
    start = threading.Barrier(3)

    def copy(_: int) -> int | None:
        start.wait()
        return Replicator(source, target, store.world).once().version

    assert World.real(workers=3).pool.map(copy, range(3)) == [3, 3, 3]
    assert read(target, store.world) == expected(a=1, b=1)


def test_a_replica_of_a_collected_table_moves_the_stores_own_boundary(store: Store) -> None:
    """By If-Match: begun above the source's boundary, left behind by it, and brought up to it
    again."""
    pair = collected()
    pair.target = open_bucket(f"{store.url}/replica{store.client}", pair.source.world)  # type: ignore[assignment]
    pair.replicate()
    assert pair.replica().open().log.boundary.read() == pair.source.open().log.boundary.read() + 1
    assert pair.replica().found() == pair.source.found()
    go_on(pair, "i", "j")
    pair.replicate()
    assert pair.replica().open().log.boundary.read() == pair.source.open().log.boundary.read() + 1
    assert pair.replica().found() == pair.source.found()
    assert contents(pair.replica().open().log.state) == contents(pair.source.open().log.state)


def contents(state: State) -> set[str]:
    return set(state.blocks.ulids())

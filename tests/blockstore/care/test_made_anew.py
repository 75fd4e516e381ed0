"""Values kept between passes while a table is dropped and another one made under its name: never a
mix of the two."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.care.replicate import Replicator
from blockstore.care.ship import Shipper
from blockstore.care.ship.build import build_block
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

DEFINITION = Definition.create(pa.schema([("x", pa.int64())]))


class Made:
    """A table, or a folder, in memory."""

    def __init__(self, world: World, url: str, *numbers: int) -> None:
        self.world = world
        self.bucket = MemoryBucket(world.clock, url)
        if numbers:
            self.make(*numbers)

    def make(self, *numbers: int) -> None:
        """A table of one version for each number, and its first."""
        index_log.create(self.bucket, self.world, DEFINITION)
        self.append(*numbers)

    def append(self, *numbers: int) -> None:
        for number in numbers:
            self.world.clock.sleep(1)
            self.open().append(pa.table({"x": [number]}))

    def make_anew(self, *numbers: int) -> None:
        self.drop()
        self.make(*numbers)

    def drop(self) -> None:
        self.bucket.delete([found.key for found in self.bucket.list()])

    def build(self, number: int) -> str:
        """A finished block in a folder."""
        self.world.clock.sleep(1)
        meta = build_block(self.bucket, self.world, DEFINITION, pa.table({"x": [number]}))
        assert meta is not None
        return meta.ulid

    def open(self) -> Table:
        return Table.open_bucket(self.bucket, self.world)

    def numbers(self) -> Counter[int]:
        return Counter(self.open().snapshot().scan().to_table()["x"].to_pylist())

    def contents(self) -> dict[str, bytes]:
        return {found.key: self.bucket.get(found.key).data for found in self.bucket.list()}

    def entries(self) -> list[int]:
        return [entry.id for entry in self.open().log.entries()]


@pytest.fixture
def world() -> World:
    return World.manual(seed=11)


@pytest.fixture
def source(world: World) -> Made:
    return Made(world, "memory://source", 1, 2, 3)


@pytest.fixture
def replica(world: World) -> Made:
    return Made(world, "memory://replica")


ANEW = [
    pytest.param((101, 102, 103, 104, 105, 106), id="more versions"),
    pytest.param((101, 102, 103), id="as many"),
    pytest.param((101,), id="fewer"),
]


class TestFollow:
    @pytest.mark.parametrize("numbers", ANEW)
    def test_answers_another_handle_for_a_table_made_anew(
        self, world: World, source: Made, numbers: tuple[int, ...]
    ) -> None:
        log = Log(source.bucket, world)
        assert log.follow() is log
        source.make_anew(*numbers)
        anew = log.follow()
        assert anew is not log
        assert anew.state == Log(source.bucket, world).poll()
        assert anew.follow() is anew

    def test_answers_itself_as_its_table_goes_on(self, world: World, source: Made) -> None:
        log = Log(source.bucket, world)
        for number in range(4):
            source.append(number)
            assert log.follow() is log
            assert log.state.version == 5 + number

    def test_costs_one_small_request_more_than_a_poll(self, world: World, source: Made) -> None:
        metered = Metered(source.bucket)
        log = Log(metered, world)
        log.poll()
        metered.reset()
        log.follow()
        assert metered.counts.total() <= 3

    def test_takes_nothing_before_it_knows(self, world: World, source: Made) -> None:
        faulty, left = FaultyBucket(source.bucket), [True]
        log = Log(faulty, world)
        known = log.poll()

        def interfere(call: Call) -> None:
            if call.key == entry_key(known.version) and left:
                left.pop()
                raise bs.Unavailable("the store does not answer")

        faulty.before.append(interfere)
        source.make_anew(101, 102, 103, 104, 105, 106)
        with pytest.raises(bs.Unavailable):
            log.follow()
        assert log.state is known
        assert log.follow().state == Log(source.bucket, world).poll()

    def test_says_of_a_boundary_that_fell_what_a_poll_says(
        self, world: World, source: Made
    ) -> None:
        log = Log(source.bucket, world)
        write_checkpoint(source.bucket, log.poll())
        log.boundary.advance(2)
        log.follow()
        source.bucket.put(BOUNDARY, b"0")
        with pytest.raises(bs.BoundaryLost):
            log.follow()

    def test_a_table_that_is_dropped_is_not_found(self, world: World, source: Made) -> None:
        log = Log(source.bucket, world)
        log.poll()
        source.drop()
        with pytest.raises(bs.NotFound):
            log.follow()


class TestReplicator:
    @pytest.mark.parametrize("numbers", ANEW)
    @pytest.mark.parametrize("collected", [False, True])
    def test_a_source_made_anew_conflicts_and_the_replica_stays(
        self, world: World, source: Made, replica: Made, numbers: tuple[int, ...], collected: bool
    ) -> None:
        if collected:
            log = source.open().log
            write_checkpoint(source.bucket, log.at(3))
            log.boundary.advance(2)
        kept = Replicator(source.bucket, replica.bucket, world)
        assert kept.once().version == 4
        before = replica.contents()
        source.make_anew(*numbers)
        for _ in range(2):
            with pytest.raises(bs.Conflict, match="not a replica"):
                kept.once()
            assert replica.contents() == before
        assert replica.numbers() == Counter([1, 2, 3])

    def test_a_source_made_anew_within_a_pass_conflicts_too(
        self, world: World, source: Made, replica: Made
    ) -> None:
        faulty = FaultyBucket(source.bucket)
        kept = Replicator(faulty, replica.bucket, world)
        kept.once()
        before = replica.contents()
        source.append(4)
        asked: list[str] = []

        def interfere(call: Call) -> None:
            # First by the poll, then by the copy.
            if call.key == entry_key(5):
                asked.append(call.key)
                if len(asked) == 2:
                    source.make_anew(101, 102, 103, 104, 105, 106)

        faulty.before.append(interfere)
        with pytest.raises(bs.BlockstoreError):
            kept.once()
        with pytest.raises(bs.Conflict, match="not a replica"):
            kept.once()
        assert replica.contents() == before

    @pytest.mark.parametrize("numbers", ANEW)
    def test_a_replica_made_anew_by_somebody_conflicts(
        self, world: World, source: Made, replica: Made, numbers: tuple[int, ...]
    ) -> None:
        kept = Replicator(source.bucket, replica.bucket, world)
        kept.once()
        replica.make_anew(*numbers)
        before = replica.contents()
        source.append(4)
        with pytest.raises(bs.Conflict, match="not a replica"):
            kept.once()
        assert replica.contents() == before

    def test_a_replica_that_is_removed_is_made_again(
        self, world: World, source: Made, replica: Made
    ) -> None:
        kept = Replicator(source.bucket, replica.bucket, world)
        kept.once()
        replica.drop()
        source.append(4)
        assert kept.once().version == 5
        assert replica.numbers() == source.numbers() == Counter([1, 2, 3, 4])

    def test_a_source_that_is_dropped_is_told_and_followed_no_more(
        self, world: World, source: Made, replica: Made
    ) -> None:
        kept = Replicator(source.bucket, replica.bucket, world)
        kept.once()
        before = replica.contents()
        source.drop()
        for _ in range(2):
            with pytest.raises(bs.NotFound):
                kept.once()
        source.build(9)
        with pytest.raises(bs.Conflict, match="has an index"):
            kept.once()
        assert replica.contents() == before

    def test_a_source_that_goes_on_is_followed(
        self, world: World, source: Made, replica: Made
    ) -> None:
        kept = Replicator(source.bucket, replica.bucket, world)
        for number in range(4):
            source.append(number)
            assert kept.once().version == 5 + number
        assert replica.numbers() == source.numbers()


class TestShipper:
    @pytest.mark.parametrize("numbers", ANEW)
    @pytest.mark.parametrize("remove", [True, False])
    def test_a_table_made_anew_is_shipped_to_as_it_is(
        self, world: World, numbers: tuple[int, ...], remove: bool
    ) -> None:
        table = Made(world, "memory://table", 1, 2, 3)
        folder = Made(world, "memory://folder")
        kept = Shipper(folder.bucket, table.bucket, world, remove_shipped=remove)
        first = folder.build(50)
        kept.once()
        table.make_anew(*numbers)
        ulid = folder.build(51)
        report = kept.once()
        # What the folder still has, the new table has not: it is shipped again.
        again = [] if remove else [(first, 50)]
        ships = [*again, (ulid, 51)]
        version = len(numbers) + 1
        assert [(one.ulid, one.version) for one in report.shipped] == [
            (name, version + place) for place, (name, _) in enumerate(ships, start=1)
        ]
        assert table.entries() == list(range(1, version + len(ships) + 1))
        arrived = [number for _, number in ships]
        assert table.numbers() == Counter([*numbers, *arrived])
        assert report.removed == ((ulid,) if remove else ())
        table.append(60)
        assert table.numbers() == Counter([*numbers, *arrived, 60])

    def test_a_table_that_is_dropped_gets_nothing(self, world: World) -> None:
        table = Made(world, "memory://table", 1, 2, 3)
        folder = Made(world, "memory://folder")
        kept = Shipper(folder.bucket, table.bucket, world)
        folder.build(50)
        kept.once()
        table.drop()
        folder.build(51)
        with pytest.raises(bs.NotFound):
            kept.once()
        assert not table.contents()

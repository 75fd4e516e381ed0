"""Retention: what is old enough leaves the table, and nothing younger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.retention import plan_retention, retain
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Fenced
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.names import DELETION_MARK
from blockstore.operations.unindexed import Unindexed, declare
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.lake import DAY_S, START_MS, quietly
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket, crash_points
from tests.support.tally import tally

DAY_MS = 86_400_000
SCHEMA = pa.schema([("time", pa.timestamp("ms", tz="UTC")), ("n", pa.int64())])


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


class Aging:
    """A table whose blocks hold a day each, the first of them forty days ago."""

    def __init__(self, *, indexed: bool, retention: str | None = "30d", seed: int = 1) -> None:
        self.indexed = indexed
        self.world = World.manual(seed=seed, now_ms=START_MS)
        self.bucket = MemoryBucket(self.world.clock)
        properties = Properties.parse({} if retention is None else {"retention": retention})
        self.definition = Definition.create(
            SCHEMA, time_column="time", sort_by=["time"], properties=properties
        )
        if indexed:
            index_log.create(self.bucket, self.world, self.definition)
        self.blocks: dict[int, str] = {}
        for days in (40, 31, 30, 10):
            self.append(days)
        self.world.clock.sleep(0.1 * DAY_S)

    def append(self, days: int, labels: dict[str, str] | None = None) -> None:
        """Rows of the day that began so many days before the start."""
        first = START_MS - days * DAY_MS
        times = pa.array([first, first + DAY_MS - 1], pa.timestamp("ms", tz="UTC"))
        data = pa.table({"time": times, "n": [days, days]}, schema=SCHEMA)
        ulid = self.open().append(data, labels=labels).ulid
        assert ulid is not None
        self.blocks[days] = ulid

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        if self.indexed:
            return Table.open_bucket(bucket or self.bucket, self.world)
        unindexed = Unindexed(self.definition, given=True)
        return Table(bucket or self.bucket, self.world, unindexed)

    def held(self) -> Held | None:
        return claim(self.open().log, self.world, COMPACTOR) if self.indexed else None

    def days(self) -> list[int]:
        found = self.open().snapshot().scan(columns=["n"]).to_table()["n"].to_pylist()
        return sorted(set(found), reverse=True)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_block_leaves_when_its_last_row_is_old_enough(indexed: bool) -> None:
    """The block of 31 days ago ends 30 days ago, exclusively."""
    aging = Aging(indexed=indexed)
    assert aging.days() == [40, 31, 30, 10]
    planned = plan_retention(aging.open())
    assert (planned.dry_run, aging.days()) == (True, [40, 31, 30, 10])
    retained = retain(aging.open(), aging.held())
    assert set(retained.blocks) == set(planned.blocks) == {aging.blocks[40], aging.blocks[31]}
    assert (retained.rows, retained.failed) == (4, {})
    assert aging.days() == [30, 10]
    assert retain(aging.open(), aging.held()).blocks == ()


def test_with_an_index_they_leave_by_one_entry_that_says_why() -> None:
    aging = Aging(indexed=True)
    retained = retain(aging.open(), aging.held())
    [entry] = [entry for entry in aging.open().log.entries() if entry.id == retained.version]
    assert (entry.operation, entry.role, len(entry.remove)) == ("expire", "compactor", 2)
    assert entry.parameters["reason"] == "retention"
    assert "720h" in str(entry.parameters["details"])


@pytest.mark.parametrize("indexed", [True, False])
def test_without_the_property_nothing_leaves(indexed: bool) -> None:
    aging = Aging(indexed=indexed, retention=None)
    retained = retain(aging.open(), aging.held())
    assert (retained.retention_s, retained.blocks) == (None, ())
    assert aging.days() == [40, 31, 30, 10]


def test_the_stores_clock_decides() -> None:
    aging = Aging(indexed=True)
    table = aging.open()
    ahead = replace(aging.world, clock=World.manual(now_ms=START_MS + 100 * DAY_MS).clock)
    table.world = ahead
    assert len(plan_retention(table).blocks) == 2


def test_without_an_index_only_what_readers_see_is_marked_and_a_declaration_stays(
    tmp_path: Path,
) -> None:
    aging = Aging(indexed=False, retention="45d")
    declared = declare(aging.bucket, aging.world, aging.definition).ulid
    aging.append(40)
    aging.world.clock.sleep(0.1 * DAY_S)
    compact_once(aging.open(), Settings(tier_blocks=2, work_dir=tmp_path))
    aging.world.clock.sleep(60 * DAY_S)
    seen = {block.meta.ulid for block in aging.open().snapshot().snapshot.listed}
    assert not seen >= {*aging.blocks.values()}, "some blocks are merged"
    retained = retain(aging.open(), None)
    assert set(retained.blocks) == seen - {declared}
    marked = {found.key[:26] for found in aging.bucket.list() if found.key.endswith(DELETION_MARK)}
    assert marked == set(retained.blocks)
    assert aging.days() == []


def test_a_block_that_is_merged_meanwhile_is_looked_at_again(tmp_path: Path) -> None:
    aging = Aging(indexed=True)
    faulty = FaultyBucket(aging.bucket)
    table, held = aging.open(faulty), aging.held()
    waiting = [True]

    def merge(call: Call) -> None:
        if call.method == "put_if_absent" and waiting:
            waiting.clear()
            settings = Settings(tier_blocks=2, work_dir=tmp_path, ranges_ms=(DAY_MS, 365 * DAY_MS))
            compact_once(aging.open(), settings)

    faulty.before.append(merge)
    before = aging.days()
    retained = retain(table, held)
    assert set(aging.days()) | {40, 31} == set(before)
    assert set(retained.blocks) <= {*aging.blocks.values()} or retained.blocks == ()


def test_another_holder_of_the_role_stops_it() -> None:
    aging = Aging(indexed=True)
    held = aging.held()
    aging.held()
    with pytest.raises(Fenced):
        retain(aging.open(), held)
    assert aging.days() == [40, 31, 30, 10]


@pytest.mark.parametrize("indexed", [True, False])
def test_every_crash_leaves_a_table_that_the_next_run_finishes(indexed: bool) -> None:
    aging = Aging(indexed=indexed)
    counting = FaultyBucket(aging.bucket)
    retain(aging.open(counting), aging.held())
    for fault, call in crash_points(counting.calls):
        tally("crash points")
        aging = Aging(indexed=indexed)
        held = aging.held()
        argument = {call.number} if fault == "lose_answer" else call.number
        faulty = FaultyBucket(aging.bucket, **{fault: argument})  # type: ignore[arg-type]
        quietly(lambda aging=aging, faulty=faulty, held=held: retain(aging.open(faulty), held))  # type: ignore[misc]
        assert {30, 10} <= set(aging.days()), (fault, call)
        retain(aging.open(), aging.held())
        assert aging.days() == [30, 10], (fault, call)


@pytest.mark.parametrize("indexed", [True, False])
def test_nothing_of_a_skipped_stream_leaves_the_table(indexed: bool) -> None:
    aging = Aging(indexed=indexed)
    aging.append(45, {"cluster": "us"})
    aging.append(44, {"cluster": "eu"})
    aging.world.clock.sleep(0.1 * DAY_S)
    retained = retain(aging.open(), aging.held(), skip=(("cluster", "us"),))
    assert set(retained.blocks) == {aging.blocks[days] for days in (40, 31, 44)}
    assert aging.days() == [45, 30, 10]
    assert retain(aging.open(), aging.held()).blocks == (aging.blocks[45],)

"""Tables without an index: created by their first block, read by listing, clear about what they
cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.format.marks import MarkReason
from blockstore.format.meta import encode, load_meta
from blockstore.format.properties import Properties
from blockstore.index.presence import exists
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.mark import place_deletion, withdraw_deletion
from blockstore.names import BOUNDARY, INDEX, entry_key, meta_key, object_key
from blockstore.operations.place import check_place
from blockstore.operations.unindexed import Unindexed, declare
from blockstore.table import Table, open_any
from blockstore.world import World
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.rows import multiset
from tests.support.tally import tally

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32())])
WAIT_S = 16 * 60


def rows(*numbers: int) -> pa.Table:
    return pa.table({"k": ["a"] * len(numbers), "n": list(numbers)}, schema=SCHEMA)


def numbers(table: bs.Table, **options: object) -> list[int]:
    return sorted(table.snapshot(**options).scan().to_table()["n"].to_pylist())  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World.manual(seed=2)


@pytest.fixture(params=["memory", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"memory://{tmp_path.name}-plain" if request.param == "memory" else str(tmp_path / "table")
    )


@pytest.fixture
def table(url: str, world: World) -> bs.Table:
    return bs.create(url, schema=SCHEMA, sort_by=["n"], index=False, world=world)


class TestLife:
    def test_nothing_is_written_before_the_first_block(self, table: bs.Table) -> None:
        assert list(table.bucket.list()) == []
        assert table.snapshot().count() == 0
        assert not table.indexed

    def test_blocks_are_visible_by_their_age_and_there_is_no_index(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        block = table.append(rows(2, 1))
        assert (block.version, block.published) == (None, False)
        with table.writer() as writer:
            writer.write(rows(3))
        assert numbers(table) == []
        world.clock.sleep(WAIT_S)
        assert numbers(table) == [1, 2, 3]
        assert not [found for found in table.bucket.list() if found.key.startswith((INDEX, "gc/"))]
        other = bs.open(url, discovery="list", world=world)
        assert numbers(other) == [1, 2, 3]
        assert other.definition == table.definition
        snapshot = other.snapshot()
        assert (snapshot.version, len(snapshot.blocks)) == (None, 2)
        assert {one.version for one in snapshot.blocks} == {0}

    def test_the_delays_are_the_callers(self, url: str, world: World) -> None:
        table = bs.create(
            url, schema=SCHEMA, index=False, properties={"sync_delay": "0s"}, world=world
        )
        table.append(rows(1))
        assert numbers(table) == [1]
        assert numbers(bs.open(url, discovery="list", world=world)) == []
        assert numbers(
            bs.open(url, discovery="list", properties={"sync_delay": 0}, world=world)
        ) == [1]
        with pytest.raises(bs.Invalid, match="sync_delay"):
            bs.open(
                url,
                discovery="list",
                properties={"consistency": "eventual", "sync_delay": "1m"},
                world=world,
            )

    def test_a_handle_writes_on_what_was_opened_and_alters_for_its_next_block(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        table.append(rows(1))
        other = bs.open(url, discovery="list", world=world)
        other.append(rows(2))
        other.alter(add=[pa.field("x", pa.string())], widen={"n": pa.int64()})
        assert numbers(table) == []
        other.append(pa.table({"k": ["b"], "n": [2**40], "x": ["y"]}))
        table.append(rows(3))
        world.clock.sleep(WAIT_S)
        for handle in (table, other, bs.open(url, discovery="list", world=world)):
            found = handle.snapshot().scan().to_table()
            assert found.schema.names == ["k", "n", "x"]
            assert sorted(found["n"].to_pylist()) == [1, 2, 3, 2**40]
            assert sorted(filter(None, found["x"].to_pylist())) == ["y"]
        assert table.definition.schema.names == ["k", "n"], (
            "a handle writes under what it was created with"
        )

    def test_labels_keep_streams_apart_and_read_as_columns(
        self, table: bs.Table, world: World
    ) -> None:
        for cluster in ("eu", "us"):
            table.append(rows(1), labels={"cluster": cluster})
        world.clock.sleep(WAIT_S)
        found = table.snapshot().scan(where="cluster = 'eu'").to_table()
        assert found.to_pylist() == [{"k": "a", "n": 1, "cluster": "eu"}]

    def test_a_persons_mark_hides_a_block_and_its_withdrawal_shows_it(
        self, table: bs.Table, world: World
    ) -> None:
        block = table.append(rows(1)).ulid
        world.clock.sleep(WAIT_S)
        assert numbers(table) == [1]
        assert block is not None
        place_deletion(table.bucket, world, block, MarkReason.MANUAL, "wrong")
        assert numbers(table) == []
        withdraw_deletion(table.bucket, table.world, block)
        assert numbers(table) == [1]

    def test_an_unanswered_append_is_resumed(self, table: bs.Table, world: World) -> None:
        block = table.append(rows(1))
        again = table.append(rows(1), resume=block.ulid)
        assert again.ulid == block.ulid
        world.clock.sleep(WAIT_S)
        assert numbers(table) == [1]

    def test_what_was_read_survives_the_process_where_a_cache_is_given(
        self, table: bs.Table, url: str, world: World, tmp_path: Path
    ) -> None:
        table.append(rows(1))
        world.clock.sleep(WAIT_S)
        for _ in range(2):
            assert numbers(
                bs.open(url, discovery="list", cache=tmp_path / "cache", world=world)
            ) == [1]
        assert (tmp_path / "cache").is_file()

    @pytest.mark.parametrize("index", [True, False])
    def test_a_handle_that_lists_reads_each_block_once(
        self, index: bool, url: str, world: World
    ) -> None:
        table = bs.create(url, schema=SCHEMA, index=index, world=world)
        for number in range(3):
            table.append(rows(number), publish=False)
        world.clock.sleep(WAIT_S)
        metered = Metered(table.bucket)
        lister = Table.open_bucket(metered, world, discovery="list")
        assert numbers(lister) == [0, 1, 2]
        metered.reset()
        assert lister.snapshot().count() == 3
        assert metered.counts["list"] == 1
        assert metered.counts["get"] == (2 if index else 0), (
            "the two small requests of a poll, and no block's"
        )

    def test_a_declared_table_is_known_before_it_has_rows(self, url: str, world: World) -> None:
        table = bs.create(url, schema=SCHEMA, sort_by=["n"], index=False, world=world)
        declare(table.bucket, world, table.definition)
        other = bs.open(url, discovery="list", world=world)
        assert other.definition == table.definition
        other.append(rows(1))
        world.clock.sleep(WAIT_S)
        assert numbers(other) == [1]
        assert other.snapshot().count() == 1


class TestNotWithoutAnIndex:
    @pytest.mark.parametrize(
        "call",
        [
            lambda table: table.poll(),
            lambda table: list(table.history()),
            lambda table: table.diff(1, 2),
            lambda table: table.snapshot(version=1),
            lambda table: table.snapshot(as_of=0),
            lambda table: table.alter(properties={"sync_delay": "1m"}, message="why"),
            lambda table: table.append(rows(1), job=bs.Job("load", 1)),
            lambda table: table.writer(job=bs.Job("load", 1)),
        ],
    )
    def test_it_says_so_in_a_sentence_and_nothing_is_written(
        self, table: bs.Table, call: Callable[[bs.Table], object]
    ) -> None:
        with pytest.raises(bs.Invalid, match="has no index"):
            call(table)
        assert list(table.bucket.list()) == []

    def test_the_log_is_none_for_those_who_can_do_without(self, table: bs.Table) -> None:
        assert table.log_or_none is None


class TestOpening:
    def test_a_place_with_nothing_is_not_found_and_says_what_to_do(
        self, url: str, world: World
    ) -> None:
        for opened in (
            lambda: bs.open(url, discovery="list", world=world),
            lambda: bs.open(url, world=world),
            lambda: open_any(url, world=world),
        ):
            with pytest.raises(bs.NotFound, match="create one"):
                opened()

    def test_an_upload_that_has_not_ended_makes_no_table(self, url: str, world: World) -> None:
        table = bs.create(url, schema=SCHEMA, index=False, world=world)
        table.bucket.put(object_key(world.ids.ulid(), "chunks/000001.parquet"), b"data")
        with pytest.raises(bs.NotFound, match="nor a complete block"):
            bs.open(url, discovery="list", world=world)

    def test_blocks_that_cannot_be_read_are_named(self, url: str, world: World) -> None:
        table = bs.create(url, schema=SCHEMA, index=False, world=world)
        name = world.ids.ulid()
        table.bucket.put(meta_key(name), b"garbage")
        with pytest.raises(bs.Corrupt, match=name):
            bs.open(url, discovery="list", world=world)

    def test_by_index_it_is_not_found_and_the_way_in_is_told(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        table.append(rows(1))
        with pytest.raises(bs.NotFound, match="discovery='list'"):
            bs.open(url, world=world)
        assert not open_any(url, world=world).indexed

    def test_a_table_with_an_index_keeps_it_however_it_is_opened(
        self, url: str, world: World
    ) -> None:
        bs.create(url, schema=SCHEMA, world=world).append(rows(1))
        for handle in (bs.open(url, discovery="list", world=world), open_any(url, world=world)):
            assert handle.indexed
            assert numbers(handle) == [1]
        with pytest.raises(bs.Invalid, match="alter"):
            bs.open(url, discovery="list", properties={"sync_delay": "1m"}, world=world)

    def test_entries_without_a_boundary_stay_a_lost_boundary(self, url: str, world: World) -> None:
        table = bs.create(url, schema=SCHEMA, world=world)
        table.append(rows(1))
        table.bucket.delete([BOUNDARY])
        for discovery in ("index", "list"):
            with pytest.raises(bs.BoundaryLost):
                bs.open(url, discovery=discovery, world=world)
        with pytest.raises(bs.BoundaryLost):
            open_any(url, world=world)

    def test_a_creation_that_never_ended_is_no_table_without_an_index(
        self, url: str, world: World
    ) -> None:
        table = bs.create(url, schema=SCHEMA, world=world)
        table.append(rows(1))
        table.bucket.delete([found.key for found in table.bucket.list(INDEX)])
        with pytest.raises(bs.NotFound):
            bs.open(url, discovery="list", world=world)

    def test_a_table_that_lost_its_index_whole_is_not_read_as_a_smaller_one(
        self, url: str, world: World
    ) -> None:
        table = bs.create(url, schema=SCHEMA, world=world)
        table.append(rows(1))
        job = table.append(rows(2), job=bs.Job("load", 1)).ulid
        world.clock.sleep(WAIT_S)
        table.bucket.delete([*(found.key for found in table.bucket.list(INDEX)), BOUNDARY])
        with pytest.raises(bs.Corrupt, match="index rebuild"):
            open_any(url, world=world)
        trusting = bs.open(url, discovery="list", world=world)
        assert numbers(trusting) == [1]
        assert set(trusting.snapshot().left_out) == {job}
        with pytest.raises(bs.Corrupt, match=str(job)):
            trusting.snapshot(strict=True)

    def test_malformed_blocks_are_left_out_by_name_or_fail_a_strict_handle(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        table.append(rows(1))
        bad = table.append(rows(2)).ulid
        assert bad is not None
        table.bucket.put(meta_key(bad), b"{")
        world.clock.sleep(WAIT_S)
        assert numbers(table) == [1]
        assert set(table.snapshot().left_out) == {bad}
        assert bad in table.snapshot().left_out[bad]
        strict = bs.open(url, discovery="list", strict=True, world=world)
        with pytest.raises(bs.Corrupt, match=bad):
            strict.snapshot()
        assert numbers(strict, strict=False) == [1]

    def test_a_block_of_another_schema_is_left_out_by_name(
        self, table: bs.Table, world: World
    ) -> None:
        table.append(rows(1))
        world.clock.sleep(1)
        strange = Table(
            table.bucket,
            world,
            Unindexed(
                bs.create(
                    "memory://elsewhere", schema=pa.schema([("n", pa.string())]), index=False
                ).definition,
                given=True,
            ),
        ).append(pa.table({"n": ["text"]}))
        world.clock.sleep(WAIT_S)
        assert numbers(table) == [1]
        assert set(table.snapshot().left_out) == {strange.ulid}


class TestColumnsOfASnapshot:
    """The same blocks have the same columns, no matter which process opened the table, and when."""

    def test_they_do_not_depend_on_what_a_handle_saw_when_it_was_opened(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        table.append(rows(1))
        world.clock.sleep(WAIT_S)
        wide = bs.open(url, discovery="list", world=world)
        wide.alter(add=[pa.field("extra", pa.int32())])
        bad = wide.append(rows(2).append_column("extra", pa.array([7], pa.int32())))
        world.clock.sleep(WAIT_S)
        early = bs.open(url, discovery="list", world=world)
        assert early.snapshot().scan().to_table().schema.names == ["k", "n", "extra"]
        assert bad.ulid is not None
        place_deletion(table.bucket, world, bad.ulid, MarkReason.MANUAL, "wrong")
        late = bs.open(url, discovery="list", world=world)
        for handle in (early, late, wide, table):
            assert handle.snapshot().scan().to_table().schema.names == ["k", "n"]
            assert handle.snapshot().definition == late.snapshot().definition
            assert numbers(handle) == [1]

    def test_what_a_handle_means_to_write_is_no_column_before_a_block_has_it(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        table.append(rows(1))
        world.clock.sleep(WAIT_S)
        table.alter(add=[pa.field("extra", pa.int32())])
        other = bs.open(url, discovery="list", world=world)
        assert table.snapshot().definition == other.snapshot().definition
        assert table.definition.schema.names == ["k", "n", "extra"]
        table.append(rows(2).append_column("extra", pa.array([7], pa.int32())))
        world.clock.sleep(WAIT_S)
        for handle in (table, other):
            assert handle.snapshot().scan().to_table().schema.names == ["k", "n", "extra"]

    def test_a_later_block_that_contradicts_pushes_out_no_rows_that_can_be_read(
        self, table: bs.Table, url: str, world: World
    ) -> None:
        first = table.append(rows(*range(20)))
        table.append(rows(20))
        world.clock.sleep(1)
        texts = bs.create("memory://another", schema=pa.schema([("n", pa.string())]), index=False)
        strange = Table(table.bucket, world, Unindexed(texts.definition, given=True)).append(
            pa.table({"n": ["text"] * 23})
        )
        assert first.ulid is not None
        assert strange.ulid is not None
        claims(table.bucket, strange.ulid, first.ulid)
        world.clock.sleep(WAIT_S)
        for handle in (table, bs.open(url, discovery="list", world=world)):
            assert numbers(handle) == list(range(21))
            assert set(handle.snapshot().left_out) == {strange.ulid}

    @pytest.mark.parametrize("aged", [False, True])
    def test_a_table_that_was_made_with_labels_has_them_as_columns(
        self, world: World, aged: bool
    ) -> None:
        bucket = MemoryBucket(world.clock, "memory://labeled")
        made = bs.create(
            "memory://x", schema=SCHEMA, index=False, labels={"site": "eu"}, world=world
        )
        declare(bucket, world, made.definition)
        if aged:
            world.clock.sleep(WAIT_S)
        for handle in (made, bs.Table(bucket, world, opened(bucket, world))):
            assert handle.snapshot().scan().to_table().schema.names == ["k", "n", "site"]


def opened(bucket: MemoryBucket, world: World) -> Unindexed:
    return Unindexed.open(Catalog(bucket, world), Properties(), trusting=False)


def claims(bucket: bs.Bucket, ulid: str, source: str) -> None:
    """Have a block say that it holds the rows of another one too, as a merge does."""
    meta = load_meta(bucket, ulid)
    bucket.put(meta_key(ulid), encode(replace(meta, level=2, sources=(source, ulid), own=True)))


class TestCreating:
    def test_where_a_table_is_there_is_a_conflict(self, url: str, world: World) -> None:
        first = bs.create(url, schema=SCHEMA, index=False, world=world)
        bs.create(url, schema=SCHEMA, index=False, world=world)
        first.append(rows(1))
        for index in (False, True):
            with pytest.raises(bs.Conflict, match="holds blocks"):
                bs.create(url, schema=SCHEMA, index=index, world=world)

    def test_where_a_table_with_an_index_is_there_is_a_conflict(
        self, url: str, world: World
    ) -> None:
        bs.create(url, schema=SCHEMA, world=world)
        with pytest.raises(bs.Conflict, match="already"):
            bs.create(url, schema=SCHEMA, index=False, world=world)

    def test_a_store_without_create_if_absent_has_tables_without_an_index_only(
        self, world: World
    ) -> None:
        class Overwriting(Wrapper):
            """A store that ignores If-None-Match."""

            def put_if_absent(self, key: str, data: bytes) -> str:
                return self.inner.put(key, data)

            def refuses_stale_writes(self) -> bool | None:
                return None

        bucket = Overwriting(MemoryBucket(world.clock, "memory://careless"))
        with pytest.raises(bs.Invalid, match="index=False"):
            check_place(bucket, world, index=True)
        check_place(bucket, world, index=False)
        assert list(bucket.list()) == [], "the measurement leaves nothing"

    def test_a_store_that_keeps_its_promises_may_have_both(self, world: World) -> None:
        class Unmeasured(Wrapper):
            def refuses_stale_writes(self) -> bool | None:
                return None

        bucket = Unmeasured(MemoryBucket(world.clock))
        check_place(bucket, world, index=True)
        check_place(bucket, world, index=False)

    def test_entry_one_alone_is_a_table_to_whoever_creates(self, world: World) -> None:
        bucket = MemoryBucket(world.clock)
        bucket.put(entry_key(1), b"{}")
        assert exists(bucket)
        with pytest.raises(bs.Conflict):
            check_place(bucket, world, index=False)


def _bytes(memory: MemoryBucket, world: World) -> Iterator[MemoryBucket]:
    while True:
        copy = MemoryBucket(world.clock)
        for found in memory.list():
            copy.put(found.key, memory.get(found.key).data)
        yield copy


def test_an_append_that_dies_at_any_request_is_whole_or_nothing(world: World) -> None:
    """Two writers; one dies.

    What was acknowledged is visible once, what was not is complete or absent.
    """
    origin = MemoryBucket(world.clock)

    def handle(bucket: object) -> Table:
        definition = bs.create("memory://shape", schema=SCHEMA, index=False, world=world).definition
        return Table(bucket, world, Unindexed(definition, given=True))  # type: ignore[arg-type]

    handle(origin).append(rows(1, 2))
    counting = FaultyBucket(next(_bytes(origin, world)))
    handle(counting).append(rows(3, 4))
    for fault, call in crash_points(counting.calls):
        tally("crash points")
        memory = next(_bytes(origin, world))
        argument = {call.number} if fault == "lose_answer" else call.number
        acknowledged = False
        try:
            handle(FaultyBucket(memory, **{fault: argument})).append(rows(3, 4))  # type: ignore[arg-type]
            acknowledged = True
        except (Killed, bs.BlockstoreError):
            pass
        handle(memory).append(rows(5))
        world.clock.sleep(WAIT_S)
        found = multiset(handle(memory).snapshot().scan().to_table())
        whole = multiset(pa.concat_tables([rows(1, 2), rows(3, 4), rows(5)]))
        without = multiset(pa.concat_tables([rows(1, 2), rows(5)]))
        assert found in ([whole] if acknowledged else [whole, without]), (fault, call)

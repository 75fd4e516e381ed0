"""The catalog: one LIST a sync, one GET a new block, and nothing believed that the listing does not
show."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import Unavailable
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.marks import DeletionMark, MarkReason, encode_mark
from blockstore.format.meta import encode
from blockstore.format.sources import write_sources
from blockstore.lifecycle.catalog import Catalog, Synced
from blockstore.lifecycle.listing import Damage
from blockstore.names import DELETION_MARK, deletion_mark_key, meta_key, object_key, sources_path
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, block, ulid
from tests.support.examples import few

SCHEMA = bytes(pa.schema([("n", pa.int64())]).serialize())
CHUNK = ChunkFile(path="chunks/000001.parquet", bytes=4, rows=1, sha256="0" * 64)


class Paged(Metered):
    """Counts the requests that a store with pages of 1,000 objects would have got."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        found = [
            *self.inner.list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
        ]
        self.add("list", max(1, -(-len(found) // 1000)))
        return iter(found)


@pytest.fixture
def world() -> World:
    return World.manual(seed=5, now_ms=START_MS)


@pytest.fixture
def memory(world: World) -> MemoryBucket:
    return MemoryBucket(world.clock)


@pytest.fixture
def bucket(memory: MemoryBucket) -> Paged:
    return Paged(memory)


def store(bucket: MemoryBucket | Metered, meta: BlockMeta) -> BlockMeta:
    meta = replace(meta, files=(CHUNK,), rows=1, schema=SCHEMA)
    bucket.put(object_key(meta.ulid, CHUNK.path), b"data")
    bucket.put(meta_key(meta.ulid), encode(meta))
    return meta


def mark(bucket: MemoryBucket, name: str, reason: MarkReason) -> None:
    bucket.put(
        deletion_mark_key(name),
        encode_mark(DeletionMark(ulid=name, deletion_time_s=0, reason=reason)),
    )


def costs(bucket: Paged, catalog: Catalog) -> tuple[Synced, dict[str, int]]:
    """One sync, and the requests that it made next to the look at the store's clock."""
    bucket.reset()
    synced = catalog.sync()
    return synced, {
        name: count for name, count in bucket.counts.items() if count and name != "now_ms"
    }


class TestRequests:
    def test_known_blocks_cost_the_pages_of_one_list_and_nothing_else(
        self, memory: MemoryBucket, bucket: Paged, world: World
    ) -> None:
        for number in range(1_050):
            store(memory, block(number))
        mark(memory, ulid(3), MarkReason.MANUAL)
        catalog = Catalog(bucket, world)
        first, requests = costs(bucket, catalog)
        assert requests == {"list": 3, "get": 1_051}
        assert (first.new, first.known) == (1_050, 0)
        again, requests = costs(bucket, catalog)
        assert requests == {"list": 3}
        assert (again.new, again.known) == (0, 1_050)
        assert again.found == first.found

    def test_a_new_block_costs_one_get_and_so_does_a_mark_that_is_new_or_another(
        self, memory: MemoryBucket, bucket: Paged, world: World
    ) -> None:
        store(memory, block(1))
        catalog = Catalog(bucket, world)
        catalog.sync()
        store(memory, block(2))
        synced, requests = costs(bucket, catalog)
        assert requests == {"list": 1, "get": 1}
        assert (synced.new, synced.known) == (1, 1)
        for reason in (MarkReason.MANUAL, MarkReason.REVERT):
            world.clock.sleep(1)
            mark(memory, ulid(1), reason)
            synced, requests = costs(bucket, catalog)
            assert requests == {"list": 1, "get": 1}
            assert synced.found[ulid(1)].mark is reason
        memory.delete([deletion_mark_key(ulid(1))])
        synced, requests = costs(bucket, catalog)
        assert requests == {"list": 1}
        assert synced.found[ulid(1)].mark is None

    def test_a_skipped_block_costs_nothing_and_what_was_read_of_it_is_kept(
        self, memory: MemoryBucket, bucket: Paged, world: World
    ) -> None:
        store(memory, block(1))
        catalog = Catalog(bucket, world)
        catalog.sync()
        store(memory, block(2))
        bucket.reset()
        assert catalog.sync(skip=lambda name: True).found == {}
        assert bucket.counts["get"] == 0
        _, requests = costs(bucket, catalog)
        assert requests == {"list": 1, "get": 1}

    def test_a_damaged_block_is_not_asked_for_again_until_something_of_it_changes(
        self, memory: MemoryBucket, bucket: Paged, world: World
    ) -> None:
        store(memory, block(1))
        memory.put(meta_key(ulid(1)), b"garbage")
        store(memory, block(2))
        memory.delete([object_key(ulid(2), CHUNK.path)])
        catalog = Catalog(bucket, world)
        first = catalog.sync()
        again, requests = costs(bucket, catalog)
        assert requests == {"list": 1}
        assert again.malformed == first.malformed == {Damage.UNREADABLE: 1, Damage.MISSING: 1}
        memory.put(object_key(ulid(2), CHUNK.path), b"data")
        world.clock.sleep(1)
        store(memory, block(1))
        assert catalog.sync().malformed == {}


class TestTrust:
    def test_a_meta_that_the_listing_shows_otherwise_is_read_again(
        self, memory: MemoryBucket, world: World
    ) -> None:
        store(memory, block(1))
        catalog = Catalog(memory, world)
        catalog.sync()
        other = replace(store(memory, block(1)), max_time=START_MS + 9)
        memory.put(meta_key(ulid(1)), encode(other))
        assert catalog.sync().found[ulid(1)].meta == other
        memory.delete([meta_key(ulid(1))])
        assert catalog.sync().found[ulid(1)].meta is None
        memory.delete([object_key(ulid(1), CHUNK.path)])
        assert catalog.sync().found == {}

    def test_what_a_second_look_showed_is_not_taken_for_what_the_listing_shows(
        self, memory: MemoryBucket, world: World
    ) -> None:
        """Where listings lag, the second look may show what has been replaced since."""
        meta = store(memory, block(1))
        mark(memory, meta.ulid, MarkReason.MANUAL)
        memory.delete([object_key(meta.ulid, CHUNK.path)])
        lagging = list(memory.list())
        world.clock.sleep(60)
        mark(memory, meta.ulid, MarkReason.MANUAL)

        class SecondLookLags(Wrapper):
            def list(
                self,
                prefix: str = "",
                *,
                start_after: str = "",
                recursive: bool = True,
                at_most: int | None = None,
            ) -> Iterator[ObjectInfo]:
                if prefix:
                    return iter([info for info in lagging if info.key.startswith(prefix)])
                return super().list(
                    prefix, start_after=start_after, recursive=recursive, at_most=at_most
                )

        catalog = Catalog(SecondLookLags(memory), world)
        assert catalog.sync().found[meta.ulid].damage is not None
        catalog.bucket = memory
        found = catalog.sync().found[meta.ulid]
        assert found.directory.objects[DELETION_MARK].modified_ms == START_MS + 60_000

    def test_a_list_of_sources_that_was_missing_and_came_back_is_seen(
        self, memory: MemoryBucket, world: World
    ) -> None:
        meta = block(5000, set(range(1001)))
        file = write_sources(memory, meta.ulid, meta.sources)
        assert file is not None
        whole = replace(meta, files=(file,), rows=0, schema=SCHEMA)
        memory.put(meta_key(meta.ulid), encode(whole))
        data = memory.get(object_key(meta.ulid, sources_path())).data
        memory.delete([object_key(meta.ulid, sources_path())])
        catalog = Catalog(memory, world)
        assert catalog.sync().malformed == {Damage.MISSING: 1}
        memory.put(object_key(meta.ulid, sources_path()), data)
        assert catalog.sync().found[meta.ulid].meta == whole

    def test_a_listing_that_fails_midway_raises_and_the_catalog_stays_as_it_was(
        self, world: World
    ) -> None:
        class Failing(MemoryBucket):
            fails = False

            def list(
                self,
                prefix: str = "",
                *,
                start_after: str = "",
                recursive: bool = True,
                at_most: int | None = None,
            ) -> Iterator[ObjectInfo]:
                found = [
                    *super().list(
                        prefix, start_after=start_after, recursive=recursive, at_most=at_most
                    )
                ]
                yield from found[: len(found) // 2] if self.fails else found
                if self.fails:
                    raise Unavailable("the second page did not come")

        inner = Failing(world.clock)
        for number in range(4):
            store(inner, block(number))
        bucket = Metered(inner)
        catalog = Catalog(bucket, world)
        before = catalog.sync()
        inner.fails = True
        with pytest.raises(Unavailable):
            catalog.sync()
        inner.fails = False
        bucket.reset()
        assert catalog.sync().found == before.found
        assert bucket.counts["get"] == 0

    def test_a_get_that_fails_raises_and_the_next_sync_is_whole(
        self, memory: MemoryBucket, world: World
    ) -> None:
        class Refusing(Metered):
            def get(self, key: str, **options: object) -> object:  # type: ignore[override]
                if key == meta_key(ulid(2)) and not self.counts["get"]:
                    self.add("get", 1)
                    raise Unavailable("no answer")
                return self.inner.get(key)

        for number in (1, 2, 3):
            store(memory, block(number))
        catalog = Catalog(Refusing(memory), world)
        with pytest.raises(Unavailable):
            catalog.sync()
        assert set(catalog.sync().found) == {ulid(1), ulid(2), ulid(3)}

    def test_an_unordered_listing_says_the_same(self, memory: MemoryBucket, world: World) -> None:
        class Unordered(Metered):
            def list(
                self,
                prefix: str = "",
                *,
                start_after: str = "",
                recursive: bool = True,
                at_most: int | None = None,
            ) -> Iterator[ObjectInfo]:
                found = [
                    *self.inner.list(
                        prefix, start_after=start_after, recursive=recursive, at_most=at_most
                    )
                ]
                return iter(found[1::2] + found[::-2])

        for number in range(9):
            store(memory, block(number))
        mark(memory, ulid(4), MarkReason.REVERT)
        assert Catalog(Unordered(memory), world).sync() == Catalog(memory, world).sync()

    def test_what_vanished_during_a_look_is_looked_for_again(
        self, memory: MemoryBucket, world: World
    ) -> None:
        """A listing that lags shows a mark that cannot be read yet: that is not final."""
        store(memory, block(1))
        mark(memory, ulid(1), MarkReason.MANUAL)

        class Lagging(Metered):
            lags = True

            def get(self, key: str, **options: object) -> object:  # type: ignore[override]
                if self.lags and key == deletion_mark_key(ulid(1)):
                    return memory.get("missing")
                return self.inner.get(key)

        bucket = Lagging(memory)
        catalog = Catalog(bucket, world)
        assert catalog.sync().found[ulid(1)].mark is None
        bucket.lags = False
        assert catalog.sync().found[ulid(1)].mark is MarkReason.MANUAL

    def test_clocks_more_than_five_minutes_ahead_are_counted(
        self, memory: MemoryBucket, world: World
    ) -> None:
        five = 5 * 60 * 1000
        on_time = store(memory, block(1, time_ms=START_MS + five))
        by_name = store(
            memory, replace(block(2, time_ms=START_MS + five + 1), uploaded_time=START_MS)
        )
        by_upload = store(memory, replace(block(3), uploaded_time=START_MS + five + 1))
        assert set(Catalog(memory, world).sync().skewed) == {by_name.ulid, by_upload.ulid}
        assert on_time.ulid not in Catalog(memory, world).sync().skewed


class TestCacheFile:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "cache" / "flights"

    @pytest.fixture(autouse=True)
    def table(self, memory: MemoryBucket, world: World) -> None:
        for number in range(1, 6):
            store(memory, block(number, labels={"cluster": "eu"}))
        many = block(5000, set(range(1001)))
        file = write_sources(memory, many.ulid, many.sources)
        assert file is not None
        memory.put(meta_key(many.ulid), encode(replace(many, files=(file,), rows=0, schema=SCHEMA)))
        mark(memory, ulid(3), MarkReason.REVERT)

    def test_a_restart_costs_one_list_and_says_the_same(
        self, memory: MemoryBucket, bucket: Paged, world: World, path: Path
    ) -> None:
        first = Catalog(memory, world, path).sync()
        again, requests = costs(bucket, Catalog(bucket, world, path))
        assert requests == {"list": 1}
        assert again.found == first.found
        assert (again.new, again.known) == (0, 6)

    def test_what_happened_meanwhile_is_seen(
        self, memory: MemoryBucket, bucket: Paged, world: World, path: Path
    ) -> None:
        Catalog(memory, world, path).sync()
        world.clock.sleep(1)
        memory.delete(
            [deletion_mark_key(ulid(3)), meta_key(ulid(1)), object_key(ulid(1), CHUNK.path)]
        )
        store(memory, block(2, revision=1))
        store(memory, block(7))
        synced, requests = costs(bucket, Catalog(bucket, world, path))
        assert requests == {"list": 1, "get": 2}
        assert synced.found == Catalog(memory, world).sync().found

    def test_it_is_written_when_enough_is_new_and_when_asked(
        self, memory: MemoryBucket, bucket: Paged, world: World, path: Path
    ) -> None:
        for number in range(100, 300):
            store(memory, block(number))
        catalog = Catalog(memory, world, path)
        catalog.sync()
        store(memory, block(1000))
        catalog.sync()
        assert costs(bucket, Catalog(bucket, world, path))[1] == {"list": 1, "get": 1}
        catalog.save()
        assert costs(bucket, Catalog(bucket, world, path))[1] == {"list": 1}
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: data[:-1] + bytes([data[-1] ^ 1]),
            lambda data: data.replace(b"catalog 1", b"catalog 0", 1),
            lambda data: b"{}",
        ],
        ids=["empty", "cut", "flipped", "older", "another file"],
    )
    def test_a_file_that_cannot_be_believed_is_ignored_with_a_warning(
        self,
        memory: MemoryBucket,
        world: World,
        path: Path,
        damage: object,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        first = Catalog(memory, world, path).sync()
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
        with caplog.at_level(logging.WARNING):
            assert Catalog(memory, world, path).sync().found == first.found
        assert str(path) in caplog.text

    def test_a_file_of_another_table_is_ignored(
        self, memory: MemoryBucket, world: World, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        Catalog(memory, world, path).sync()
        other = MemoryBucket(world.clock, "memory://other")
        store(other, replace(block(1), max_time=START_MS + 5))
        with caplog.at_level(logging.WARNING):
            found = Catalog(other, world, path).sync().found
        assert "memory://other" in caplog.text
        assert found == Catalog(other, world).sync().found

    def test_a_place_that_cannot_be_written_is_no_error(
        self, memory: MemoryBucket, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_bytes(b"")
        with caplog.at_level(logging.WARNING):
            synced = Catalog(memory, world, tmp_path / "file" / "below").sync()
        assert len(synced.found) == 6
        assert "was not written" in caplog.text

    @settings(max_examples=few(60), deadline=None)
    @given(data=st.data())
    def test_no_damage_makes_it_lie(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        world = World.manual(now_ms=START_MS)
        memory = MemoryBucket(world.clock)
        for number in range(3):
            store(memory, block(number))
        path = tmp_path_factory.mktemp("cache") / "file"
        expected = Catalog(memory, world, path).sync().found
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        path.write_bytes(
            whole[:at]
            + data.draw(st.binary(max_size=4))
            + whole[at + data.draw(st.integers(0, 4)) :]
        )
        assert Catalog(memory, world, path).sync().found == expected

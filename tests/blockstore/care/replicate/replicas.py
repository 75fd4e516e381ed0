"""What the tests of replication share: sources in several states, and what their replicas must
be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.replicate.replicator import ReplicationReport, Replicator
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import NotFound
from blockstore.format.marks import MarkReason, NoCompactReason
from blockstore.index import tags
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.lifecycle.mark import place_deletion, place_no_compact
from blockstore.names import entry_key, meta_key
from blockstore.table import Table
from tests.blockstore.care.scene import Care, Rows, worn

HOUR = 3600


@dataclass
class Pair:
    """A source, its replica, and what each version of the source ever read as."""

    source: Care
    target: MemoryBucket
    indexed: bool = True
    versions: dict[int, Rows] = field(default_factory=dict)

    def remember(self) -> None:
        """Note what the source's latest version reads as."""
        if self.indexed:
            self.versions[self.source.open().poll()] = self.source.found()

    def replicate(
        self, source: Bucket | None = None, target: Bucket | None = None
    ) -> ReplicationReport:
        return Replicator(
            source or self.source.bucket, target or self.target, self.source.world
        ).once()

    def replica(self) -> Care:
        return Care(self.target, self.source.world, self.source.blocks)

    def check_reader(self, point: str = "") -> None:
        """A reader of the replica sees an earlier version of the source, whole, or no table yet."""
        try:
            if not self.indexed:
                assert self.replica().listed_rows() <= self.source.listed_rows(), point
                return
            snapshot = self.replica().open().snapshot()
        except NotFound:
            return
        assert snapshot.version is not None
        found = rows_in(snapshot.scan(columns=["writer", "row"]).to_table())
        assert found == self.versions[snapshot.version], f"{point}: version {snapshot.version}"

    def check_equal(self, point: str = "") -> None:
        """The replica is the source: rows, versions, tags; also by listing, once what was copied
        counts by its age."""
        self.source.world.clock.sleep(HOUR)
        if not self.indexed:
            assert self.replica().listed_rows() == self.source.listed_rows(), point
            return
        here, there = (
            Log(self.source.bucket, self.source.world),
            Log(self.target, self.source.world),
        )
        assert there.poll() == here.poll(), point
        assert self.replica().found() == self.source.found(), point
        first = max(here.boundary.read(), there.boundary.read()) + 1
        for version in range(first, here.state.version + 1):
            key = entry_key(version)
            assert self.target.get(key).data == self.source.bucket.get(key).data, f"{point}: {key}"
            assert there.at(version) == here.at(version), f"{point}: version {version}"
        assert [entry.id for entry in there.entries()] == [
            *range(there.boundary.read() + 1, there.state.version + 1)
        ]
        for name in here.state.tags:
            rows = [self.rows_at(place, name) for place in (self.source, self.replica())]
            assert rows[0] == rows[1], f"{point}: tag {name}"
        assert list_reader(self.replica()) == list_reader(self.source), point

    def rows_at(self, place: Care, tag: str) -> list[object]:
        read = place.open().snapshot(tag=tag).scan(columns=["writer", "row"]).to_table()
        return sorted(zip(read["writer"].to_pylist(), read["row"].to_pylist(), strict=True))


def list_reader(place: Care) -> list[object]:
    table = Table.open_bucket(place.bucket, place.world, discovery="list")
    read = table.snapshot().scan(columns=["writer", "row"]).to_table()
    return sorted(zip(read["writer"].to_pylist(), read["row"].to_pylist(), strict=True))


def empty(source: Care) -> MemoryBucket:
    return MemoryBucket(source.world.clock, "memory://replica")


def fresh() -> Pair:
    """All versions of the source are there: a merge, an unpublished block, a tag, marks, a
    checkpoint."""
    source = worn()
    pair = Pair(source, empty(source))
    log = source.open().log
    for version in range(1, log.state.version + 1):
        read = source.open().snapshot(version=version).scan(columns=["writer", "row"]).to_table()
        pair.versions[version] = rows_in(read)
    tags.tag(log, source.world, "before the merge", 4)
    pair.remember()
    place_no_compact(source.bucket, source.world, source.blocks["d"], NoCompactReason.MANUAL)
    place_deletion(source.bucket, source.world, source.blocks["a"], MarkReason.SUPERSEDED)
    source.world.clock.sleep(HOUR)
    return pair


def rows_in(read: object) -> Rows:
    return Counter(zip(read["writer"].to_pylist(), read["row"].to_pylist(), strict=True))  # type: ignore[index]


def collected() -> Pair:
    """The source has forgotten its first versions, and removed what they alone named."""
    pair = fresh()
    source = pair.source
    tags.untag(source.open().log, source.world, "before the merge")
    pair.remember()
    tags.tag(source.open().log, source.world, "kept", source.open().poll())
    pair.remember()
    go_on(pair, "g", "h")
    assert pair.source.open().log.boundary.read() > 0
    assert meta_key(source.blocks["a"]) not in source.objects()
    return pair


def behind() -> Pair:
    """The replica stands at a version that the source has forgotten since."""
    pair = fresh()
    pair.replicate()
    before = pair.replica().open().poll()
    go_on(pair, "g", "h")
    assert pair.source.open().log.boundary.read() > before
    return pair


def unindexed() -> Pair:
    """Blocks alone: two merges of the same blocks overlap in part, one block is marked."""
    source = worn().without_index()
    source.world.clock.sleep(HOUR)
    place_deletion(source.bucket, source.world, source.blocks["e"], MarkReason.MANUAL)
    place_no_compact(source.bucket, source.world, source.blocks["d"], NoCompactReason.MANUAL)
    return Pair(source, empty(source), indexed=False)


def go_on(pair: Pair, *writers: str) -> None:
    """The source is written, collected and cleaned for some days."""
    source = pair.source
    for writer in writers:
        source.append(writer)
        pair.remember()
        for _ in range(3):
            source.world.clock.sleep(49 * HOUR)
            log = source.open().log
            held = claim(log, source.world, COMPACTOR)
            pair.remember()
            collect(source.open().log, source.world)
            Cleaner(source.open(), held).run()
            pair.remember()


SCENES: dict[str, Callable[[], Pair]] = {
    "fresh": fresh,
    "collected": collected,
    "behind": behind,
    "no index": unindexed,
}

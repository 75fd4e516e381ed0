"""A table with a history: what a cleaning pass meets, with an index and without, and what must
always hold for it.

``Lake.copy`` keeps every object's LastModified, so that a run can be repeated from the same moment
any number of times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket, _Contents
from blockstore.clock import ManualClock
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Report
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError
from blockstore.format.block import BlockMeta, Job
from blockstore.format.definition import Definition
from blockstore.format.meta import load_meta
from blockstore.index import log as index_log
from blockstore.index.change import COMPACTOR
from blockstore.index.epochs import claim
from blockstore.index.gc import collect
from blockstore.index.reachable import Kept
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.lifecycle.listing import Listing, list_directories
from blockstore.names import DELETION_MARK, META, chunk_path, meta_key, object_key
from blockstore.operations.contents import Discovery
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed

DAY_S = 86_400.0
START_MS = 1_700_000_000_000
SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
PER_S = 1e6
Rows = Counter[tuple[str, int]]


def rows(writer: str, count: int = 4) -> pa.Table:
    return pa.table({"writer": [writer] * count, "row": list(range(count))}, schema=SCHEMA)


@dataclass
class Lake:
    """One table in memory, its clock, and the rows that must be read from it."""

    work_dir: Path
    indexed: bool = True
    world: World = field(default_factory=lambda: World.manual(seed=1, now_ms=START_MS))
    expected: Rows = field(default_factory=Counter)
    tagged: dict[str, Rows] = field(default_factory=dict)
    bucket: MemoryBucket = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.definition = Definition.create(SCHEMA, sort_by=["row"])
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)
            if self.indexed:
                index_log.create(self.bucket, self.world, self.definition)

    def copy(self, seed: int = 7) -> Lake:
        """The same table at the same moment, in a bucket and with a clock of its own."""
        clock = ManualClock(self.world.clock.now_ms())
        world = World.manual(seed=seed, now_ms=clock.now_ms())
        contents = _Contents(dict(self.bucket._contents.objects), list(self.bucket._contents.keys))
        bucket = MemoryBucket(world.clock, contents=contents)
        return Lake(
            self.work_dir, self.indexed, world, self.expected.copy(), dict(self.tagged), bucket
        )

    def sleep(self, days: float) -> None:
        self.world.clock.sleep(days * DAY_S)

    def open(
        self,
        bucket: Bucket | None = None,
        *,
        discovery: str = Discovery.INDEX,
        world: World | None = None,
    ) -> Table:
        bucket, world = bucket or self.bucket, world or self.world
        if self.indexed:
            return Table.open_bucket(bucket, world, discovery=discovery)
        return Table(bucket, world, Unindexed(self.definition, given=True))

    def append(self, writer: str, *, publish: bool = True, job: Job | None = None) -> str:
        ulid = self.open().append(rows(writer), publish=publish, job=job).ulid
        assert ulid is not None
        self.expects(writer)
        return ulid

    def expects(self, writer: str, times: int = 1) -> None:
        for row in range(4):
            self.expected[writer, row] = times
        self.expected = +self.expected

    def compact(self, bucket: Bucket | None = None) -> Report:
        return compact_once(self.open(bucket), Settings(tier_blocks=2, work_dir=self.work_dir))

    def compact_and_die(self, before: Callable[[str], bool]) -> None:
        """A compactor whose process dies just before it writes the first object for which
        ``before`` is true."""
        faulty = FaultyBucket(self.bucket)

        def die(call: Call) -> None:
            if call.writes and before(call.key):
                raise Killed(call)

        faulty.before.append(die)
        try:
            self.compact(faulty)
        except Killed:
            return
        raise AssertionError("it was to die")

    def clean(self, bucket: Bucket | None = None, world: World | None = None) -> CleaningReport:
        """One pass of a fresh compactor process: claim, collect the index, clean."""
        table = self.open(bucket, world=world)
        if not self.indexed:
            return Cleaner(table, None, objects_per_s=PER_S).run()
        held = claim(table.log, table.world, COMPACTOR)
        collect(table.log, table.world, held=held)
        return Cleaner(table, held, objects_per_s=PER_S).run()

    def settle(self, passes: int = 8) -> None:
        """Let time pass until cleaning has nothing left to do."""
        for _ in range(passes):
            self.sleep(2.1)
            if not self.clean().changed:
                self.sleep(2.1)
                if not self.clean().changed:
                    return
        raise AssertionError("cleaning never comes to rest")

    def read(self, discovery: str, *, tag: str | None = None) -> Rows:
        found = self.open(discovery=discovery).snapshot(tag=tag).scan().to_table()
        return Counter(zip(found["writer"].to_pylist(), found["row"].to_pylist(), strict=True))

    def check(self, where: object = "", *, aged: bool = True) -> None:
        """Every acknowledged row exactly once in both discovery modes; nothing that is needed has
        lost an object.

        Discovery by index sees what is discovered: ``aged`` says that it must have been by now.
        """
        assert self.read(Discovery.LIST) == self.expected, f"by listing: {where}"
        if not self.indexed:
            return
        seen = self.read(Discovery.INDEX)
        assert seen == self.expected if aged else seen <= self.expected, f"by index: {where}"
        for tag, expected in self.tagged.items():
            assert self.read(Discovery.INDEX, tag=tag) == expected, f"tag {tag}: {where}"
        self.check_named(where)

    def check_named(self, where: object = "") -> None:
        """Every block that a readable version or a tag names is whole, its bytes as they were."""
        table = self.open()
        named = Kept(table.log).look()
        listing = list_directories(self.bucket)
        versions = {named.state.version, *range(named.boundary + 1, named.state.version)}
        states = [table.log.at(version) for version in versions]
        states += [table.log.tagged(tag) for tag in named.state.tags]
        metas: dict[str, BlockMeta] = {
            block.ulid: block.meta for state in states for block in state.blocks
        }
        for ulid, meta in metas.items():
            directory = listing.directories.get(ulid)
            assert directory is not None, f"{ulid} is gone: {where}"
            assert META in directory.objects, f"{ulid} has lost its meta.json: {where}"
            assert directory.difference(meta) is None, (
                f"{ulid}: {directory.difference(meta)}: {where}"
            )

    def directories(self) -> Mapping[str, list[str]]:
        return {ulid: sorted(one.objects) for ulid, one in self.listing().directories.items()}

    def listing(self) -> Listing:
        return list_directories(self.bucket)

    def chosen(self) -> tuple[ChosenBlock, ...]:
        snapshot = self.open(discovery=Discovery.LIST).snapshot().snapshot
        return snapshot.listed

    def live(self) -> list[str]:
        return self.open().log.state.blocks.ulids()

    def aborted(self) -> str:
        """An upload that died after its first chunk."""
        ulid = self.world.ids.ulid()
        self.bucket.put(object_key(ulid, chunk_path(1)), b"half of it")
        return ulid

    def garbage(self) -> str:
        """A block whose meta.json does not parse."""
        ulid = self.world.ids.ulid()
        self.bucket.put(object_key(ulid, chunk_path(1)), b"whatever")
        self.bucket.put(meta_key(ulid), b"{ not json")
        return ulid

    def unpublished(self, writer: str) -> BlockMeta:
        """An uploaded ``visible_by: index`` block whose process died before its entry."""
        faulty = FaultyBucket(self.bucket)
        before = self.directories().keys()

        def die(call: Call) -> None:
            if is_entry_put(call):
                raise Killed(call)

        faulty.before.append(die)
        quietly(lambda: self.open(faulty).append(rows(writer), job=Job(app=writer, batch=1)))
        [ulid] = self.directories().keys() - before
        return load_meta(self.bucket, ulid)

    def marked(self) -> set[str]:
        return {ulid for ulid, paths in self.directories().items() if DELETION_MARK in paths}


def is_entry_put(call: Call) -> bool:
    """Whether the request would create an index entry."""
    return call.method == "put_if_absent" and call.key.startswith("index/0")


def quietly(act: Callable[[], object]) -> object:
    """What it returns, the error that it raises, if it is one of ours, or the process's end."""
    try:
        return act()
    except (Killed, BlockstoreError) as error:
        return error

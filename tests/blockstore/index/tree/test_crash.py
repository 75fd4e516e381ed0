"""Crash enumeration of writing a root, with neighbors in between.

Every call of a writer's run, in which it commits and writes two roots, is a crash point: the
process dies before it, or after it took effect, or lives on without its response. At the same point
another writer may commit and write roots, a collector may move the boundary and remove leaves, or a
copy of the bucket from before the run may be put back. Whatever happened: a fresh process reads
every acknowledged block that the copy did not take away, with each of its leaves; it goes on to
write roots that are whole, and the boundary moves on over one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import BlockstoreError
from blockstore.index import log as log_module
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.names import checkpoint_key, meta_key
from blockstore.operations.tree import move_to_tree
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed, crash_points
from tests.support.index_data import DEFINITION, append, compaction, merge, ulid
from tests.support.put_back import copy_of, put_back
from tests.support.trees import leaf_keys, read_root

DAY_S = 24 * 3600
OLD = range(100, 118)
OWN = range(200, 208)
NEIGHBORS = ("nobody", "writes", "collects", "puts a copy back")


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A table with a root after every fourth entry; its newest entry is 20."""
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    for number in range(100, 500):
        bucket.put(meta_key(ulid(number)), b"{}")
    log = create(bucket, world, DEFINITION)
    move_to_tree(log, world)
    for number in OLD:
        log.commit(append(number))
    return {info.key: bucket.get(info.key).data for info in bucket.list()}


@dataclass
class Run:
    """One run of the writer over a copy of what was prepared."""

    prepared: dict[str, bytes]
    neighbor: str
    at: int = 0
    world: World = field(default_factory=World.manual)
    acknowledged: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    doing: int = 0
    lost: int = 0
    """The write during which a copy was put back."""

    def __post_init__(self) -> None:
        assert isinstance(self.world.clock, ManualClock)
        self.clock = self.world.clock
        self.bucket = MemoryBucket(self.clock)
        for key, data in self.prepared.items():
            self.bucket.put(key, data)
        self.copy = copy_of(self.bucket)

    def work(self, bucket: FaultyBucket) -> None:
        bucket.after.append(self.interfere)
        log = Log(bucket, self.world, patience_s=1)
        for number in OWN:
            self.doing = number
            try:
                log.commit(append(number))
            except BlockstoreError:
                continue
            self.acknowledged.append(number)
            if number == self.lost:
                self.acknowledged.clear()  # the copy was put back before it returned

    def interfere(self, call: Call) -> None:
        if call.number != self.at or self.neighbor == "nobody":
            return
        if self.neighbor == "puts a copy back":
            put_back(self.bucket, self.copy)
            self.acknowledged.clear()
            self.lost = self.doing
            return
        self.write(range(300, 306))
        if self.neighbor == "collects":
            other = Log(self.bucket, self.world)
            live = [one.meta for one in other.poll().blocks if one.ulid < ulid(110)]
            other.commit(compaction(5_000, merge(400, live), live))
            for start in (310, 320, 330):
                self.clock.advance(3 * DAY_S)
                self.write(range(start, start + 5))
                collect(Log(self.bucket, self.world), self.world)

    def write(self, numbers: range) -> None:
        other = Log(self.bucket, self.world)
        for number in numbers:
            other.commit(append(number))
        self.others += numbers

    def check(self) -> None:
        state = Log(self.bucket, self.world).poll()
        there = [source for one in state.blocks for source in one.meta.sources]
        wanted = {ulid(number) for number in (*OLD, *self.acknowledged, *self.others)}
        assert len(there) == len(set(there)), "a source counts twice"
        assert wanted <= set(there) <= wanted | {ulid(number) for number in OWN}
        assert set(state.accounted.held(sorted(wanted))) == wanted
        self.write(range(340, 349))
        newest = Log(self.bucket, self.world).poll()
        assert newest.root is not None
        # One of a history that was replaced may have the name of the last.
        assert newest.root > newest.version - (8 if self.lost else 4)
        assert not read_root(self.bucket, newest.root).keys - leaf_keys(self.bucket)
        self.clock.advance(3 * DAY_S)
        self.write(range(350, 352))
        collector = Log(self.bucket, self.world)
        before = collector.boundary.read()
        after = collect(collector, self.world).boundary
        assert after > before
        assert not read_root(self.bucket, after).keys - leaf_keys(self.bucket)
        assert self.bucket.get(checkpoint_key(after)).data
        again = Log(self.bucket, self.world).poll()
        assert wanted <= {source for one in again.blocks for source in one.meta.sources}


def points(prepared: dict[str, bytes]) -> Iterator[tuple[str, Call]]:
    plain = Run(prepared, "nobody")
    bucket = FaultyBucket(plain.bucket)
    plain.work(bucket)
    assert plain.acknowledged == list(OWN)
    assert sum("checkpoints" in call.key for call in bucket.writes) == 2
    yield from crash_points(bucket.calls)


@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_every_crash_of_a_writer_of_roots_leaves_a_table_that_goes_on(
    prepared: dict[str, bytes], neighbor: str
) -> None:
    every = 1 if neighbor == "nobody" else 3
    tried = 0
    for fault, call in list(points(prepared))[::every]:
        run = Run(prepared, neighbor, at=max(1, call.number - 1))
        faults = {"lose_answer": {call.number}} if fault == "lose_answer" else {fault: call.number}
        bucket = FaultyBucket(run.bucket, **faults)  # type: ignore[arg-type]
        try:
            run.work(bucket)
        except Killed:
            pass
        try:
            run.check()
        except BaseException as error:
            error.add_note(f"{fault} {call}, {neighbor}")
            raise
        tried += 1
    assert tried > 20

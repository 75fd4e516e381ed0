"""What each step may cost in requests: counted, so that a change that sends more requests is
seen."""

from __future__ import annotations

import os
from collections import Counter

import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.names import BOUNDARY, HINT, entry_key
from blockstore.world import Serial, World
from tests.support.index_data import Planned, append, block, merge, ulid

MERGES = int(os.environ.get("BLOCKSTORE_MERGES", "1000"))
"""10,000 for the long run."""

ENTRY_KEYS = {entry_key(number): number for number in range(400)}


class Watching(Wrapper):
    """Which entries were requested, and what else."""

    def __init__(self, inner: MemoryBucket) -> None:
        super().__init__(inner)
        self.entries: list[int] = []
        self.others: Counter[str] = Counter()

    def get(self, key, *, if_none_match=None):  # type: ignore[no-untyped-def]
        if key in ENTRY_KEYS:
            self.entries.append(ENTRY_KEYS[key])
        else:
            self.others[f"get {key if key in (BOUNDARY, HINT) else 'checkpoint'}"] += 1
        return self.inner.get(key, if_none_match=if_none_match)

    def list(self, prefix="", *, start_after="", recursive=True, at_most=None):  # type: ignore[no-untyped-def]
        self.others[f"list {prefix}"] += 1
        return self.inner.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        )

    def head(self, key):  # type: ignore[no-untyped-def]
        self.others["head"] += 1
        return self.inner.head(key)

    def now_ms(self) -> int:
        self.others["now_ms"] += 1
        return self.inner.now_ms()


class Slow(Wrapper):
    """A store that takes 10 ms for a response, by the clock that is handed in."""

    def __init__(self, inner: MemoryBucket, world: World) -> None:
        super().__init__(inner)
        self._clock = world.clock

    def get(self, key, *, if_none_match=None):  # type: ignore[no-untyped-def]
        self._clock.sleep(0.01)
        return self.inner.get(key, if_none_match=if_none_match)


class Noting(Serial):
    """A pool that remembers how much it was given at once."""

    def __init__(self) -> None:
        self.widths: list[int] = []

    def map(self, call, items):  # type: ignore[no-untyped-def]
        work = list(items)
        self.widths.append(len(work))
        return super().map(call, work)


def grow(log: Log, count: int, start: int = 100) -> None:
    for number in range(start, start + count):
        log.commit(append(number))


@pytest.mark.parametrize("count", [0, 10, 62, 63, 64, 100, 200])
@pytest.mark.parametrize("collects", [False, True])
def test_a_cold_open_of_any_table_costs_six_requests_and_the_entries_from_the_checkpoint_on(
    bucket: MemoryBucket, world: World, log: Log, count: int, collects: bool
) -> None:
    grow(log, count)
    if collects:
        world.clock.sleep(49 * 3600)
        log.commit(append(5_000))
        collect(log, world)
    watching = Watching(bucket)
    table = bs.Table.open_bucket(watching, world)
    assert table.log.state == log.state
    assert watching.others.total() <= 6, watching.others
    assert watching.others[f"get {BOUNDARY}"] == 2
    last = log.state.version
    newest = max(last - last % 64, log.boundary.seen)
    # The checkpoint's own entry says whether it is of this history, unless it was collected.
    own = [newest] if newest > log.boundary.seen else []
    assert sorted(watching.entries) == own + list(range(newest + 1, last + 1)), "each once"


def test_the_first_snapshot_of_an_open_table_costs_one_poll_more(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Two small requests: a snapshot shows every write that was acknowledged before it was
    requested."""
    grow(log, 70)
    watching = Watching(bucket)
    table = bs.Table.open_bucket(watching, world)
    opened = watching.others.total() + len(watching.entries)
    log.commit(append(900))
    assert table.snapshot().version == log.state.version
    assert watching.others.total() + len(watching.entries) - opened <= 2 + 2, (
        "the entry that is new, and one look on"
    )


def test_the_entries_after_a_checkpoint_are_read_side_by_side(
    world: World, bucket: MemoryBucket, log: Log
) -> None:
    grow(log, 40)
    pool = Noting()
    beside = World(clock=world.clock, ids=world.ids, pool=pool)
    assert Log(Slow(bucket, world), beside).state == log.state
    # 41 entries, the boundary, and a place for the own entry of a checkpoint, which is not there.
    assert max(pool.widths) == 43


def test_an_idle_poll_is_two_gets_without_bytes(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 70)
    metered = Metered(bucket)
    reader = Log(metered, world)
    reader.poll()
    for _ in range(3):
        metered.reset()
        reader.poll()
        assert metered.counts == {"get": 2}
        assert metered.bytes["get"] == 0


def test_a_publish_is_one_put_and_three_conditional_gets(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(10))
    for number in range(11, 60):
        metered.reset()
        writer.commit(append(number))
        assert metered.counts == {"put_if_absent": 1, "get": 3}
        assert metered.bytes["get"] == 0


@pytest.mark.parametrize("lost_to", [1, 2, 3, 8])
def test_lost_races_add_the_entries_lost_to_a_look_at_the_boundary_and_a_put_and_never_a_list(
    bucket: MemoryBucket, world: World, log: Log, lost_to: int
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(10))
    grow(log, lost_to)
    metered.reset()
    assert writer.commit(append(11)).version == 3 + lost_to
    assert metered.counts["list"] == 0
    # The last GET of a catching up finds nothing; what was fetched next to it goes the same way.
    assert metered.counts["put_if_absent"] <= 3
    # So many looks at the entry below: before the first PUT, next to each look at the boundary, and
    # after the last PUT; and one at each entry that was read on the way, but for the last, side by
    # side.
    looks = 3 if lost_to == 1 else 5 + lost_to - 1
    assert metered.counts["get"] <= lost_to + 4 + (4 if lost_to > 1 else 0) + looks
    if lost_to == 1:
        assert metered.counts == {"put_if_absent": 2, "get": 6}


def test_a_writer_that_lost_again_and_again_looks_first_for_one_get(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    writer = Log(metered, world)
    writer.commit(append(10))
    grow(log, 3)
    writer.commit(append(12))
    grow(log, 1, start=5_000)
    metered.reset()
    writer.commit(append(20))
    assert metered.counts["put_if_absent"] == 1, "it looked, and did not lose"
    assert metered.counts["get"] <= 6
    assert metered.counts["list"] == 0


def test_a_compaction_entry_grows_neither_with_the_history_nor_with_what_it_accounts_for(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last merge of a block that takes in all before it says as much as the 10th."""
    monkeypatch.setattr("blockstore.index.log.every", lambda blocks: 10**9)
    sizes: list[int] = []
    made = block(1_000_000)
    log.commit(
        Planned(
            operation=Operation.REWRITE, commit=ulid(1), plan=Draft(add=(AddedBlock(meta=made),))
        )
    )
    for step in range(1, MERGES + 1):
        new = [block(1_000_000 + 10 * step + place) for place in range(3)]
        draft = Draft(add=tuple(AddedBlock(meta=one) for one in new))
        log.commit(Planned(operation=Operation.REWRITE, commit=ulid(20 * step), plan=draft))
        parents = [made, *new]
        made = merge(1_000_000 + 10 * step + 9, parents)
        draft = Draft(add=(AddedBlock(meta=made),), remove=tuple(one.ulid for one in parents))
        committed = log.commit(
            Planned(operation=Operation.COMPACT, commit=ulid(20 * step + 1), plan=draft)
        )
        assert committed.version is not None
        sizes.append(len(bucket.get(entry_key(committed.version)).data))
    assert len(made.sources) > 3 * MERGES
    digits = 8 * 10
    assert sizes[-1] <= sizes[9] + digits, "numbers grow by a few digits"

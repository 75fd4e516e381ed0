"""Removal: meta.json first, the mark last, one block after the other where R7 says so, and never on
an old look."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import AccessDenied, BlockstoreError, Unanswered, Unavailable
from blockstore.format.marks import MarkReason
from blockstore.freshness import Freshness
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.listing import list_directories
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.remove import Removed, Remover, removal_steps
from blockstore.names import (
    DELETION_MARK,
    META,
    NO_COMPACT_MARK,
    SOURCES,
    chunk_path,
    deletion_mark_key,
    object_key,
)
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, ulid
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally

PATHS = st.sets(
    st.sampled_from(
        [META, DELETION_MARK, NO_COMPACT_MARK, SOURCES, "debris", *map(chunk_path, range(4))]
    )
)
BLOCK = (META, chunk_path(1), chunk_path(2), NO_COMPACT_MARK, DELETION_MARK)
HALF_S = 24 * 3600.0


@pytest.fixture
def world() -> World:
    return World.manual(now_ms=START_MS)


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    return filled(MemoryBucket(world.clock), [1, 2, 3])


def filled(
    bucket: MemoryBucket, numbers: Iterable[int], paths: Iterable[str] = BLOCK
) -> MemoryBucket:
    for number in numbers:
        for path in paths:
            bucket.put(object_key(ulid(number), path), b"12345")
    return bucket


def decision(number: int, *after: int) -> Decision:
    return Decision(
        action=Action.REMOVE,
        ulid=ulid(number),
        reason=MarkReason.SUPERSEDED,
        why="tested",
        after=frozenset(map(ulid, after)),
    )


def remove(
    bucket: Wrapper | MemoryBucket,
    world: World,
    *decisions: Decision,
    per_s: float = 1e6,
    fresh: Freshness | None = None,
    listings_lag: bool = False,
) -> Removed:
    listed = list_directories(bucket).directories
    fresh = fresh or Freshness(world.clock, HALF_S)
    rate = Rate(world.clock, per_s)
    remover = Remover(bucket, world, listed, rate=rate, fresh=fresh, listings_lag=listings_lag)
    return remover.remove(decisions)


def deleted(faulty: FaultyBucket) -> list[tuple[int, str]]:
    """Block and path of each delete, in turn."""
    keys = [call.key for call in faulty.calls if call.method == "delete"]
    return [(int(key[22:26]), key[27:]) for key in keys]


@given(PATHS)
def test_meta_goes_first_and_the_deletion_mark_last(paths: set[str]) -> None:
    """R7: a removal cut short leaves no block that looks complete, and a mark by which it is found
    again."""
    first, others, last = removal_steps(ulid(1), paths)
    assert sorted(first + others + last) == sorted(object_key(ulid(1), path) for path in paths)
    assert first == [object_key(ulid(1), path) for path in (META,) if path in paths]
    assert last == [object_key(ulid(1), path) for path in (DELETION_MARK,) if path in paths]


def test_a_step_is_sent_once_the_one_before_is_answered(bucket: MemoryBucket, world: World) -> None:
    sent: list[list[str]] = []

    class Batches(Wrapper):
        def delete(self, keys: Iterable[str]) -> None:
            sent.append(list(keys))
            super().delete(sent[-1])

    found = remove(Batches(bucket), world, decision(1), decision(2), decision(3))
    assert [{key[27:] for key in batch} for batch in sent] == [
        {META},
        {chunk_path(1), chunk_path(2), NO_COMPACT_MARK},
        {DELETION_MARK},
    ]
    assert (found.blocks, found.objects, found.bytes) == ([ulid(1), ulid(2), ulid(3)], 15, 75)
    assert list(bucket.list()) == []


def test_where_listings_lag_the_mark_is_renewed_and_outlives_what_a_listing_may_still_show(
    bucket: MemoryBucket, world: World
) -> None:
    """R7: key by key a listing may show the meta.json of a block, and no longer a mark on it."""
    marked_ms = bucket.head(deletion_mark_key(ulid(1))).modified_ms
    world.clock.sleep(3_600)
    faulty = FaultyBucket(bucket)
    assert remove(faulty, world, decision(1), listings_lag=True).blocks == [ulid(1)]
    begun = [call.method for call in faulty.calls if call.method in ("put", "delete")]
    assert begun[0] == "put", "the mark is renewed before meta.json goes"
    assert list(list_directories(bucket).directories[ulid(1)].objects) == [DELETION_MARK]
    assert bucket.head(deletion_mark_key(ulid(1))).modified_ms == marked_ms + 3_600_000
    assert bucket.get(deletion_mark_key(ulid(1))).data == b"12345"
    remove(bucket, world, decision(1), listings_lag=True)
    assert ulid(1) not in list_directories(bucket).directories


def test_a_block_is_begun_after_all_that_must_go_before_it(
    bucket: MemoryBucket, world: World
) -> None:
    faulty = FaultyBucket(bucket)
    remove(faulty, world, decision(1), decision(2), decision(3, 1, 2))
    turns = [number for number, _ in deleted(faulty)]
    assert turns.index(3) == 10
    assert turns[10:] == [3] * 5


def test_a_process_that_dies_leaves_its_mark_and_the_next_finishes(world: World) -> None:
    """Every crash point: a directory without a meta.json and with its mark, whichever objects are
    left."""
    made = filled(MemoryBucket(world.clock), [1, 2, 3])
    counting = FaultyBucket(made)
    remove(counting, world, decision(1), decision(2), decision(3, 1, 2))
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_before", "kill_after"):
            tally("crash points")
            bucket = filled(MemoryBucket(world.clock), [1, 2, 3])
            faulty = FaultyBucket(bucket, **{fault: number})  # type: ignore[arg-type]
            with pytest.raises(Killed):
                remove(faulty, world, decision(1), decision(2), decision(3, 1, 2))
            left = list_directories(bucket).directories
            assert all(DELETION_MARK in one.objects for one in left.values()), (fault, number)
            begun = {name for name, one in left.items() if len(one.objects) < len(BLOCK)}
            assert all(META not in left[name].objects for name in begun), (fault, number)
            assert ulid(3) not in begun or not {ulid(1), ulid(2)} & left.keys(), (fault, number)
            remove(bucket, world, *(decision(int(name[-4:])) for name in left))
            assert list(bucket.list()) == [], (fault, number)


def test_an_old_look_removes_nothing_more(bucket: MemoryBucket, world: World) -> None:
    """R8: also between two objects of one block; what is left has its mark and no meta.json."""
    faulty = FaultyBucket(bucket)
    faulty.after.append(lambda call: world.clock.sleep(HALF_S) if call.key.endswith(META) else None)
    found = remove(faulty, world, decision(1))
    assert deleted(faulty) == [(1, META)]
    assert found.blocks == []
    assert "older than delete_delay/2" in found.dropped[ulid(1)]
    assert DELETION_MARK in list_directories(bucket).directories[ulid(1)].objects


def test_the_age_of_a_look_counts_from_before_it(bucket: MemoryBucket, world: World) -> None:
    fresh = Freshness(world.clock, HALF_S)
    world.clock.sleep(HALF_S)
    found = remove(bucket, world, decision(1), decision(2), fresh=fresh)
    assert (found.blocks, found.dropped.keys()) == ([], {ulid(1), ulid(2)})


def test_a_machine_that_slept_knows_by_its_wall_clock() -> None:
    class Sleeper(ManualClock):
        def monotonic_s(self) -> float:
            return 1.0

    clock = Sleeper()
    fresh = Freshness(clock, HALF_S)
    clock.advance(HALF_S - 1)
    assert not fresh.is_over
    clock.advance(1)
    assert fresh.is_over


def test_a_mark_that_was_withdrawn_or_placed_anew_is_obeyed_at_once(
    bucket: MemoryBucket, world: World
) -> None:
    faulty = FaultyBucket(bucket)

    def a_person(call: Call) -> None:
        if call.method == "list":
            world.clock.sleep(100)
            bucket.delete([deletion_mark_key(ulid(1)), deletion_mark_key(ulid(2))])
            bucket.put(deletion_mark_key(ulid(2)), b"again")

    faulty.after.append(a_person)
    found = remove(faulty, world, decision(1), decision(2), decision(3))
    assert found.dropped == {ulid(1): "its mark was withdrawn", ulid(2): "it was marked again"}
    assert {number for number, _ in deleted(faulty)} == {3}


def test_a_head_in_whole_seconds_is_the_same_mark(bucket: MemoryBucket, world: World) -> None:
    world.clock.sleep(0.5)
    bucket.put(deletion_mark_key(ulid(1)), b"mark")
    listed = list_directories(bucket).directories
    world.clock.sleep(0.4)
    bucket.put(deletion_mark_key(ulid(1)), b"mark")
    rate, fresh = Rate(world.clock, 1e6), Freshness(world.clock, HALF_S)
    assert Remover(bucket, world, listed, rate=rate, fresh=fresh).remove([decision(1)]).blocks == [
        ulid(1)
    ]


class Refusing(Wrapper):
    """A store that does not let one object go."""

    def __init__(self, inner: MemoryBucket, error: BlockstoreError, *numbers: int) -> None:
        super().__init__(inner)
        self.error = error
        self.numbers = numbers

    def delete(self, keys: Iterable[str]) -> None:
        listed = list(keys)
        if any(key.startswith(ulid(number)) for key in listed for number in self.numbers):
            raise self.error
        super().delete(listed)


@pytest.mark.parametrize("error", [AccessDenied("locked"), Unanswered("nobody knows")])
def test_one_block_that_cannot_go_is_named_and_stops_only_those_after_it(
    bucket: MemoryBucket, world: World, error: BlockstoreError
) -> None:
    filled(bucket, [4])
    found = remove(
        Refusing(bucket, error, 1),
        world,
        decision(1),
        decision(2),
        decision(3, 1, 2),
        decision(4, 2),
    )
    assert found.blocks == [ulid(2), ulid(4)]
    assert found.failed == {ulid(1): str(error)}
    assert list(found.dropped) == [ulid(3)]
    assert list_directories(bucket).directories.keys() == {ulid(1), ulid(3)}


def test_a_store_that_does_not_answer_at_all_stops_the_pass(
    bucket: MemoryBucket, world: World
) -> None:
    filled(bucket, [4])
    with pytest.raises(Unavailable):
        remove(Refusing(bucket, Unavailable("no"), 1, 2, 3, 4), world, *map(decision, (1, 2, 3, 4)))
    assert len(list_directories(bucket).directories) == 4


def test_the_rate_is_kept_and_large_plans_go_in_batches(world: World) -> None:
    bucket = filled(MemoryBucket(world.clock), range(500))
    start = world.clock.monotonic_s()
    sizes: list[int] = []

    class Batches(Wrapper):
        def delete(self, keys: Iterable[str]) -> None:
            listed = list(keys)
            sizes.append(len(listed))
            super().delete(listed)

    remove(Batches(bucket), world, *map(decision, range(500)), per_s=100)
    assert list(bucket.list()) == []
    requests = 500 * len(BLOCK) + 500
    assert world.clock.monotonic_s() - start == pytest.approx(requests / 100 - 1, abs=1)
    assert max(sizes) <= 1_000
    assert len(sizes) == 9
    assert sum(sizes) == 2_500


def test_a_block_of_very_many_objects_goes_in_several_batches(world: World) -> None:
    bucket = filled(
        MemoryBucket(world.clock),
        [1],
        [META, DELETION_MARK, *(chunk_path(n) for n in range(2_500))],
    )
    assert remove(bucket, world, decision(1)).objects == 2_502
    assert list(bucket.list()) == []

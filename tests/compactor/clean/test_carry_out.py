"""Carrying out marks: idempotent, never on an old look, and one failure stops no other."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.carry_out import CarriedOut, carry_out
from blockstore.errors import AccessDenied, Unavailable
from blockstore.format.marks import MarkReason, decode_deletion_mark
from blockstore.freshness import Freshness
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.listing import list_directories
from blockstore.lifecycle.mark import withdraw_deletion
from blockstore.lifecycle.rate import Rate
from blockstore.names import chunk_path, deletion_mark_key, object_key
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, ulid
from tests.support.faulty import Call, FaultyBucket

HALF_S = 24 * 3600.0


@pytest.fixture
def world() -> World:
    return World.manual(now_ms=START_MS)


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    for number in (1, 2, 3):
        bucket.put(object_key(ulid(number), chunk_path(1)), b"data")
    return bucket


def mark(number: int) -> Decision:
    return Decision(
        action=Action.MARK,
        ulid=ulid(number),
        reason=MarkReason.SUPERSEDED,
        why="others hold its rows",
        superseded_by=ulid(9),
    )


def withdraw(number: int) -> Decision:
    return Decision(
        action=Action.WITHDRAW, ulid=ulid(number), reason=MarkReason.SUPERSEDED, why="needed"
    )


def carry(
    bucket: MemoryBucket | FaultyBucket,
    world: World,
    *decisions: Decision,
    fresh: Freshness | None = None,
) -> CarriedOut:
    directories = list_directories(bucket).directories
    rate, fresh = Rate(world.clock, 1e6), fresh or Freshness(world.clock, HALF_S)
    return carry_out(bucket, world, decisions, directories, rate=rate, fresh=fresh)


def test_a_mark_says_why_and_twice_changes_nothing(bucket: MemoryBucket, world: World) -> None:
    for _ in range(2):
        done = carry(bucket, world, mark(1), mark(2))
        assert [one.ulid for one in done.done] == [ulid(1), ulid(2)]
        world.clock.sleep(10)
    found = decode_deletion_mark(bucket.get(deletion_mark_key(ulid(1))).data, ulid=ulid(1))
    assert (found.reason, found.details, found.superseded_by, found.deletion_time_s) == (
        MarkReason.SUPERSEDED,
        "others hold its rows",
        ulid(9),
        START_MS // 1000,
    )


def test_an_old_look_marks_and_withdraws_nothing(bucket: MemoryBucket, world: World) -> None:
    carry(bucket, world, mark(1))
    fresh = Freshness(world.clock, HALF_S)
    world.clock.sleep(HALF_S)
    done = carry(bucket, world, withdraw(1), mark(2), fresh=fresh)
    assert done.done == ()
    assert done.dropped.keys() == {ulid(1), ulid(2)}
    assert list_directories(bucket).directories[ulid(1)].objects.keys() >= {"deletion-mark.json"}


def test_a_mark_placed_again_meanwhile_is_not_withdrawn(bucket: MemoryBucket, world: World) -> None:
    """It may be a person's."""
    carry(bucket, world, mark(1))
    faulty = FaultyBucket(bucket)

    def a_person(call: Call) -> None:
        if call.method == "list":
            world.clock.sleep(100)
            withdraw_deletion(bucket, world, ulid(1))
            bucket.put(deletion_mark_key(ulid(1)), b"a person's")

    faulty.after.append(a_person)
    assert carry(faulty, world, withdraw(1)).dropped == {ulid(1): "it was marked again"}
    assert bucket.get(deletion_mark_key(ulid(1))).data == b"a person's"
    assert carry(bucket, world, withdraw(1)).done != ()


def test_one_that_fails_is_named_and_the_others_go_on(bucket: MemoryBucket, world: World) -> None:
    faulty = FaultyBucket(bucket)

    def locked(call: Call) -> None:
        if call.writes and call.key.startswith(ulid(2)):
            raise AccessDenied("locked")

    faulty.before.append(locked)
    done = carry(faulty, world, mark(1), mark(2), mark(3))
    assert [one.ulid for one in done.done] == [ulid(1), ulid(3)]
    assert done.failed == {ulid(2): "locked"}


def test_a_store_that_responds_for_none_stops_the_pass(bucket: MemoryBucket, world: World) -> None:
    faulty = FaultyBucket(bucket)

    def silent(call: Call) -> None:
        if call.writes:
            raise Unavailable("no answer")

    faulty.before.append(silent)
    with pytest.raises(Unavailable):
        carry(faulty, world, mark(1), mark(2))

"""Marks: once, on a block that is there, and gone at once when they are withdrawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import AccessDenied, Invalid, NotFound, Throttled, Unanswered, Unavailable
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    decode_deletion_mark,
    decode_no_compact_mark,
)
from blockstore.lifecycle.mark import (
    place_deletion,
    place_no_compact,
    put_mark,
    withdraw_deletion,
    withdraw_no_compact,
)
from blockstore.names import deletion_mark_key, no_compact_mark_key, object_key
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import START_MS, ulid
from tests.support.faulty import Call, FaultyBucket

ONE = ulid(1)
DELETION = deletion_mark_key(ONE)
NO_COMPACT = no_compact_mark_key(ONE)

Place = Callable[[Bucket, World], bool]


def delete(bucket: Bucket, world: World) -> bool:
    return place_deletion(bucket, world, ONE, MarkReason.MANUAL, "a bad load", ulid(2))


def keep(bucket: Bucket, world: World) -> bool:
    return place_no_compact(bucket, world, ONE, NoCompactReason.SIZE, "too large")


PLACES: dict[str, tuple[Place, str]] = {
    "deletion": (delete, DELETION),
    "no-compact": (keep, NO_COMPACT),
}


class Unconditional(Wrapper):
    """A store that does not support conditions on a PUT, and says so."""

    def put_if_absent(self, key: str, data: bytes) -> str:
        raise Invalid("the store lacks the operation (501 NotImplemented)")


@pytest.fixture
def world() -> World:
    return World.manual(now_ms=START_MS + 1_999)


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    bucket.put(object_key(ONE, "chunks/000001.parquet"), b"data")
    return bucket


def test_a_mark_says_what_was_asked_in_whole_seconds(bucket: MemoryBucket, world: World) -> None:
    assert delete(bucket, world)
    assert keep(bucket, world)
    assert decode_deletion_mark(bucket.get(DELETION).data, ulid=ONE) == DeletionMark(
        ulid=ONE,
        deletion_time_s=START_MS // 1000 + 1,
        reason=MarkReason.MANUAL,
        details="a bad load",
        superseded_by=ulid(2),
    )
    assert decode_no_compact_mark(bucket.get(NO_COMPACT).data, ulid=ONE) == NoCompactMark(
        ulid=ONE,
        no_compact_time_s=START_MS // 1000 + 1,
        reason=NoCompactReason.SIZE,
        details="too large",
    )


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("store", [FaultyBucket, Unconditional])
def test_marking_twice_changes_nothing_not_even_the_age(
    bucket: MemoryBucket, world: World, kind: str, store: Callable[[Bucket], Bucket]
) -> None:
    place, key = PLACES[kind]
    assert place(store(bucket), world)
    before = bucket.head(key)
    world.clock.sleep(100)
    assert not place(store(bucket), world)
    assert bucket.head(key) == before


@pytest.mark.parametrize("kind", PLACES)
def test_of_two_at_once_the_first_stays(bucket: MemoryBucket, world: World, kind: str) -> None:
    place, key = PLACES[kind]
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.writes:
            bucket.put(key, b"theirs")

    faulty.before.append(overtake)
    assert not place(faulty, world)
    assert bucket.get(key).data == b"theirs"


def test_a_store_without_conditions_is_looked_at_again_before_it_is_written(
    bucket: MemoryBucket, world: World
) -> None:
    mark = DeletionMark(ulid=ONE, deletion_time_s=1, reason=MarkReason.PARTIAL)
    bucket.put(DELETION, b"theirs")
    assert not put_mark(Unconditional(bucket), world, mark)
    assert bucket.get(DELETION).data == b"theirs"


@pytest.mark.parametrize("kind", PLACES)
def test_an_unknown_block_is_refused_and_nothing_is_written(
    bucket: MemoryBucket, world: World, kind: str
) -> None:
    bucket.delete([object_key(ONE, "chunks/000001.parquet")])
    bucket.put(object_key(ulid(2), "chunks/000001.parquet"), b"data")
    with pytest.raises(NotFound, match=ONE):
        PLACES[kind][0](bucket, world)
    assert [found.key for found in bucket.list()] == [object_key(ulid(2), "chunks/000001.parquet")]


@pytest.mark.parametrize("name", ["", "01jd0000000000000000000000", "../../etc", "index"])
def test_what_is_no_ulid_is_refused(bucket: MemoryBucket, world: World, name: str) -> None:
    for act in (
        lambda: place_deletion(bucket, world, name, MarkReason.MANUAL),
        lambda: place_no_compact(bucket, world, name, NoCompactReason.MANUAL),
        lambda: withdraw_deletion(bucket, world, name),
        lambda: withdraw_no_compact(bucket, world, name),
    ):
        with pytest.raises(Invalid, match="not a ULID"):
            act()


def test_withdrawing_takes_the_one_mark_and_twice_is_no_error(
    bucket: MemoryBucket, world: World
) -> None:
    delete(bucket, world)
    keep(bucket, world)
    for _ in range(2):
        withdraw_deletion(bucket, world, ONE)
        assert {found.key for found in bucket.list()} == {
            NO_COMPACT,
            object_key(ONE, "chunks/000001.parquet"),
        }
    for _ in range(2):
        withdraw_no_compact(bucket, world, ONE)
        assert {found.key for found in bucket.list()} == {object_key(ONE, "chunks/000001.parquet")}


@pytest.mark.parametrize("kind", PLACES)
def test_a_lost_answer_is_asked_for_and_the_mark_is_known_as_ours(
    bucket: MemoryBucket, world: World, kind: str
) -> None:
    place, _ = PLACES[kind]
    counting = FaultyBucket(bucket)
    place(counting, world)
    put = next(call.number for call in counting.calls if call.method == "put_if_absent")
    bucket.delete([PLACES[kind][1]])
    assert place(FaultyBucket(bucket, lose_answer={put}), world)
    bucket.delete([PLACES[kind][1]])
    assert place(
        FaultyBucket(bucket, refuse={put: Unanswered("x"), put + 1: Unanswered("x")}), world
    )
    bucket.delete([PLACES[kind][1]])
    with pytest.raises(Unavailable):
        place(
            FaultyBucket(bucket, refuse=dict.fromkeys(range(put, put + 9), Unanswered("x"))), world
        )


@pytest.mark.parametrize("kind", PLACES)
def test_who_may_not_write_is_told(bucket: MemoryBucket, world: World, kind: str) -> None:
    refuse = dict.fromkeys(range(1, 9), AccessDenied("no"))
    with pytest.raises(AccessDenied):
        PLACES[kind][0](FaultyBucket(bucket, refuse=refuse), world)


WITHDRAWALS: dict[str, tuple[Callable[[Bucket, World, str], None], str]] = {
    "deletion": (withdraw_deletion, DELETION),
    "no-compact": (withdraw_no_compact, NO_COMPACT),
}


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "lost on its way"])
@pytest.mark.parametrize("kind", WITHDRAWALS)
def test_a_mark_that_is_placed_anew_while_the_answer_to_a_withdrawal_is_lost_stays(
    bucket: MemoryBucket, world: World, kind: str, applied: bool
) -> None:
    withdraw, key = WITHDRAWALS[kind]
    bucket.put(key, b"mine")
    faulty = FaultyBucket(bucket)

    def lose(call: Call) -> None:
        if call.method == "delete":
            faulty.before.clear()
            faulty.after.clear()
            bucket.put(key, b"another's, placed since")
            raise Unanswered("x")

    (faulty.after if applied else faulty.before).append(lose)
    withdraw(Retrying(faulty, world), world, ONE)
    assert bucket.get(key).data == b"another's, placed since"


@pytest.mark.parametrize("kind", WITHDRAWALS)
def test_a_withdrawal_is_sent_until_it_is_answered_while_the_mark_is_the_same(
    bucket: MemoryBucket, world: World, kind: str
) -> None:
    withdraw, key = WITHDRAWALS[kind]
    bucket.put(key, b"mine")
    faulty = FaultyBucket(
        bucket, refuse={2: Unanswered("x"), 4: Throttled("x"), 6: Unanswered("x")}
    )
    withdraw(faulty, world, ONE)
    assert [call.method for call in faulty.calls] == ["get", "delete"] * 4
    assert key not in [info.key for info in bucket.list()]


@pytest.mark.parametrize("kind", WITHDRAWALS)
def test_a_withdrawal_that_is_never_answered_says_so(
    bucket: MemoryBucket, world: World, kind: str
) -> None:
    withdraw, key = WITHDRAWALS[kind]
    bucket.put(key, b"mine")
    deletes = {number: Unanswered("x") for number in range(2, 100, 2)}
    faulty = FaultyBucket(bucket, refuse=deletes)
    with pytest.raises(Unanswered):
        withdraw(faulty, world, ONE)
    assert len(faulty.writes) == 5

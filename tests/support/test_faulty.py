"""The bucket that misbehaves on order does so exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import ObjectMissing, Throttled, Unanswered, Unavailable
from tests.support.faulty import FaultyBucket, Killed, crash_points


def work(bucket: Bucket) -> None:
    """Six calls, five of which write."""
    bucket.put("a", b"1")
    bucket.put_if_absent("b", b"2")
    bucket.get("a")
    writer = bucket.writer("c")
    writer.write(b"3")
    writer.close()
    bucket.delete(["a", "b"])


def state(memory: MemoryBucket) -> str:
    return "".join(info.key for info in memory.list())


AFTER = ["", "a", "ab", "ab", "abc", "bc", "c"]
"""What is there after so many calls."""


@pytest.fixture
def memory() -> MemoryBucket:
    return MemoryBucket(ManualClock())


def test_calls_are_numbered_in_order_each_deleted_key_by_itself(memory: MemoryBucket) -> None:
    faulty = FaultyBucket(memory)
    work(faulty)
    assert [(call.number, call.method, call.key) for call in faulty.calls] == [
        (1, "put", "a"),
        (2, "put_if_absent", "b"),
        (3, "get", "a"),
        (4, "writer", "c"),
        (5, "delete", "a"),
        (6, "delete", "b"),
    ]
    assert [call.number for call in faulty.writes] == [1, 2, 4, 5, 6]
    assert state(memory) == AFTER[6]


@pytest.mark.parametrize("number", range(1, 7))
def test_killed_before_a_call_it_is_not_applied(memory: MemoryBucket, number: int) -> None:
    faulty = FaultyBucket(memory, kill_before=number)
    with pytest.raises(Killed):
        work(faulty)
    assert state(memory) == AFTER[number - 1]
    assert faulty.killed_at is not None
    assert faulty.killed_at.number == number


@pytest.mark.parametrize("number", range(1, 7))
def test_killed_after_a_call_it_is_applied(memory: MemoryBucket, number: int) -> None:
    with pytest.raises(Killed):
        work(FaultyBucket(memory, kill_after=number))
    assert state(memory) == AFTER[number]


@pytest.mark.parametrize("number", range(1, 7))
def test_a_lost_answer_belongs_to_an_applied_call(memory: MemoryBucket, number: int) -> None:
    with pytest.raises(Unavailable) as raised:
        work(FaultyBucket(memory, lose_answer={number}))
    assert (raised.type is Unanswered) == (number != 3)
    assert state(memory) == AFTER[number]


def test_a_refused_call_is_not_applied_and_the_next_one_is(memory: MemoryBucket) -> None:
    faulty = FaultyBucket(memory, refuse={1: Throttled("slow down")})
    with pytest.raises(Throttled):
        faulty.put("a", b"")
    faulty.put("a", b"")
    assert state(memory) == "a"


def test_the_dead_make_no_call(memory: MemoryBucket) -> None:
    faulty = FaultyBucket(memory, kill_after=1)
    with pytest.raises(Killed):
        faulty.put("a", b"")
    calls: list[Callable[[], object]] = [
        lambda: faulty.get("a"),
        lambda: faulty.delete(["a"]),
        lambda: list(faulty.list()),
        lambda: faulty.writer("b"),
        faulty.now_ms,
    ]
    for call in calls:
        with pytest.raises(Killed):
            call()
    assert len(faulty.calls) == 1
    assert state(memory) == "a"


def test_death_is_no_exception_that_a_handler_survives() -> None:
    assert not issubclass(Killed, Exception)


def test_hooks_run_around_a_call_and_may_use_the_bucket_below(memory: MemoryBucket) -> None:
    faulty = FaultyBucket(memory)
    seen: list[str] = []
    faulty.before.append(lambda call: seen.append(f"before {call.number}: {state(memory)}"))
    faulty.after.append(lambda call: seen.append(f"after {call.number}: {state(memory)}"))
    faulty.before.append(lambda call: memory.delete(["a"]) if call.method == "get" else None)
    faulty.put("a", b"")
    with pytest.raises(ObjectMissing):
        faulty.get("a")
    assert seen == ["before 1: ", "after 1: a", "before 2: a"]


def test_the_crash_points_leave_every_state_and_lose_every_answer() -> None:
    def left(fault: str, number: int) -> str:
        memory = MemoryBucket(ManualClock())
        with pytest.raises(Killed):
            work(FaultyBucket(memory, **{fault: number}))  # type: ignore[arg-type]
        return state(memory)

    whole = FaultyBucket(MemoryBucket(ManualClock()))
    work(whole)
    points = [(fault, call.number) for fault, call in crash_points(whole.calls)]
    killed = [(fault, number) for fault, number in points if fault != "lose_answer"]
    everywhere = [(when, n) for when in ("kill_before", "kill_after") for n in range(1, 7)]
    assert {left(*one) for one in killed} == {left(*one) for one in everywhere}
    assert len(killed) == len(set(AFTER)) == 6
    assert [number for fault, number in points if fault == "lose_answer"] == [1, 2, 3, 4, 5, 6]
    assert [(one[0], one[1].number) for one in crash_points(whole.calls, lost=False)] == killed

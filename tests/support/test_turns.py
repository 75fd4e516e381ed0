"""The scheduler: it plays exactly the order it is given, and the same order again gives the same
run."""

from __future__ import annotations

import itertools

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import ObjectMissing
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.turns import Turns


def store() -> MemoryBucket:
    return MemoryBucket(World.manual().clock)


def add_one(bucket: FaultyBucket) -> None:
    """A counter that is read, then written: lost updates show the interleaving."""
    try:
        value = int(bucket.get("n").data)
    except ObjectMissing:
        value = 0
    bucket.put("n", str(value + 1).encode())


@pytest.mark.parametrize("order", sorted(set(itertools.permutations("aabb"))))
def test_every_order_of_requests_can_be_played(order: tuple[str, ...]) -> None:
    memory = store()
    turns = Turns(memory, {"a": add_one, "b": add_one})
    assert turns.play(order) == {}
    assert [name for name, _ in turns.calls] == list(order)
    one_after_the_other = order[0] == order[1]
    assert memory.get("n").data == (b"2" if one_after_the_other else b"1")


def test_who_is_left_goes_on_and_who_has_ended_is_passed_over() -> None:
    turns = Turns(store(), {"a": add_one, "b": add_one})
    turns.play("bbbb")
    assert [name for name, _ in turns.calls] == ["b", "b", "a", "a"]


def test_between_turns_nobody_is_at_work() -> None:
    memory = store()
    seen: list[tuple[str, str, int]] = []

    def look(name: str, call: Call) -> None:
        seen.append((name, call.method, len([*memory.list()])))

    Turns(memory, {"a": add_one}).play("", look)
    assert seen == [("a", "get", 0), ("a", "put", 1)]


def test_how_an_actor_failed_is_told_and_the_others_go_on() -> None:
    def fail(bucket: FaultyBucket) -> None:
        bucket.get("nothing")

    memory = store()
    errors = Turns(memory, {"a": fail, "b": add_one}).play("ab")
    assert [type(error) for error in errors.values()] == [ObjectMissing]
    assert memory.get("n").data == b"1"


def test_a_test_that_fails_midway_leaves_no_thread_behind() -> None:
    turns = Turns(store(), {"a": add_one, "b": add_one})

    def fail(name: str, call: Call) -> None:
        raise AssertionError

    with pytest.raises(AssertionError):
        turns.play("ab", fail)
    assert not any(thread.is_alive() for thread in turns._threads.values())

"""Roles: claimed, held, lost (protocol 3.7)."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Fenced, Indeterminate, Invalid, Unanswered
from blockstore.index.change import Change, Committed
from blockstore.index.epochs import COMPACTOR, Held, check_held, claim, still_held
from blockstore.index.log import Log
from blockstore.names import entry_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import append


def test_a_claim_takes_the_role_from_whoever_held_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    first = claim(log, world, COMPACTOR)
    assert first.epoch[0] == 1
    assert still_held(log.state, first)
    second = claim(Log(bucket, world), world, COMPACTOR)
    assert second.epoch[0] == 2
    state = log.poll()
    assert still_held(state, second)
    assert not still_held(state, first)
    check_held(state, second)
    with pytest.raises(Fenced, match=r"held by epoch 2 .*this process holds epoch 1"):
        check_held(state, first)


def test_roles_do_not_fence_one_another(log: Log, world: World) -> None:
    held = [claim(log, world, role) for role in (COMPACTOR, "compactor/3", "stream/q1", "writer")]
    assert all(still_held(log.state, one) for one in held)
    log.commit(append(10))
    assert all(still_held(log.state, one) for one in held), "an ordinary write is nobody's claim"


def test_no_role_is_never_fenced(log: Log) -> None:
    check_held(log.state, None)
    with pytest.raises(Fenced, match="held by no process"):
        check_held(log.state, Held(role=COMPACTOR, epoch=(1, "0" * 26)))


@pytest.mark.parametrize("role", ["", "x" * 129, "a\nb", "\x00"])
def test_a_role_that_is_no_name_is_invalid(log: Log, world: World, role: str) -> None:
    with pytest.raises(Invalid, match="role is"):
        claim(log, world, role)
    assert log.poll().version == 1


def test_a_claim_whose_answer_is_lost_is_mine_by_its_commit_id(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)

    def lose(call: Call) -> None:
        if call.key == entry_key(2) and call.method == "put_if_absent":
            faulty.after.remove(lose)
            raise Unanswered("lost")

    faulty.after.append(lose)
    held = claim(Log(faulty, world), world, COMPACTOR)
    assert held.epoch[0] == 1
    assert still_held(log.poll(), held)


def test_a_claim_that_loses_its_number_claims_the_next(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Two processes start at once: both mean number 1, and the entry of one says it."""
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.key == entry_key(2) and call.method == "put_if_absent":
            faulty.before.remove(overtake)
            claim(log, world, COMPACTOR)

    faulty.before.append(overtake)
    held = claim(Log(faulty, world), world, COMPACTOR)
    assert held.epoch[0] == 2
    assert still_held(log.poll(), held)


def test_a_claim_that_is_overtaken_before_it_is_known_is_fenced(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Log(bucket, world)
    commit = late.commit

    def overtaken(change: Change) -> Committed:
        committed = commit(change)
        claim(log, world, COMPACTOR)
        late.poll()
        return committed

    monkeypatch.setattr(late, "commit", overtaken)
    with pytest.raises(Fenced, match=r"claimed by commit .* held by epoch 2"):
        claim(late, world, COMPACTOR)


def test_an_unanswered_claim_is_indeterminate_and_claimed_again(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)

    def lose(call: Call) -> None:
        if call.key == entry_key(2):
            raise Unanswered("lost")

    faulty.after.append(lose)
    late = Log(faulty, world, patience_s=1)
    with pytest.raises(Indeterminate):
        claim(late, world, COMPACTOR)
    faulty.after.remove(lose)
    assert claim(late, world, COMPACTOR).epoch[0] == 2

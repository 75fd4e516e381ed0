"""The look at an index goes on past damage, and never mixes what lies above a boundary with what
lies below the next."""

from __future__ import annotations

import pytest

from blockstore.care.survey import survey
from blockstore.errors import Unavailable
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.gc import collect
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from tests.blockstore.care.scene import worn
from tests.support.faulty import Call, FaultyBucket


def test_a_whole_index_is_followed_to_its_end() -> None:
    made = worn()
    found = survey(made.bucket, made.world, every_checkpoint=True)
    assert (found.is_complete, found.boundary, found.entries, found.checkpoints) == (
        True,
        0,
        (1, 2, 3, 4, 5, 6, 7),
        (5,),
    )
    assert (found.missing, found.damaged, found.bad_checkpoints, found.later) == ((), {}, {}, ())
    assert found.state == made.open().log.state


def test_behind_a_gap_the_entries_that_can_be_read_are_evidence() -> None:
    made = worn()
    made.append("g")
    made.expire(made.blocks["d"])
    made.bucket.delete([entry_key(7)])
    found = survey(made.bucket, made.world)
    assert (found.is_complete, found.missing, found.state and found.state.version) == (
        False,
        ((7, 7),),
        6,
    )
    assert [entry.id for entry in found.later] == [8, 9]
    assert set(found.added_later) == {made.blocks["g"]}
    assert found.removed_later == {made.blocks["d"]}


def test_a_checkpoint_bridges_a_gap_and_one_that_is_damaged_does_not() -> None:
    made = worn()
    made.bucket.delete([entry_key(3)])
    found = survey(made.bucket, made.world)
    assert (found.is_complete, found.base, found.missing) == (True, 5, ((3, 3),))
    made.bucket.put(checkpoint_key(5), b"garbage")
    found = survey(made.bucket, made.world)
    assert (found.is_complete, found.state and found.state.version) == (False, 2)
    assert set(found.bad_checkpoints) == {5}


def test_a_collection_in_between_is_looked_at_again() -> None:
    made = worn()
    write_checkpoint(made.bucket, made.open().log.poll())
    made.world.clock.sleep(49 * 3600)
    made.append("g")
    faulty = FaultyBucket(made.bucket)

    def strike(call: Call) -> None:
        if (call.method, call.key) == ("list", "index/"):
            faulty.after.clear()
            collect(made.open().log, made.world)

    faulty.after.append(strike)
    found = survey(faulty, made.world)
    assert (found.is_complete, found.boundary, found.entries) == (True, 6, (7, 8))
    assert (found.missing, found.damaged) == ((), {})


def test_a_boundary_that_never_stands_still_is_said() -> None:
    made = worn()
    faulty = FaultyBucket(made.bucket)

    def strike(call: Call) -> None:
        if (call.method, call.key) == ("list", "index/checkpoints/"):
            value = int(made.bucket.get(BOUNDARY).data) + 1
            made.bucket.put(BOUNDARY, str(value).encode())

    faulty.after.append(strike)
    with pytest.raises(Unavailable, match="moved each of the"):
        survey(faulty, made.world)

"""What a commit returns where its own entry does not say it. Pure."""

from __future__ import annotations

from blockstore.format import VisibleBy
from blockstore.index.change import Append, ClaimEpoch, Committed, Done, Draft, Left
from blockstore.index.entry import Operation
from blockstore.index.outcomes import already, blocks_of, share_of
from tests.support.index_data import (
    Planned,
    append,
    block,
    compaction,
    created,
    follow,
    merge,
    ulid,
)

ONE, TWO, LATE = block(11), block(12), block(5)
STATE = follow(created(), Append(commit=ulid(1), blocks=(ONE, TWO)))


def test_an_operation_found_by_its_commit_id_says_which_of_its_blocks_stayed_out() -> None:
    found = already(STATE, (ONE, LATE), Done(version=2))
    assert (found.version, found.added, found.already) == (
        2,
        (STATE.blocks.get(ONE.ulid).meta,),
        False,
    )  # type: ignore[union-attr]
    assert found.left == {LATE.ulid: Left.DEFERRED}
    partly = block(30, sources=(ONE.ulid, ulid(31)), visible_by=VisibleBy.AGE)
    assert already(STATE, (partly,), Done(version=2)).left == {partly.ulid: Left.QUARANTINED}


def test_a_block_that_a_merge_has_taken_up_is_done_and_not_live() -> None:
    merged = follow(STATE, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]))
    found = already(merged, (ONE,), Done(version=2))
    assert (found.added, found.already, found.left) == ((), True, {})


def test_a_job_done_by_other_blocks_names_those() -> None:
    found = already(STATE, (LATE,), Done(version=2, blocks=(TWO.ulid,)))
    assert ([meta.ulid for meta in found.added], found.already, found.left) == (
        [TWO.ulid],
        True,
        {},
    )


def test_a_share_holds_ones_own_blocks_only() -> None:
    both = Committed(version=2, added=(ONE, TWO), left={LATE.ulid: Left.DEFERRED})
    assert share_of(both, (TWO,), STATE) == Committed(version=2, added=(TWO,))
    mine = share_of(both, (LATE,), STATE)
    assert (mine.version, mine.added, mine.left, mine.already) == (
        None,
        (),
        {LATE.ulid: Left.DEFERRED},
        False,
    )


def test_only_appends_and_discoveries_are_about_blocks() -> None:
    assert [meta.ulid for meta in blocks_of(append(10, 11))] == [ulid(10), ulid(11)]
    assert blocks_of(ClaimEpoch(commit=ulid(1), claims="compactor")) == ()
    assert blocks_of(Planned(operation=Operation.TAG, commit=ulid(1), plan=Draft())) == ()

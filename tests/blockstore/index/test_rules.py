"""Steps 1 to 3: done, fenced, condemned, in conflict (protocol 3.3 and 3.7)."""

from __future__ import annotations

import pytest

from blockstore.errors import BlockCondemned, Conflict, Fenced, Invalid
from blockstore.format import Job, VisibleBy
from blockstore.format.schema import serialize
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Change, ClaimEpoch, Create, Done, Draft, Left
from blockstore.index.entry import Operation
from blockstore.index.rules import decide
from blockstore.index.state import State
from tests.support.index_data import (
    DEFINITION,
    Planned,
    append,
    block,
    compaction,
    created,
    follow,
    merge,
    ulid,
)

ONE, TWO, THREE = block(11), block(12), block(13)
STATE = follow(created(), Append(commit=ulid(1), blocks=(ONE, TWO, THREE)))


def planned(operation: Operation, **draft: object) -> Planned:
    return Planned(operation=operation, commit=ulid(777), plan=Draft(**draft))  # type: ignore[arg-type]


def raised(state: State, watermark: int, floor: int | None = None) -> State:
    draft = Draft(horizon=ulid(watermark), floor=None if floor is None else ulid(floor))
    return follow(state, Planned(operation=Operation.HORIZON, commit=ulid(800), plan=draft))


def done(state: State, change: Change) -> Done:
    decided = decide(state, change)
    assert isinstance(decided, Done)
    return decided


def admitted(state: State, change: Change) -> tuple[list[str], dict[str, Left]]:
    decided = decide(state, change)
    assert not isinstance(decided, Done)
    return [one.ulid for one in decided[0].add], decided[1]


def test_a_commit_id_that_the_state_keeps_is_done() -> None:
    assert done(STATE, Append(commit=ulid(1), blocks=(block(99),))) == Done(version=2)


def test_an_append_is_done_block_by_block() -> None:
    again = Append(commit=ulid(2), blocks=(ONE, TWO))
    assert done(STATE, again).left == {ONE.ulid: Left.ACCOUNTED, TWO.ulid: Left.ACCOUNTED}
    assert admitted(STATE, Append(commit=ulid(2), blocks=(ONE, block(40)))) == (
        [ulid(40)],
        {ONE.ulid: Left.ACCOUNTED},
    )


def test_a_merged_block_is_still_done() -> None:
    merged = follow(STATE, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]))
    assert done(merged, Append(commit=ulid(3), blocks=(ONE,))).left == {ONE.ulid: Left.ACCOUNTED}


def test_blocks_of_one_entry_count_for_each_other() -> None:
    first, again = block(40), block(41, sources=(ulid(40),), revision=1)
    partly = block(42, sources=(ulid(40), ulid(43)))
    change = planned(
        Operation.DISCOVER, add=tuple(AddedBlock(meta=one) for one in (first, again, partly))
    )
    assert admitted(STATE, change) == (
        [first.ulid],
        {again.ulid: Left.ACCOUNTED, partly.ulid: Left.QUARANTINED},
    )


def test_a_batch_happens_once() -> None:
    state = follow(STATE, append(50, job=Job(app="nightly", batch=7)))
    again = done(state, append(60, job=Job(app="nightly", batch=7)))
    assert (again.version, again.blocks) == (3, (ulid(50),))
    admitted(state, append(60, job=Job(app="nightly", batch=8)))
    admitted(state, append(60, job=Job(app="other", batch=1)))


def test_a_lower_batch_is_invalid_unless_the_app_is_a_stream_or_a_backfill() -> None:
    state = follow(
        STATE,
        append(50, job=Job(app="nightly", batch=7)),
        append(51, job=Job(app="stream/q", batch=7)),
    )
    with pytest.raises(Invalid, match="'nightly' has committed batch 7 and never batch 5"):
        decide(state, append(60, job=Job(app="nightly", batch=5)))
    assert done(state, append(60, job=Job(app="stream/q", batch=5))) == Done()
    backfill = append(60, job=Job(app="nightly", batch=5), ordered=False)
    assert admitted(state, backfill)[0] == [ulid(60)]
    assert done(follow(state, backfill), append(61, job=Job(app="nightly", batch=5))).blocks == (
        ulid(60),
    )


def test_a_role_is_fenced_by_the_next_claim() -> None:
    mine = follow(STATE, ClaimEpoch(commit=ulid(5), claims="compactor"))
    held = planned(Operation.TAG, tags={"a": 1})
    held.role, held.epoch = "compactor", (1, ulid(5))
    decide(mine, held)
    taken = follow(mine, ClaimEpoch(commit=ulid(6), claims="compactor"))
    assert taken.epochs == {"compactor": (2, ulid(6))}
    with pytest.raises(Fenced, match=r"'compactor' is held by epoch 2 .*holds epoch 1"):
        decide(taken, held)
    held.epoch = None
    with pytest.raises(Fenced, match="holds no epoch"):
        decide(taken, held)


def test_a_claim_of_the_same_number_by_another_is_not_mine() -> None:
    assert done(
        follow(STATE, ClaimEpoch(commit=ulid(5), claims="r")),
        ClaimEpoch(commit=ulid(5), claims="r"),
    )
    decided = decide(
        follow(STATE, ClaimEpoch(commit=ulid(5), claims="r")),
        ClaimEpoch(commit=ulid(6), claims="r"),
    )
    assert not isinstance(decided, Done)
    assert decided[0].epochs == {"r": (2, ulid(6))}


def test_an_index_block_at_or_below_the_horizon_is_condemned() -> None:
    state = raised(STATE, 40)
    for number, condemned in ((39, True), (40, True), (41, False)):
        one = Append(commit=ulid(9), blocks=(block(number, visible_by=VisibleBy.INDEX),))
        if condemned:
            with pytest.raises(BlockCondemned, match=f"{ulid(number)}.*upload its rows again"):
                decide(state, one)
        else:
            admitted(state, one)
    with pytest.raises(BlockCondemned):
        decide(state, compaction(9, merge(30, [ONE, TWO]), [ONE, TWO]))


def test_an_age_block_at_or_below_the_horizon_is_left_to_discovery() -> None:
    state = raised(STATE, 40)
    assert done(state, append(40)).left == {ulid(40): Left.DEFERRED}
    assert admitted(state, planned(Operation.DISCOVER, add=(AddedBlock(meta=block(40)),)))[0] == [
        ulid(40)
    ]


def test_what_the_floor_has_passed_is_refused_by_block_and_by_source() -> None:
    state = raised(STATE, 40, floor=40)
    late = block(50, sources=(ulid(40),), revision=1)
    for one in (block(40), late):
        with pytest.raises(Invalid, match=f"{one.ulid}.*floor"):
            decide(state, Append(commit=ulid(9), blocks=(one,)))
        found = planned(Operation.DISCOVER, add=(AddedBlock(meta=one),))
        assert done(state, found).left == {one.ulid: Left.QUARANTINED}


def test_a_source_is_added_only_by_who_removes_its_blocks() -> None:
    made = merge(20, [ONE, TWO])
    decide(STATE, compaction(2, made, [ONE, TWO]))
    with pytest.raises(Conflict, match=f"{made.ulid} accounts for {TWO.ulid}"):
        decide(STATE, compaction(2, made, [ONE]))


def test_what_is_removed_excepted_or_read_must_be_live_as_it_was_read() -> None:
    gone = follow(STATE, planned(Operation.EXPIRE, remove=(ONE.ulid,)))
    for change in (
        compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]),
        planned(Operation.EXPIRE, remove=(ONE.ulid,)),
        planned(Operation.REVERT, excepts={ONE.ulid: (ONE.ulid,)}),
    ):
        change.commit = ulid(778)
        with pytest.raises(Conflict, match=f"{ONE.ulid} .*at version 3"):
            decide(gone, change)
    hidden = follow(STATE, planned(Operation.REVERT, excepts={ONE.ulid: (ONE.ulid,)}))
    with pytest.raises(Conflict, match=f"{ONE.ulid} hides 1 sources"):
        decide(hidden, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]))


def test_a_source_to_account_for_must_be_unknown() -> None:
    decide(STATE, planned(Operation.OVERWRITE, account=(ulid(99),)))
    with pytest.raises(Conflict, match=f"source {ONE.ulid} is accounted at version 2"):
        decide(STATE, planned(Operation.OVERWRITE, account=(ONE.ulid,)))


def test_a_tag_stands_for_one_version_until_it_is_taken_away() -> None:
    tagged = follow(STATE, planned(Operation.TAG, tags={"a": 1}))
    move = Planned(operation=Operation.TAG, commit=ulid(2), plan=Draft(tags={"a": 2}))
    with pytest.raises(Conflict, match="'a' names version 1"):
        decide(tagged, move)
    free = follow(
        tagged, Planned(operation=Operation.UNTAG, commit=ulid(3), plan=Draft(tags={"a": None}))
    )
    decide(free, move)


def test_a_restore_is_exempt_from_the_horizon_but_not_from_what_is_left_live() -> None:
    merged = raised(follow(STATE, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO])), 100)
    back = (AddedBlock(meta=ONE, version=2, first_row_id=0),)
    decide(merged, planned(Operation.RESTORE, remove=(ulid(20),), add=back))
    with pytest.raises(Conflict, match=f"accounts for {ONE.ulid}"):
        decide(merged, planned(Operation.RESTORE, add=back))


def test_a_block_names_its_schema_by_the_definitions_id() -> None:
    known = block(40, schema=serialize(DEFINITION.schema), schema_id=0)
    decided = decide(STATE, Append(commit=ulid(9), blocks=(known,)))
    assert not isinstance(decided, Done)
    assert (decided[0].add[0].meta.schema_id, decided[0].add[0].meta.schema) == (1, b"")
    strange = block(40, schema=b"another", schema_id=0)
    with pytest.raises(Conflict, match="schema that the definition at version 2 does not know"):
        decide(STATE, Append(commit=ulid(9), blocks=(strange,)))
    found = planned(Operation.DISCOVER, add=(AddedBlock(meta=strange),))
    assert done(STATE, found).left == {strange.ulid: Left.QUARANTINED}


def test_a_table_is_created_once() -> None:
    with pytest.raises(Conflict, match="already exists, at version 1"):
        decide(created(), Create(commit=ulid(9), definition=DEFINITION))

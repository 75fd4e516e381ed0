"""What the operations of the index request, judged by the rules: discover, the watermarks, expire,
tag, untag."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Conflict, Fenced, Invalid
from blockstore.format import VisibleBy
from blockstore.index.change import (
    Append,
    Change,
    ClaimEpoch,
    Discover,
    Done,
    Draft,
    Expire,
    Left,
    RaiseWatermarks,
    Tag,
    Untag,
)
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.rules import decide
from blockstore.index.state import State
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

MINE = (1, ulid(900))
ONE, TWO = block(11), block(12)
STATE = follow(
    created(),
    Append(commit=ulid(1), blocks=(ONE, TWO)),
    ClaimEpoch(commit=MINE[1], claims="compactor"),
)


def discover(*blocks: object, commit: int = 777) -> Discover:
    return Discover(commit=ulid(commit), epoch=MINE, blocks=blocks)  # type: ignore[arg-type]


def raised(state: State, horizon: int | None = None, floor: int | None = None, *keep: int) -> State:
    return follow(state, watermarks(horizon, floor, *keep, commit=800 + state.version))


def watermarks(
    horizon: int | None = None, floor: int | None = None, *keep: int, commit: int = 777
) -> RaiseWatermarks:
    return RaiseWatermarks(
        commit=ulid(commit),
        epoch=MINE,
        horizon=None if horizon is None else ulid(horizon),
        floor=None if floor is None else ulid(floor),
        keep=tuple(ulid(number) for number in keep),
    )


def drafted(state: State, change: Change) -> Draft:
    decided = decide(state, change)
    assert not isinstance(decided, Done), decided
    return decided[0]


def added(state: State, change: Change) -> list[str]:
    return [one.ulid for one in drafted(state, change).add]


EVERY_ONE: list[Callable[[], Change]] = [
    lambda: discover(block(40)),
    lambda: watermarks(horizon=5),
    lambda: Expire(
        commit=ulid(777),
        read={ONE.ulid: frozenset()},
        reason="retention",
        role="compactor",
        epoch=MINE,
    ),
]


@pytest.mark.parametrize("make", EVERY_ONE)
def test_whoever_lost_the_role_is_fenced(make: Callable[[], Change]) -> None:
    decide(STATE, make())
    taken = follow(STATE, ClaimEpoch(commit=ulid(901), claims="compactor"))
    with pytest.raises(Fenced, match=r"'compactor' is held by epoch 2 .*holds epoch 1"):
        decide(taken, make())
    with pytest.raises(Fenced, match="held by no process"):
        decide(created(), make())


@pytest.mark.parametrize("role", ["compactor/3", "writer", None])
def test_only_the_compactor_itself_discovers_and_raises(role: str | None) -> None:
    with pytest.raises(Invalid, match="discover was requested by role"):
        Discover(commit=ulid(1), epoch=MINE, blocks=(), role=role)
    with pytest.raises(Invalid, match="horizon was requested by role"):
        RaiseWatermarks(commit=ulid(1), epoch=MINE, horizon=ulid(1), role=role)
    with pytest.raises(Invalid, match="claim the role first"):
        Discover(commit=ulid(1), epoch=None, blocks=())  # type: ignore[arg-type]


def test_discover_takes_blocks_in_the_order_given_each_counting_for_the_next() -> None:
    first = block(50, sources=(ulid(40),), revision=1)
    again = block(40)
    partly = block(60, sources=(ulid(40), ulid(43)))
    decided = decide(STATE, discover(first, again, partly))
    assert not isinstance(decided, Done)
    assert [one.ulid for one in decided[0].add] == [first.ulid], (
        "the cover puts the higher revision first"
    )
    assert decided[1] == {again.ulid: Left.ACCOUNTED, partly.ulid: Left.QUARANTINED}
    assert follow(STATE, discover(first, again)).blocks.ulids() == [ONE.ulid, TWO.ulid, first.ulid]


def test_discover_leaves_what_the_index_accounts_for() -> None:
    assert decide(STATE, discover(ONE, TWO)) == Done(
        blocks=(ONE.ulid, TWO.ulid), left={ONE.ulid: Left.ACCOUNTED, TWO.ulid: Left.ACCOUNTED}
    )
    merged = follow(STATE, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]))
    gone = follow(
        merged, Planned(operation=Operation.EXPIRE, commit=ulid(3), plan=Draft(remove=(ulid(20),)))
    )
    assert isinstance(decide(gone, discover(ONE)), Done), "removed is still accounted"


def test_discover_adds_what_lies_between_floor_and_horizon() -> None:
    state = raised(raised(STATE, horizon=60), floor=30)
    assert added(state, discover(block(40), block(70))) == [ulid(40), ulid(70)]
    decided = decide(state, discover(block(30)))
    assert isinstance(decided, Done)
    assert decided.left == {ulid(30): Left.QUARANTINED}
    condemned = block(40, visible_by=VisibleBy.INDEX)
    with pytest.raises(Conflict, match="horizon"):
        decide(state, discover(condemned))


def test_a_watermark_only_rises_and_what_has_risen_is_done() -> None:
    state = raised(STATE, horizon=60)
    assert state.horizon == ulid(60)
    assert decide(state, watermarks(horizon=60)) == Done()
    assert decide(state, watermarks(horizon=50)) == Done()
    both = drafted(state, watermarks(50, 55))
    assert (both.horizon, both.floor) == (None, ulid(55))
    assert raised(state, horizon=61).horizon == ulid(61)


def test_a_floor_needs_an_earlier_entry_that_raised_the_horizon_to_it() -> None:
    for state in (STATE, raised(STATE, horizon=59)):
        with pytest.raises(Invalid, match=f"floor {ulid(60)} is above the horizon"):
            decide(state, watermarks(horizon=60, floor=60))
    assert raised(raised(STATE, horizon=60), floor=60).floor == ulid(60)


def test_a_floor_forgets_all_but_what_it_keeps_and_what_is_live() -> None:
    state = follow(STATE, append(13, 14))
    state = follow(
        state,
        Planned(
            operation=Operation.EXPIRE, commit=ulid(2), plan=Draft(remove=(ulid(13), ulid(14)))
        ),
    )
    state = raised(raised(state, horizon=60), None, 60, 13)
    known = [number for number in (11, 12, 13, 14) if ulid(number) in state.accounted]
    assert known == [11, 12, 13]


def test_watermarks_that_make_no_sense_are_invalid() -> None:
    with pytest.raises(Invalid, match="horizon is 'x', expected a ULID"):
        RaiseWatermarks(commit=ulid(1), epoch=MINE, horizon="x")
    with pytest.raises(Invalid, match="keep names 1 sources without a floor"):
        RaiseWatermarks(commit=ulid(1), epoch=MINE, horizon=ulid(5), keep=(ulid(1),))


def expire(exceptions: frozenset[str] = frozenset(), commit: int = 777) -> Expire:
    return Expire(
        commit=ulid(commit),
        read={ONE.ulid: exceptions},
        reason="retention",
        details="older than 30 days",
    )


def test_expire_needs_its_blocks_live_with_the_exceptions_that_were_read() -> None:
    draft = drafted(STATE, expire())
    assert draft.remove == (ONE.ulid,)
    assert draft.parameters == {"reason": "retention", "details": "older than 30 days"}
    gone = follow(STATE, expire())
    with pytest.raises(Conflict, match=f"{ONE.ulid} is not live at version 4"):
        decide(gone, expire(commit=778))
    hidden = follow(
        STATE,
        Planned(
            operation=Operation.REVERT, commit=ulid(2), plan=Draft(excepts={ONE.ulid: (ONE.ulid,)})
        ),
    )
    with pytest.raises(Conflict, match=f"{ONE.ulid} hides 1 sources"):
        decide(hidden, expire())
    assert drafted(hidden, expire(frozenset({ONE.ulid}))).remove == (ONE.ulid,)


def test_expire_needs_no_role() -> None:
    assert follow(created(), append(11), expire()).blocks.ulids() == []


def test_a_conflict_names_the_version_that_changed_the_block(
    bucket: MemoryBucket, log: Log
) -> None:
    log.commit(append(11, 12))
    read = log.state
    other = Log(bucket, log._world, program="compactor")
    other.commit(compaction(900, merge(20, [ONE, TWO]), [ONE, TWO]))
    stale = expire()
    stale.read_version = read.version
    with pytest.raises(
        Conflict, match=rf"{ONE.ulid} .*version 3 \(compact by .*, compactor, .*\) removed it"
    ) as info:
        log.commit(stale)
    assert info.value.block == ONE.ulid
    merged = ulid(20)
    hide = Draft(excepts={merged: (ONE.ulid,)})
    other.commit(Planned(operation=Operation.REVERT, commit=ulid(901), plan=hide))
    with pytest.raises(
        Conflict, match=rf"{merged} hides 1 sources .*version 4 \(revert by .*\) hid some"
    ):
        log.commit(Expire(commit=ulid(902), read={merged: frozenset()}, reason="manual"))


def test_a_tag_is_set_once_and_taken_away_once() -> None:
    tag = Tag(commit=ulid(2), name="q3", version=2)
    tagged = follow(STATE, tag)
    assert tagged.tags == {"q3": 2}
    assert decide(tagged, Tag(commit=ulid(3), name="q3", version=2)) == Done()
    with pytest.raises(Conflict, match="'q3' names version 2"):
        decide(tagged, Tag(commit=ulid(3), name="q3", version=1))
    assert decide(tagged, Untag(commit=ulid(3), name="q3", version=1)) == Done(), (
        "it stands for another"
    )
    free = follow(tagged, Untag(commit=ulid(3), name="q3", version=2))
    assert free.tags == {}
    assert decide(free, Untag(commit=ulid(4), name="q3")) == Done()
    assert follow(free, Tag(commit=ulid(5), name="q3", version=1)).tags == {"q3": 1}

"""Whatever blocks a table has, cleaning takes no row away and shows none: against a brute-force
reading of the rules.

The oracle has no plan and no order. It holds the blocks that are left, and says which sources a
reader of that moment sees, by a cover of its own. After every single removal of a plan, in the
order of the plan, readers must see what they saw before; and what a plan marks must be safe to
remove all at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from blockstore.format.block import VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.lifecycle.decide import Action, Decision, decide_marks, decide_removals
from tests.blockstore.lifecycle.blocks import ulid
from tests.blockstore.lifecycle.sights import Dir, index, sight
from tests.support.examples import few

EXAMPLES = few(250)

HIDES = {MarkReason.MANUAL, MarkReason.REVERT, MarkReason.RETENTION}
OWN = {MarkReason.SUPERSEDED, MarkReason.PARTIAL}


def seen(dirs: Iterable[Dir]) -> set[int]:
    """The sources that a reader of the list path sees."""
    left = [one for one in dirs if is_ready(one)]
    left.sort(key=lambda one: (-one.revision, -len(held(one)), one.number))
    taken: set[int] = set()
    visible: set[int] = set()
    aside = []
    for one in left:
        if not held(one) & taken:
            taken |= held(one)
            visible |= set() if one.mark in HIDES else held(one)
        else:
            aside.append(one)
    for one in aside:
        missing = held(one) - taken
        taken |= missing
        visible |= set() if one.mark in HIDES else missing
    return visible


def held(one: Dir) -> frozenset[int]:
    return one.sources if one.sources is not None else frozenset({one.number})


def is_ready(one: Dir) -> bool:
    return (
        one.has_meta
        and one.has_chunk
        and not one.garbage
        and one.age > 0.0105
        and one.visible_by is VisibleBy.AGE
    )


@st.composite
def families(draw: st.DrawFn) -> list[Dir]:
    """Up to nine blocks over five sources: merges, merges of merges, overlaps, revisions, wrecks
    and every mark."""
    dirs = []
    for number in range(1, draw(st.integers(1, 9)) + 1):
        sources = draw(st.frozensets(st.integers(1, 5), min_size=1, max_size=5))
        single = sources == {number}
        mark = draw(st.sampled_from([None, None, *MarkReason, MarkReason.SUPERSEDED]))
        has_meta = draw(st.sampled_from([True] * 8 + [False]))
        dirs.append(
            Dir(
                number=number,
                sources=None if single else sources,
                revision=draw(st.sampled_from([0, 0, 0, 1, 2]))
                if not single
                else draw(st.sampled_from([0, 0, 1])),
                age=draw(st.sampled_from([10, 10, 10, 0.015, 0.001])),
                has_meta=has_meta,
                has_chunk=draw(st.sampled_from([True] * 9 + [False]))
                or (mark is None and not has_meta),
                mark=mark,
                mark_age=draw(st.sampled_from([5, 5, 1])),
            )
        )
    return dirs


def apply(dirs: list[Dir], decision: Decision) -> list[Dir]:
    """The directories after one decision was carried out."""
    if decision.action is Action.REMOVE:
        return [one for one in dirs if one.ulid != decision.ulid]
    mark = None if decision.action is Action.WITHDRAW else decision.reason
    return [
        replace(one, mark=mark, mark_age=0) if one.ulid == decision.ulid else one for one in dirs
    ]


@settings(max_examples=EXAMPLES, deadline=None)
@given(families())
def test_no_removal_takes_a_row_away_or_shows_one(dirs: list[Dir]) -> None:
    before = seen(dirs)
    left = dirs
    removed = 0
    for _ in range(len(dirs) + 1):
        plan = decide_removals(sight(left)).decisions
        if not plan:
            break
        for decision in plan:
            one = next(one for one in left if one.ulid == decision.ulid)
            if decision.action is Action.REMOVE:
                removed += 1
                assert one.mark is not None, "unmarked blocks stay"
                assert one.mark_age >= 2, "delete_delay is over"
                wreck = one.garbage or (one.has_meta and not one.has_chunk)
                assert not (wreck and one.mark in OWN), "a malformed block is a person's to remove"
            left = apply(left, decision)
            assert seen(left) == before, f"after {decision}"
    else:
        raise AssertionError("the passes never come to rest")
    event(f"removed: {min(removed, 3)}")
    event(f"overlaps: {len({one.number for one in dirs if len(held(one)) > 1}) > 1}")
    event(f"revisions: {any(one.revision for one in dirs)}")


@settings(max_examples=EXAMPLES, deadline=None)
@given(families())
def test_all_that_is_newly_marked_superseded_could_go_at_once_with_all_that_was(
    dirs: list[Dir],
) -> None:
    """Each source of what is marked is held by a ready block that is neither marked superseded now
    nor was before."""
    newly = {one.ulid for one in decide_marks(sight(dirs)) if one.action is Action.MARK}
    kept = [
        one
        for one in dirs
        if one.ulid not in newly and one.mark not in OWN | {MarkReason.MALFORMED}
    ]
    safe = set().union(*(held(one) for one in kept if is_ready(one)), set())
    for one in dirs:
        if one.ulid in newly and one.has_meta:
            assert is_ready(one)
            assert held(one) <= safe, one
    assert seen([one for one in dirs if one.ulid not in newly]) == seen(dirs)
    event(f"marked: {min(len(newly), 3)}")


@settings(max_examples=EXAMPLES, deadline=None)
@given(families(), st.data())
def test_whoever_removes_by_an_older_look_no_two_lose_a_source(
    dirs: list[Dir], data: st.DataObject
) -> None:
    """R8 with two compactors: each decides by a look of its own, in which blocks of the other's may
    be missing.

    Marks that are due were placed long before the older look, so both see the same ones; what an
    older look lacks are blocks that were uploaded since. Whatever they do after each other, each
    source that was seen is held by a block.
    """
    newer = {one.ulid for one in dirs if one.mark is None and data.draw(st.booleans())}
    older = decide_removals(sight([one for one in dirs if one.ulid not in newer])).decisions
    later = decide_removals(sight(dirs)).decisions
    gone = {one.ulid for one in (*older, *later) if one.action is Action.REMOVE}
    left = [one for one in dirs if one.ulid not in gone]
    holders = set().union(*(held(one) for one in left if is_ready(one)), set())
    assert seen(dirs) <= holders
    event(f"both: {bool(gone)}")


@st.composite
def indexed(draw: st.DrawFn) -> tuple[list[Dir], list[Dir], dict[str, object]]:
    """Directories, which of them are live, and the rest of what an index says."""
    dirs = draw(families())
    dirs = [replace(one, visible_by=draw(st.sampled_from(VisibleBy))) for one in dirs]
    live: list[Dir] = []
    for one in dirs:
        taken = set().union(*(held(other) for other in live), set())
        if not held(one) & taken and draw(st.booleans()):
            live.append(one)
    said = {
        "accounted": draw(st.frozensets(st.integers(1, 5))),
        "removed": draw(
            st.dictionaries(st.integers(1, 9), st.sampled_from([11, 12, 20]), max_size=3)
        ),
        "horizon": draw(st.sampled_from([None, 3, 6, 50])),
        "floor": draw(st.sampled_from([None, None, 2])),
    }
    return dirs, live, said


@settings(max_examples=EXAMPLES, deadline=None)
@given(indexed())
def test_with_an_index_nothing_goes_that_somebody_may_still_ask_for_or_publish(
    case: tuple[list[Dir], list[Dir], dict[str, object]],
) -> None:
    dirs, live, said = case
    named = index(live=live, **said)  # type: ignore[arg-type]
    look = sight(dirs, named)
    by_ulid = {one.ulid: one for one in dirs}
    decided = [*decide_marks(look), *decide_removals(look).decisions]
    for decision in decided:
        one = by_ulid[decision.ulid]
        if decision.action is Action.WITHDRAW:
            assert one.mark in OWN
            continue
        assert one not in live
        removed = said["removed"].get(one.number, 0)  # type: ignore[attr-defined]
        assert removed <= 11, "a version above the boundary names it"
        accounted = {
            int(source[-4:]) for source in named.state.accounted.held(ulid(n) for n in held(one))
        }
        told = one.has_meta and one.visible_by is VisibleBy.AGE and accounted == held(one)
        old = one.age >= 2 or not (one.has_meta or one.has_chunk)
        below = named.state.horizon is not None and one.ulid <= named.state.horizon and old
        condemned = below and (
            not one.has_meta
            or one.visible_by is VisibleBy.INDEX
            or one.mark in HIDES | {MarkReason.MALFORMED}
        )
        assert told or condemned, "somebody may still publish it"
        if decision.action is Action.REMOVE:
            assert one.mark is not None
            assert one.mark_age >= 2
        else:
            assert one.mark is None
    event(f"decided: {sorted({one.action for one in decided})}")

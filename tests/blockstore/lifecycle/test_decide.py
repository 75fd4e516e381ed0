"""What a cleaning pass decides (R4, R6, R8): case by case, with an index and without."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.format.block import VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.index.reachable import Named
from blockstore.lifecycle.decide import Action, decide_marks, decide_removals, quarantined
from tests.blockstore.lifecycle.blocks import START_MS, ulid
from tests.blockstore.lifecycle.sights import Dir, index, sight

MERGE = frozenset({1, 2})
PERSONS = (MarkReason.MANUAL, MarkReason.REVERT, MarkReason.RETENTION)


def marks(*dirs: Dir, named: Named | None = None) -> dict[int, tuple[str, str]]:
    """Number to (action, reason)."""
    return {number(one.ulid): (one.action, one.reason) for one in decide_marks(sight(dirs, named))}


def due(*dirs: Dir, named: Named | None = None) -> dict[int, str]:
    """Number to action, of what is due; blocks that wait are not named."""
    return {number(one.ulid): one.action for one in decide_removals(sight(dirs, named)).decisions}


def number(name: str) -> int:
    return int(name[-4:])


def merged(**changes: object) -> Dir:
    return replace(Dir(number=9, sources=MERGE), **changes)


# Without an index: the cover decides.


def test_what_a_ready_merge_covers_is_marked_and_names_it() -> None:
    dirs = [Dir(number=1), Dir(number=2), merged(), Dir(number=3)]
    assert marks(*dirs) == {1: (Action.MARK, "superseded"), 2: (Action.MARK, "superseded")}
    assert {one.superseded_by for one in decide_marks(sight(dirs))} == {ulid(9)}


@pytest.mark.parametrize("quarters", [0, 1])
def test_a_merge_must_have_been_ready_for_sync_delay(quarters: int) -> None:
    """It is ready after one sync_delay (15 minutes), and relied on after a second."""
    age = (15 + 15 * quarters) / (24 * 60)
    found = marks(Dir(number=1), Dir(number=2), merged(age=age))
    assert bool(found) is (quarters == 1)


def test_what_waives_its_wait_is_relied_on_after_sync_delay() -> None:
    young, old = 14 / (24 * 60), 15 / (24 * 60)
    assert not marks(Dir(number=1), Dir(number=2), merged(age=young, ignore_delay=True))
    assert marks(Dir(number=1), Dir(number=2), merged(age=old, ignore_delay=True))


@pytest.mark.parametrize("mark", [MarkReason.SUPERSEDED, MarkReason.PARTIAL, MarkReason.MALFORMED])
def test_a_marked_merge_is_not_relied_on(mark: MarkReason) -> None:
    found = marks(Dir(number=1), Dir(number=2), merged(mark=mark, mark_age=1, meta_age=0.5))
    assert not {1, 2} & found.keys()


INTS, TEXTS = (
    Definition.create(pa.schema([("n", kind)])).schema_bytes for kind in (pa.int64(), pa.string())
)


def test_a_block_that_contradicts_the_schema_supersedes_nothing_and_is_quarantined() -> None:
    old = [Dir(number=1, schema=INTS), Dir(number=2, schema=INTS)]
    assert marks(*old, merged(schema=TEXTS)) == {}
    assert set(quarantined(sight([*old, merged(schema=TEXTS)]))) == {ulid(9)}
    marked = [replace(one, mark=MarkReason.SUPERSEDED) for one in old]
    assert Action.REMOVE not in due(*marked, merged(schema=TEXTS)).values()


def test_what_says_that_another_block_contradicts_stays_while_that_one_is_there() -> None:
    """Were it gone, the other one would be older than the merge, and push it and all that fits it
    out."""
    claims = Dir(number=5, sources=frozenset({1, 7}), schema=TEXTS)
    marked = Dir(number=1, schema=INTS, mark=MarkReason.SUPERSEDED)
    merge = merged(schema=INTS)
    assert marks(replace(marked, mark=None), claims, merge) == {}
    assert Action.REMOVE not in due(marked, claims, merge).values()
    assert marks(replace(marked, mark=None), merge) == {1: (Action.MARK, "superseded")}
    assert due(marked, merge) == {1: Action.REMOVE}


def test_a_block_that_contradicts_the_schema_goes_by_a_persons_mark() -> None:
    strange = Dir(number=5, schema=TEXTS, mark=MarkReason.MALFORMED)
    assert due(Dir(number=1, schema=INTS), strange) == {5: Action.REMOVE}
    assert 5 not in due(Dir(number=1, schema=INTS), replace(strange, schema=INTS))


@pytest.mark.parametrize("mark", PERSONS)
def test_what_a_hidden_merge_covers_goes_with_it_and_before_it(mark: MarkReason) -> None:
    assert marks(Dir(number=1), Dir(number=2), merged(mark=mark)).keys() == {1, 2}
    superseded = Dir(number=1, mark=MarkReason.SUPERSEDED)
    assert due(superseded, merged(mark=mark, sources=frozenset({1, 4}))) == {
        1: "remove",
        9: "remove",
    }
    assert due(replace(superseded, mark_age=1), merged(mark=mark)) == {}


def test_a_block_of_another_stream_covers_nothing() -> None:
    assert not marks(Dir(number=1), Dir(number=2), merged(labels={"region": "eu"}))


def test_a_damaged_or_missing_merge_covers_nothing() -> None:
    assert not marks(Dir(number=1), Dir(number=2), merged(has_chunk=False))
    assert not marks(Dir(number=1), Dir(number=2), merged(garbage=True))


def test_two_that_rely_on_each_other_are_withdrawn_and_one_whom_a_third_covers_goes() -> None:
    """R8: two compactors with different listings may each have marked what the other relies on."""
    one = Dir(number=1, mark=MarkReason.SUPERSEDED)
    other = Dir(number=7, sources=frozenset({1}), mark=MarkReason.SUPERSEDED)
    assert due(one, other) == {1: "withdraw", 7: "withdraw"}
    assert due(one, other, Dir(number=8, sources=frozenset({1, 2}))) == {1: "remove", 7: "remove"}


def test_a_superseded_mark_is_withdrawn_when_what_held_the_rows_is_gone() -> None:
    assert due(Dir(number=1, mark=MarkReason.SUPERSEDED)) == {1: "withdraw"}
    assert due(Dir(number=1, mark=MarkReason.SUPERSEDED), merged(has_chunk=False)) == {
        1: "withdraw"
    }


def test_what_the_cover_chooses_is_never_removed_as_superseded() -> None:
    chosen = Dir(number=7, sources=frozenset({1}), revision=1, mark=MarkReason.SUPERSEDED)
    assert due(chosen, Dir(number=1)) == {7: "withdraw"}


@pytest.mark.parametrize("reason", MarkReason)
def test_nothing_goes_before_its_mark_is_delete_delay_old(reason: MarkReason) -> None:
    young = [
        Dir(number=1, mark=reason, mark_age=1.99),
        Dir(number=3, mark=reason, mark_age=1.99, has_meta=False),
    ]
    assert due(*young, Dir(number=9, sources=MERGE)) == {}


@pytest.mark.parametrize("reason", PERSONS)
def test_a_persons_mark_decides_by_itself(reason: MarkReason) -> None:
    assert due(Dir(number=1, mark=reason), Dir(number=2, mark=reason, garbage=True)) == {
        1: "remove",
        2: "remove",
    }


def test_a_block_marked_malformed_goes_only_while_it_cannot_be_read() -> None:
    assert due(Dir(number=1, mark=MarkReason.MALFORMED, garbage=True)) == {1: "remove"}
    assert due(Dir(number=1, mark=MarkReason.MALFORMED)) == {}


def test_what_the_caller_leaves_alone_is_neither_marked_nor_removed_and_is_waited_for() -> None:
    fresh = sight([Dir(number=1), Dir(number=2), merged()])
    assert [one.ulid for one in decide_marks(fresh, {ulid(1)})] == [ulid(2)]
    small = Dir(number=1, mark=MarkReason.MANUAL)
    large = Dir(number=7, sources=MERGE, mark=MarkReason.MANUAL)
    found = decide_removals(sight([small, large]), {ulid(1): "a repair"})
    assert found.decisions == ()
    assert found.waiting == {
        ulid(1): "a repair",
        ulid(7): f"block {ulid(1)} must go before it (R7)",
    }


def test_a_mark_that_does_not_hold_is_withdrawn_from_a_block_left_alone_too() -> None:
    [one] = decide_removals(
        sight([Dir(number=1, mark=MarkReason.SUPERSEDED)]), {ulid(1): "a repair"}
    ).decisions
    assert one.action is Action.WITHDRAW


@pytest.mark.parametrize("mark", [None, MarkReason.SUPERSEDED, MarkReason.PARTIAL])
@pytest.mark.parametrize("named", [None, index(horizon=50, accounted=[1])])
def test_a_malformed_block_is_named_and_never_touched_by_itself(
    mark: MarkReason | None, named: Named | None
) -> None:
    for bad in (Dir(number=1, garbage=True, mark=mark), Dir(number=1, has_chunk=False, mark=mark)):
        assert marks(bad, named=named) == {}
        assert due(bad, named=named) == {}
        assert list(quarantined(sight([bad], named))) == [ulid(1)]


def test_a_damaged_block_that_is_young_is_not_even_named() -> None:
    assert quarantined(sight([Dir(number=1, garbage=True, age=0.001)])) == {}


# R4, both ways.


@pytest.mark.parametrize("named", [None, index(horizon=50)])
def test_an_aborted_upload_is_marked_first_and_removed_later(named: Named | None) -> None:
    aborted = Dir(number=1, has_meta=False)
    assert marks(aborted, named=named) == {1: (Action.MARK, "partial")}
    assert due(replace(aborted, mark=MarkReason.PARTIAL, mark_age=1), named=named) == {}
    assert due(replace(aborted, mark=MarkReason.PARTIAL), named=named) == {1: "remove"}


@pytest.mark.parametrize("named", [None, index(horizon=50)])
def test_an_upload_of_which_anything_is_younger_than_partial_delay_is_alive(
    named: Named | None,
) -> None:
    alive = Dir(number=1, has_meta=False, age=1.9)
    assert marks(alive, named=named) == {}
    assert due(replace(alive, mark=MarkReason.PARTIAL), named=named) == {}


def test_a_young_name_is_alive_whatever_the_store_says_of_its_objects() -> None:
    ahead = Dir(number=1, has_meta=False).found()
    fresh = ulid(1, time_ms=START_MS + 19 * 86_400_000)
    look = sight([])
    directory = replace(ahead.directory, ulid=fresh)
    assert decide_marks(replace(look, found={fresh: replace(ahead, directory=directory)})) == ()


@pytest.mark.parametrize("named", [None, index(horizon=50)])
@pytest.mark.parametrize(("meta_age", "action"), [(0.99, None), (1.0, Action.WITHDRAW)])
def test_a_partial_mark_on_what_became_complete_stays_for_half_of_delete_delay(
    named: Named | None, meta_age: float, action: Action | None
) -> None:
    complete = Dir(number=1, mark=MarkReason.PARTIAL, meta_age=meta_age)
    assert marks(complete, named=named) == ({} if action is None else {1: (action, "partial")})
    assert due(complete, named=named) == {}


@pytest.mark.parametrize("reason", MarkReason)
@pytest.mark.parametrize("named", [None, index(horizon=50)])
@pytest.mark.parametrize("has_chunk", [True, False])
def test_a_removal_that_was_cut_short_is_finished(
    reason: MarkReason, named: Named | None, has_chunk: bool
) -> None:
    left = Dir(number=1, has_meta=False, has_chunk=has_chunk, mark=reason)
    assert due(left, named=named) == {1: "remove"}


# With an index.


def test_what_a_version_above_the_boundary_or_a_tag_names_stays() -> None:
    one = Dir(number=1, mark=MarkReason.MANUAL)
    assert due(one, named=index(accounted=[1], removed={1: 15})) == {}
    assert due(one, named=index(accounted=[1], removed={1: 11})) == {1: "remove"}
    assert due(one, named=index(live=[one])) == {}
    assert marks(replace(one, mark=None), named=index(accounted=[1], removed={1: 15})) == {}
    assert marks(replace(one, mark=None), named=index(accounted=[1])) == {
        1: (Action.MARK, "superseded")
    }


def test_a_superseded_mark_on_what_is_named_after_all_is_withdrawn() -> None:
    one = Dir(number=1, mark=MarkReason.SUPERSEDED)
    assert due(one, named=index(live=[one])) == {1: "withdraw"}


def test_an_age_block_goes_once_its_sources_are_accounted_and_it_has_aged() -> None:
    named = index(accounted=[1, 2])
    assert marks(merged(), named=named) == {9: (Action.MARK, "superseded")}
    assert marks(merged(), named=index(accounted=[1])) == {}
    assert marks(merged(age=0.001), named=named) == {}


def test_a_block_completed_under_a_partial_mark_waits_from_its_own_mark_once_accounted() -> None:
    """Readers that list may have shown it until then, and what they were shown can be read for
    ``delete_delay``."""
    complete = Dir(number=1, mark=MarkReason.PARTIAL, mark_age=9, meta_age=4)
    assert due(complete, named=index(accounted=[1])) == {}
    assert marks(complete, named=index(accounted=[1])) == {1: (Action.WITHDRAW, "partial")}
    superseded = Dir(number=1, mark=MarkReason.SUPERSEDED, mark_age=5, meta_age=9)
    assert due(superseded, named=index(accounted=[1])) != {}


@pytest.mark.parametrize("accounted", [[], [1, 2]])
@pytest.mark.parametrize("horizon", [None, 8, 9])
def test_an_index_block_goes_only_at_or_below_the_horizon(
    accounted: list[int], horizon: int | None
) -> None:
    """Also where its sources are accounted: so are those of a merge that is on its way to its
    entry."""
    debris = merged(visible_by=VisibleBy.INDEX)
    named = index(accounted=accounted, horizon=horizon)
    reason = "superseded" if accounted else "partial"
    assert marks(debris, named=named) == ({9: (Action.MARK, reason)} if horizon == 9 else {})
    mark = MarkReason(reason)
    gone = due(replace(debris, mark=mark), named=named)
    assert gone.get(9) == ("remove" if horizon == 9 else ("withdraw" if accounted else None))


def test_condemned_debris_keeps_its_partial_mark_though_it_is_complete() -> None:
    debris = merged(visible_by=VisibleBy.INDEX, mark=MarkReason.PARTIAL, mark_age=1)
    assert marks(debris, named=index(horizon=9)) == {}
    assert marks(debris, named=index(horizon=8)) == {9: (Action.WITHDRAW, "partial")}


def test_an_index_block_whose_objects_are_young_is_not_condemned() -> None:
    assert marks(merged(visible_by=VisibleBy.INDEX, age=1.9), named=index(horizon=50)) == {}


def test_an_aborted_upload_above_the_horizon_waits_for_it() -> None:
    assert marks(Dir(number=9, has_meta=False), named=index(horizon=8)) == {}
    assert due(Dir(number=9, has_meta=False, mark=MarkReason.PARTIAL), named=index()) == {}


@pytest.mark.parametrize("reason", PERSONS)
def test_a_person_marks_away_what_nobody_knows_once_the_horizon_has_passed_it(
    reason: MarkReason,
) -> None:
    unknown = Dir(number=5, mark=reason)
    assert due(unknown, named=index(horizon=4)) == {}
    assert due(unknown, named=index(horizon=5)) == {5: "remove"}
    assert due(replace(unknown, garbage=True), named=index(horizon=4)) == {}
    assert due(replace(unknown, garbage=True), named=index(horizon=5)) == {5: "remove"}


def test_a_readable_block_marked_malformed_stays_unless_its_rows_are_accounted_for() -> None:
    bad = Dir(number=5, mark=MarkReason.MALFORMED)
    assert due(bad, named=index(horizon=5)) == {}
    assert due(bad, named=index(accounted=[5])) == {5: "remove"}


def test_a_damaged_block_that_a_person_marked_goes_once_its_sources_are_accounted() -> None:
    bad = Dir(number=5, has_chunk=False, mark=MarkReason.MALFORMED)
    assert due(bad, named=index(accounted=[5])) == {5: "remove"}


def test_an_unknown_age_block_stays_until_it_is_discovered() -> None:
    assert marks(Dir(number=5), named=index(horizon=50)) == {}


def test_a_block_that_comes_too_late_is_named_and_stays() -> None:
    late = Dir(number=5)
    named = index(horizon=50, floor=5)
    assert marks(late, named=named) == {}
    assert "too late" in quarantined(sight([late], named))[ulid(5)]


def test_every_decision_says_why_in_one_clause() -> None:
    dirs = [
        Dir(number=1, mark=MarkReason.SUPERSEDED),
        Dir(number=2),
        merged(),
        Dir(number=3, has_meta=False, mark=MarkReason.PARTIAL),
        Dir(number=4, mark=MarkReason.SUPERSEDED),
        Dir(number=5, mark=MarkReason.MALFORMED),
    ]
    look = sight(dirs)
    removals = decide_removals(look)
    reasons = [one.why for one in (*decide_marks(look), *removals.decisions)] + [
        *removals.waiting.values()
    ]
    assert len(reasons) == 5
    assert all(reason and "\n" not in reason and not reason.endswith(".") for reason in reasons)
    assert removals.waiting.keys() == {ulid(5)}

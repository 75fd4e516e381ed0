"""R7 between blocks: which block goes before which, and that none waits in a circle."""

from __future__ import annotations

from dataclasses import replace

from blockstore.format.marks import MarkReason
from blockstore.index.reachable import Named
from blockstore.lifecycle.decide import Action, decide_removals
from tests.blockstore.lifecycle.blocks import ulid
from tests.blockstore.lifecycle.sights import Dir, index, sight

SUPERSEDED, MANUAL, RETENTION = MarkReason.SUPERSEDED, MarkReason.MANUAL, MarkReason.RETENTION


def of(number: int, *sources: int, mark: MarkReason | None = SUPERSEDED, **special: object) -> Dir:
    return Dir(number=number, sources=frozenset(sources), mark=mark, **special)  # type: ignore[arg-type]


def order(*dirs: Dir, named: Named | None = None) -> list[int]:
    """The blocks that go, first to last."""
    decisions = decide_removals(sight(dirs, named)).decisions
    return [int(one.ulid[-4:]) for one in decisions if one.action is Action.REMOVE]


def test_a_block_goes_after_all_whose_sources_are_among_its_own() -> None:
    newest = of(30, 1, 2, 3, 4, mark=None)
    assert order(newest, of(21, 1, 2, 3), of(20, 1, 2), of(2, 2), of(1, 1)) == [2, 1, 20, 21]
    decisions = decide_removals(sight([newest, of(20, 1, 2), of(2, 2), of(1, 1)])).decisions
    assert {one.ulid: one.after for one in decisions}[ulid(20)] == {ulid(1), ulid(2)}


def test_a_block_waits_for_a_smaller_one_that_is_not_due() -> None:
    dirs = [of(30, 1, 2, 3, mark=None), of(20, 1, 2), of(2, 2), of(1, 1, mark_age=1)]
    assert order(*dirs) == [2]
    assert (
        decide_removals(sight(dirs)).waiting[ulid(20)] == f"block {ulid(1)} must go before it (R7)"
    )


def test_a_block_waits_for_a_smaller_one_that_is_not_marked_also_if_it_is_damaged() -> None:
    newest = of(30, 1, 2, 3, mark=None)
    assert order(newest, of(20, 1, 2), of(1, 1, mark=None)) == []
    assert order(newest, of(20, 1, 2), of(1, 1, mark=None, has_chunk=False)) == []
    assert order(newest, of(20, 1, 2), of(1, 1, mark=None, garbage=True)) == [20]


def test_of_equal_sources_the_one_that_the_cover_prefers_goes_last() -> None:
    newest = of(30, 1, 2, mark=None, revision=3)
    assert order(newest, of(22, 1, revision=1), of(21, 1), of(20, 1)) == [21, 20, 22]


def test_a_hidden_block_goes_after_every_block_that_shares_a_source() -> None:
    assert order(of(20, 1, 2, 3, mark=MANUAL), of(21, 3), of(1, 1)) == [21, 1, 20]
    assert order(of(20, 1, 2, 3, mark=MANUAL), of(21, 3), of(1, 1, mark=None)) == [21]


def test_a_hidden_block_goes_after_a_larger_one_whose_rows_it_keeps_hidden() -> None:
    """By the first rule the larger one would wait for it, and both forever."""
    assert order(
        of(20, 1, mark=MANUAL, revision=1), of(9, 1, 2), of(8, 2, 3, mark=None, revision=1)
    ) == [
        9,
        20,
    ]


def test_two_that_are_hidden_likewise_go_smaller_first() -> None:
    assert order(of(20, 1, 2, mark=MANUAL), of(9, 2, 3, 4, mark=RETENTION)) == [20, 9]


def test_hidden_likewise_is_not_enough_where_other_rows_would_vanish() -> None:
    """Without the first hidden block the cover would take the second completely, and hide what a
    third one shows."""
    first, second = of(20, 1, 2, mark=MANUAL, revision=1), of(21, 2, 3, 4, mark=MANUAL)
    third = of(22, 4, 5, mark=None)
    assert order(first, second, third) == []
    assert order(first, second, replace(third, revision=2)) == [20]


def test_a_marked_block_that_hides_nothing_is_no_reason_to_wait_in_a_circle() -> None:
    hidden = of(20, 1, mark=MANUAL, revision=1)
    assert order(hidden, of(9, 1, 2, mark=MANUAL), of(8, 2, 3, mark=None, revision=1)) == [9, 20]


def test_with_an_index_what_is_named_or_damaged_is_not_waited_for() -> None:
    first, second, merge = of(1, 1, mark=None), of(2, 2, mark=None, has_chunk=False), of(9, 1, 2)
    named = index(accounted=[1, 2], removed={1: 15})
    assert order(first, second, merge, named=named) == [9]
    assert order(of(1, 1, mark=None), merge, named=index(accounted=[1, 2])) == []


def test_directories_without_a_meta_wait_for_nobody() -> None:
    assert order(of(1, 1, has_meta=False), of(2, 2, has_meta=False, mark=MarkReason.PARTIAL)) == [
        1,
        2,
    ]

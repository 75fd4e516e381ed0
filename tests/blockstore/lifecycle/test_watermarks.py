"""How far the horizon and the floor may rise, when they do, and what a floor keeps (protocol
3.6)."""

from __future__ import annotations

from dataclasses import replace

import immutables
import pytest

from blockstore.format.block import Job, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.ids import ulid_at, ulid_time_ms
from blockstore.index.batches import AppBatches, Written
from blockstore.index.reachable import Named
from blockstore.lifecycle.decide import decide_marks
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.watermarks import (
    DISCOVER_WINDOW_S,
    floor_to_raise,
    highest_horizon,
    horizon_to_raise,
)
from tests.blockstore.lifecycle.blocks import START_MS, ulid
from tests.blockstore.lifecycle.sights import DAY_MS, NOW_MS, Dir, index, sight

DEBRIS = Dir(number=5, sources=frozenset({1, 2}), visible_by=VisibleBy.INDEX)


def later(look: Sight, days: float) -> Sight:
    """The same listing, shown so many days later."""
    return replace(look, listing=replace(look.listing, now_ms=look.now_ms + int(days * DAY_MS)))


def floored(named: Named, floor_days_ago: float, now_ms: int) -> Named:
    floor = ulid_at(now_ms - DISCOVER_WINDOW_S * 1000 - int(floor_days_ago * DAY_MS))
    return replace(named, state=replace(named.state, floor=floor))


def test_the_horizon_stays_partial_delay_behind_the_stores_clock() -> None:
    look = sight([DEBRIS], index())
    assert ulid_time_ms(highest_horizon(look)) == NOW_MS - 2 * DAY_MS
    longer = replace(look, properties=Properties(partial_delay_s=5 * 86_400))
    assert ulid_time_ms(highest_horizon(longer)) == NOW_MS - 5 * DAY_MS
    assert horizon_to_raise(look) == highest_horizon(look)


@pytest.mark.parametrize(
    "debris",
    [
        DEBRIS,
        replace(DEBRIS, mark=MarkReason.PARTIAL),
        Dir(number=5, has_meta=False),
        Dir(number=5, has_meta=False, mark=MarkReason.SUPERSEDED),
        Dir(number=5, mark=MarkReason.MANUAL),
        Dir(number=5, has_chunk=False, mark=MarkReason.MALFORMED),
    ],
)
def test_it_rises_for_what_it_would_condemn_and_not_a_second_time(debris: Dir) -> None:
    look = sight([debris], index())
    assert horizon_to_raise(look) is not None
    assert horizon_to_raise(sight([debris], index(horizon=5))) is None


@pytest.mark.parametrize(
    "ordinary",
    [
        Dir(number=5),
        Dir(number=5, age=1.9, has_meta=False),
        Dir(number=5, has_chunk=False),
        replace(DEBRIS, age=1),
    ],
)
def test_a_pass_with_nothing_to_condemn_raises_nothing(ordinary: Dir) -> None:
    assert horizon_to_raise(sight([ordinary], index())) is None
    assert horizon_to_raise(sight([ordinary], index(live=[ordinary]))) is None
    assert horizon_to_raise(sight([], index(accounted=[1, 2]))) is None


def test_what_is_named_or_accounted_needs_no_horizon() -> None:
    assert horizon_to_raise(sight([DEBRIS], index(accounted=[1, 2], removed={5: 15}))) is None
    assert horizon_to_raise(sight([Dir(number=1)], index(accounted=[1]))) is None


def test_without_an_index_there_are_no_watermarks() -> None:
    assert horizon_to_raise(sight([DEBRIS])) is None
    assert floor_to_raise(sight([DEBRIS]), ulid(9)) is None


def test_a_directory_that_is_too_young_to_be_condemned_raises_nothing_by_its_name() -> None:
    """The objects are old by the store, and the name is of yesterday: a device whose clock runs
    ahead."""
    ahead = ulid(5, time_ms=NOW_MS - DAY_MS)
    look = sight([DEBRIS], index())
    [found] = look.found.values()
    moved = replace(found, directory=replace(found.directory, ulid=ahead))
    assert horizon_to_raise(replace(look, found={ahead: moved})) is None


# The floor. The blocks of these tests were written 20 days before NOW_MS: 15 days later their
# window is over.


def test_the_floor_lies_thirty_days_behind_and_keeps_what_the_listing_shows() -> None:
    live, merged = (
        Dir(number=9, sources=frozenset({3, 4})),
        Dir(number=8, sources=frozenset({5, 6})),
    )
    named = index(live=[live], accounted=[1, 2, 5, 6, 7])
    look = later(sight([Dir(number=1), merged, live], named), 15)
    found = floor_to_raise(look, highest_horizon(look))
    assert found is not None
    assert ulid_time_ms(found.floor) == look.now_ms - 30 * DAY_MS
    assert found.keep == (ulid(1), ulid(5), ulid(6)), "2 and 7 are forgotten, 3 and 4 are live"


def test_the_floor_waits_for_a_horizon_that_was_there_before_the_listing() -> None:
    look = later(sight([], index(accounted=[1])), 15)
    assert horizon_to_raise(look) == highest_horizon(look)
    assert floor_to_raise(look, None) is None
    assert floor_to_raise(look, ulid(1)) is None
    assert floor_to_raise(look, highest_horizon(look)) is not None


def test_a_floor_that_would_forget_nothing_stays() -> None:
    for named in (index(), index(accounted=[1]), index(live=[Dir(number=1)])):
        look = later(sight([Dir(number=1)], named), 15)
        assert floor_to_raise(look, highest_horizon(look)) is None
        assert horizon_to_raise(look) is None or not decide_marks(look)


def test_the_floor_moves_by_a_day_at_least() -> None:
    named = index(accounted=[1])
    look = later(sight([], named), 15)
    for days, moves in ((0.5, False), (1.0, True)):
        again = replace(look, named=floored(named, days, look.now_ms))
        assert (floor_to_raise(again, highest_horizon(again)) is not None) is moves


def test_what_is_younger_than_the_window_is_kept_by_its_age() -> None:
    look = later(sight([], index(accounted=[1])), 9)
    assert ulid_time_ms(ulid(1)) == START_MS > look.now_ms - 30 * DAY_MS
    assert floor_to_raise(look, highest_horizon(look)) is None


def test_a_block_that_cannot_be_read_keeps_its_own_name() -> None:
    look = later(sight([Dir(number=1, garbage=True)], index(accounted=[1, 2])), 15)
    found = floor_to_raise(look, highest_horizon(look))
    assert found is not None
    assert found.keep == (ulid(1),)


def test_the_floor_moves_for_uploads_alone() -> None:
    """Failed ones, and those whose blocks are live, leave no source to forget."""
    job = Job(f"gateway/{ulid(3)}/input-{ulid(3)}", 0)
    batches = immutables.Map({job.app: AppBatches().added(job.app, Written(0, 7, ()))})
    named = index()
    named = replace(named, state=replace(named.state, batches=batches))
    for days, moves in ((9, False), (15, True)):
        look = later(sight([], named), days)
        assert (horizon_to_raise(look) is not None) is moves
        assert (floor_to_raise(look, highest_horizon(look)) is not None) is moves

"""Block states: single verdicts by rule, and the table of transitions against every step that the
world can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.lifecycle.states import (
    TRANSITIONS,
    BlockState,
    Evidence,
    Standing,
    aged,
    classify,
    may_follow,
)
from tests.blockstore.lifecycle.blocks import START_MS, block

PROPERTIES = Properties()
HOUR = 3_600_000
SYNC = 15 * 60_000
DAYS_2 = 48 * HOUR


def state(evidence: Evidence, after_ms: int) -> BlockState:
    return classify(evidence, START_MS + after_ms, PROPERTIES).state


def complete(meta: BlockMeta | None = None, **changes: object) -> Evidence:
    meta = meta or block(1)
    evidence = Evidence(ulid=meta.ulid, newest_ms=START_MS, meta=meta, meta_modified_ms=START_MS)
    return replace(evidence, **changes)  # type: ignore[arg-type]


def test_r2_a_block_is_ready_once_all_three_times_are_sync_delay_old() -> None:
    assert state(complete(), SYNC - 1) is BlockState.FRESH
    assert state(complete(), SYNC) is BlockState.READY
    late_upload = complete(replace(block(1), uploaded_time=START_MS + HOUR))
    assert state(late_upload, HOUR) is BlockState.FRESH
    assert state(late_upload, HOUR + SYNC) is BlockState.READY
    late_object = complete(meta_modified_ms=START_MS + HOUR)
    assert state(late_object, HOUR) is BlockState.FRESH
    assert state(late_object, HOUR + SYNC) is BlockState.READY
    young_ulid = complete(replace(block(1, time_ms=START_MS + HOUR), uploaded_time=START_MS))
    assert state(young_ulid, HOUR) is BlockState.FRESH
    assert state(young_ulid, HOUR + SYNC) is BlockState.READY


def test_r2_ignore_delay_waives_the_wait() -> None:
    assert state(complete(block(1, ignore_delay=True)), 0) is BlockState.READY
    assert not aged(Evidence(ulid=block(1).ulid, newest_ms=0), START_MS + DAYS_2, PROPERTIES)


def test_r4_a_directory_without_meta_is_partial_once_ulid_and_newest_object_are_old() -> None:
    upload = Evidence(ulid=block(1).ulid, newest_ms=START_MS + HOUR)
    assert state(upload, DAYS_2) is BlockState.FRESH
    assert state(upload, DAYS_2 + HOUR) is BlockState.PARTIAL
    assert state(replace(upload, newest_ms=0), DAYS_2 - 1) is BlockState.FRESH


def test_r4_a_malformed_block_is_quarantined_and_never_deleted_by_itself() -> None:
    damaged = complete(damage="chunks/000001.parquet is missing")
    assert state(damaged, SYNC - 1) is BlockState.FRESH
    assert state(damaged, SYNC) is BlockState.MALFORMED
    for reason in (MarkReason.PARTIAL, MarkReason.SUPERSEDED):
        assert (
            state(replace(damaged, mark=reason, mark_modified_ms=START_MS), 9 * DAYS_2)
            is BlockState.MALFORMED
        )
    by_hand = replace(damaged, mark=MarkReason.MANUAL, mark_modified_ms=START_MS)
    assert state(by_hand, 9 * DAYS_2) is BlockState.DELETING
    unparsed = replace(complete(), meta=None)
    assert state(unparsed, SYNC) is BlockState.MALFORMED


def test_r4_a_partial_mark_on_a_block_that_became_complete_waits_to_be_withdrawn() -> None:
    found = complete(mark=MarkReason.PARTIAL, mark_modified_ms=START_MS)
    assert state(found, 9 * DAYS_2) is BlockState.MARKED
    without = replace(found, meta=None, meta_modified_ms=None)
    assert state(without, DAYS_2 - 1) is BlockState.MARKED
    assert state(without, DAYS_2) is BlockState.DELETING


def test_a_partial_mark_on_a_condemned_block_stays_although_it_is_complete() -> None:
    """Below the horizon it can no longer be published."""
    found = complete(
        mark=MarkReason.PARTIAL, mark_modified_ms=START_MS, standing=Standing.CONDEMNED
    )
    assert state(found, DAYS_2 - 1) is BlockState.MARKED
    assert state(found, DAYS_2) is BlockState.DELETING


def test_r7_a_removal_that_took_meta_json_is_still_deleting() -> None:
    begun = Evidence(
        ulid=block(1).ulid,
        newest_ms=START_MS,
        mark=MarkReason.SUPERSEDED,
        mark_modified_ms=START_MS,
    )
    assert state(begun, DAYS_2) is BlockState.DELETING


def test_marks_do_not_concern_a_block_that_the_index_holds_live() -> None:
    for reason in MarkReason:
        found = complete(mark=reason, mark_modified_ms=START_MS, standing=Standing.LIVE)
        assert state(found, 9 * DAYS_2) is BlockState.READY


def test_r11_a_live_block_that_cannot_be_read_is_malformed_at_any_age() -> None:
    assert state(complete(standing=Standing.LIVE, damage="it is short"), 0) is BlockState.MALFORMED
    gone = complete(standing=Standing.LIVE, meta=None, meta_modified_ms=None)
    verdict = classify(gone, START_MS, PROPERTIES)
    assert verdict.state is BlockState.MALFORMED
    assert "meta.json is missing" in verdict.reason


def test_an_index_block_waits_for_its_entry_and_is_partial_once_condemned() -> None:
    waiting = complete(block(1, visible_by=VisibleBy.INDEX), standing=Standing.UNKNOWN)
    assert state(waiting, 9 * DAYS_2) is BlockState.FRESH
    assert state(replace(waiting, standing=Standing.CONDEMNED), 9 * DAYS_2) is BlockState.PARTIAL
    assert state(replace(waiting, standing=Standing.NO_INDEX), 0) is BlockState.MALFORMED


def test_a_block_below_the_floor_is_quarantined() -> None:
    assert state(complete(standing=Standing.LATE), SYNC) is BlockState.MALFORMED


def test_what_others_account_for_is_superseded() -> None:
    assert state(complete(standing=Standing.ACCOUNTED), 0) is BlockState.SUPERSEDED
    assert state(complete(covered=True), SYNC) is BlockState.SUPERSEDED
    assert state(complete(covered=True), 0) is BlockState.FRESH


class Place(NamedTuple):
    """All that a block can meet, in coarse steps; ages are 0 (now), 1 (past sync_delay), 2 (past
    every delay)."""

    born: int
    newest: int
    meta: str = ""
    meta_age: int = 0
    damaged: bool = False
    mark: MarkReason | None = None
    mark_age: int = 0
    standing: Standing = Standing.UNKNOWN
    covered: bool = False


AGE_MS = (0, HOUR, 9 * DAYS_2)
NOW_MS = START_MS + 10 * DAYS_2


def evidence_of(place: Place) -> Evidence:
    born = NOW_MS - AGE_MS[place.born]
    visible_by = VisibleBy.INDEX if place.meta == "index" else VisibleBy.AGE
    meta = block(1, visible_by=visible_by, time_ms=born, ignore_delay=place.meta == "waived")
    return Evidence(
        ulid=meta.ulid,
        newest_ms=NOW_MS - AGE_MS[place.newest],
        meta=meta if place.meta else None,
        meta_modified_ms=NOW_MS - AGE_MS[place.meta_age] if place.meta else None,
        damage="a chunk is missing" if place.damaged else None,
        mark=place.mark,
        mark_modified_ms=NOW_MS - AGE_MS[place.mark_age],
        standing=place.standing,
        covered=place.covered,
    )


def steps(place: Place) -> Iterator[Place]:
    """Every single thing that can happen next to a directory that exists."""
    older = {
        name: min(getattr(place, name) + 1, 2)
        for name in ("born", "newest", "meta_age", "mark_age")
    }
    yield place._replace(**older)
    if not place.meta:
        yield place._replace(newest=0)
        for meta, damaged in product(("age", "index", "waived"), (False, True)):
            yield place._replace(meta=meta, meta_age=0, newest=0, damaged=damaged)
    else:
        yield place._replace(damaged=not place.damaged)
        yield place._replace(covered=not place.covered)
        yield place._replace(meta="", meta_age=0, damaged=False, covered=False)
        yield from (place._replace(standing=standing) for standing in _next_standing(place))
    if place.mark is None:
        yield from (place._replace(mark=reason, mark_age=0, newest=0) for reason in MarkReason)
    else:
        yield place._replace(mark=None, mark_age=0)


def _next_standing(place: Place) -> tuple[Standing, ...]:
    watermark = Standing.CONDEMNED if place.meta == "index" else Standing.LATE
    return {
        Standing.UNKNOWN: (Standing.LIVE, Standing.ACCOUNTED, watermark),
        Standing.LIVE: (Standing.ACCOUNTED,),
        Standing.ACCOUNTED: (Standing.LIVE, Standing.LATE),
        Standing.CONDEMNED: (),
        Standing.LATE: (Standing.LIVE,),
        Standing.NO_INDEX: (),
    }[place.standing]


def walk() -> set[tuple[BlockState | None, BlockState | None]]:
    """Every pair of states that one step joins, over all places that can be reached."""
    starts = [
        Place(born=born, newest=0, standing=standing)
        for born in (0, 2)
        for standing in (Standing.NO_INDEX, Standing.UNKNOWN)
    ]
    memo: dict[Place, BlockState] = {}

    def told(place: Place) -> BlockState:
        if place not in memo:
            memo[place] = classify(evidence_of(place), NOW_MS, PROPERTIES).state
        return memo[place]

    pairs: set[tuple[BlockState | None, BlockState | None]] = {
        (None, told(start)) for start in starts
    }
    seen, todo = set(starts), list(starts)
    while todo:
        place = todo.pop()
        if told(place) in (BlockState.DELETING, BlockState.MARKED):
            pairs.add((told(place), None))
        for after in steps(place):
            pairs.add((told(place), told(after)))
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return {(before, after) for before, after in pairs if before != after}


def test_the_table_of_transitions_is_exactly_what_the_world_can_do() -> None:
    table = {(before, after) for before, edges in TRANSITIONS.items() for after in edges}
    reached = walk()
    assert reached - table == set()
    assert table - reached == set()


def test_every_transition_has_a_reason_and_nothing_returns_from_removal() -> None:
    assert all(reason for edges in TRANSITIONS.values() for reason in edges.values())
    assert may_follow(BlockState.READY, BlockState.READY)
    assert not may_follow(None, BlockState.DELETING)


@pytest.mark.parametrize("state_from", list(BlockState))
def test_no_state_vanishes_without_a_mark(state_from: BlockState) -> None:
    assert may_follow(state_from, None) == (state_from in (BlockState.MARKED, BlockState.DELETING))

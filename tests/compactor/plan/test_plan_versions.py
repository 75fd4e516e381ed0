"""Plans for rows that have an identity: which rule speaks, and that every plan comes to rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from blockstore.compactor.plan.jobs import Candidate, PlannedJob, PlanSettings, Reason
from blockstore.compactor.plan.versions import plan_versions
from blockstore.format.block import BlockKind
from blockstore.scan.current import Hidden, newest_among
from blockstore.scan.shadows import NO_SHADOWS, Changes, Shadows, StreamShadows
from tests.compactor.plan.test_plan import DAY, HOUR, LATER, STREAM, block, only, ulids

Rows = Sequence[tuple[int, int, bool]]
"""An identity, a version, and whether it is a tombstone."""


def changes(number: int, **more: object) -> Candidate:
    return block(number, 0, 1, kind=BlockKind.CHANGES, timed=False, **more)  # type: ignore[arg-type]


def shadows(over: Mapping[Candidate, Rows], hidden: Mapping[Candidate, Sequence[int]]) -> Shadows:
    """What blocks of changes hold, and of which identities plain ones hold older versions."""
    rows = [row for held in over.values() for row in held]
    newest, _, places = newest_among(
        pa.array([one for one, _, _ in rows], pa.int64()),
        np.array([version for _, version, _ in rows], dtype=np.int64),
        np.array([deleted for _, _, deleted in rows], dtype=bool),
    )
    blocks, first = {}, 0
    for candidate, held in over.items():
        part = slice(first, first := first + len(held))
        blocks[candidate.ulid] = Changes(
            ((f"{candidate.ulid}/a", len(held)),),
            places[part],
            np.array([version for _, version, _ in held], dtype=np.int64),
            np.array([deleted for _, _, deleted in held], dtype=bool),
        )
    values = newest.values.to_pylist()
    older = {
        candidate.ulid: {
            f"{candidate.ulid}/a": Hidden(
                np.arange(len(ids)), np.array([values.index(one) for one in ids], dtype=np.int64)
            )
        }
        for candidate, ids in hidden.items()
    }
    return Shadows(streams={STREAM: StreamShadows(newest, blocks, older)})


def planned(
    blocks: Sequence[Candidate], held: Shadows, now_ms: int = LATER, **settings: object
) -> tuple[PlannedJob, ...]:
    return plan_versions(blocks, held, PlanSettings(**settings), now_ms)  # type: ignore[arg-type]


def plain(number: int, **more: object) -> Candidate:
    return block(number, 0, 1, timed=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("hidden", "speaks"), [(10, False), (11, True)])
def test_a_block_is_purged_when_more_than_a_tenth_is_hidden(hidden: int, speaks: bool) -> None:
    base, over = plain(1), changes(2)
    held = shadows({over: [(one, 5, False) for one in range(hidden)]}, {base: range(hidden)})
    jobs = planned([base, over], held)
    assert bool(jobs) is speaks
    if speaks:
        job = only(jobs)
        assert (job.reason, job.kind, job.level, ulids(job)) == (
            Reason.PURGE,
            BlockKind.PLAIN,
            2,
            [1],
        )
        assert job.details == "11 of 100 rows are hidden by newer versions: more than a tenth"


def test_a_block_is_purged_when_too_many_changes_shadow_its_stream() -> None:
    base = plain(0)
    for count in (8, 9):
        over = [changes(number, size=4**number << 20) for number in range(1, count + 1)]
        held = shadows({one: [(place, 5, False)] for place, one in enumerate(over)}, {base: [0]})
        jobs = planned([base, *over], held)
        assert [job.reason for job in jobs] == ([] if count == 8 else [Reason.PURGE])
    assert "9 blocks of changes shadow the stream: more than 8" in only(jobs).details


def test_a_block_is_purged_once_its_window_is_closed_and_not_at_once_again() -> None:
    base = block(1, 0, HOUR, created=0)
    over = changes(2)
    held = shadows({over: [(1, 5, False)]}, {base: [1]})
    assert planned([base, over], held, now_ms=HOUR) == ()
    job = only(planned([base, over], held))
    assert job.details.endswith("and the block's window of 2h is closed")
    again = replace(base, ulid=block(3, 0, HOUR, created=LATER - HOUR).ulid)
    held = shadows({over: [(1, 5, False)]}, {again: [1]})
    assert planned([again, over], held) == ()


def test_what_hides_nothing_is_promoted_once_it_has_waited() -> None:
    base, over = plain(1), changes(2, created=LATER - 2 * HOUR)
    rows: Rows = [(1, 5, False), (2, 5, False)]
    assert only(planned([base, over], shadows({over: rows}, {}))).reason is Reason.PROMOTION
    assert planned([base, over], shadows({over: rows}, {base: [2]})) == ()
    fresh = changes(2, created=LATER - HOUR)
    assert planned([base, fresh], shadows({fresh: rows}, {})) == ()


def test_a_tombstone_keeps_changes_what_they_are_as_long_as_it_hides_something() -> None:
    base, over = plain(1), changes(2, created=0)
    rows: Rows = [(1, 5, False), (2, 5, True)]
    assert planned([base, over], shadows({over: rows}, {base: [2]})) == ()
    held = shadows({over: rows}, {})
    job = only(planned([base, over], held))
    assert (job.reason, job.kind) == (Reason.PROMOTION, BlockKind.PLAIN)
    rest = held.rest_of(STREAM, BlockKind.CHANGES, [over.ulid])
    assert (rest.rows, rest.judged) == (1, 5)


def test_an_older_version_in_other_changes_counts_too() -> None:
    first, second = changes(1, created=0), changes(2, created=0, size=1 << 30)
    held = shadows({first: [(1, 4, False)], second: [(1, 5, True)]}, {})
    assert held.rest_of(STREAM, BlockKind.CHANGES, [second.ulid]).kind is BlockKind.CHANGES
    assert held.rest_of(STREAM, BlockKind.CHANGES, [first.ulid]).rows == 1, "it is superseded"
    both = held.rest_of(STREAM, BlockKind.CHANGES, [first.ulid, second.ulid])
    assert (both.kind, both.rows, both.judged) == (BlockKind.PLAIN, 2, 5)
    jobs = planned([first, second], held)
    assert [(job.reason, ulids(job)) for job in jobs] == [(Reason.PROMOTION, [1])]


def test_kinds_do_not_mix_and_changes_of_all_times_merge_by_size() -> None:
    base = [block(number, 0, HOUR) for number in (1, 2)]
    over = [replace(changes(number), timed=True, max_time=20 * DAY) for number in range(3, 11)]
    held = shadows({one: [(one.rows, at, False)] for at, one in enumerate(over, 1)}, {base[0]: []})
    former = [
        plain(number, kind=BlockKind.HISTORY, newest_source=base[0].ulid) for number in (20, 21)
    ]
    jobs = planned([*base, *over, *former], held)
    assert [(job.reason, job.kind, ulids(job)) for job in jobs] == [
        (Reason.CHANGES, BlockKind.PLAIN, list(range(3, 11))),
        (Reason.OVERLAP, BlockKind.PLAIN, [1, 2]),
    ]
    waited = [replace(one, ulid=plain(30 + at, created=0).ulid) for at, one in enumerate(former)]
    job = only(planned(waited, NO_SHADOWS))
    assert (job.reason, job.kind) == (Reason.HISTORY, BlockKind.HISTORY)


def test_former_versions_that_are_kept_for_a_time_merge_with_those_of_their_age() -> None:
    def former(number: int, days: int) -> Candidate:
        made = plain(number, created=LATER - days * DAY, kind=BlockKind.HISTORY)
        return replace(made, newest_source=made.ulid)

    blocks = [
        former(1, 1),
        former(2, 1),
        former(3, 25),
        former(4, 25),
        former(5, 30),
        former(6, 30),
    ]
    jobs = planned(blocks, NO_SHADOWS, history_ms=30 * DAY)
    assert sorted(ulids(job) for job in jobs) == [[1, 2], [3, 4]], "the oldest are about to leave"


def test_marks_and_streams_that_cannot_be_judged_are_left_alone() -> None:
    base, over = plain(1, no_compact=True), changes(2, created=0, no_compact=True)
    held = shadows({over: [(1, 5, False)]}, {base: list(range(1, 2)) * 1})
    assert planned([base, over], held) == ()
    free = [replace(one, no_compact=False) for one in (plain(1, rows=1), over)]
    held = shadows({free[1]: [(1, 5, False)]}, {free[0]: [1]})
    assert only(planned(free, held)).reason is Reason.PURGE
    assert planned(free, replace(held, unread={STREAM: ("x", "damaged")})) == ()

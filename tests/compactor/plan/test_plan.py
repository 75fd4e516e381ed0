"""Plans: pure, without conflicts, worth their writing, and finished after finitely many passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.compactor.plan.jobs import Candidate, PlannedJob, PlanSettings, Reason
from blockstore.compactor.plan.plan import plan
from blockstore.format.block import StreamKey
from blockstore.ids import ulid_at

HOUR = 3_600_000
DAY = 24 * HOUR
MIB = 1 << 20
STREAM = StreamKey((), 0)
EU = StreamKey((("cluster", "eu1"),), 0)
LATER = 10_000 * DAY


def ulid_of(number: int, created: int = LATER) -> str:
    """Blocks are new unless a test says when they were made."""
    return f"{ulid_at(created)[:10]}{number:016d}"


def block(
    number: int, start: int, end: int, *, size: int = MIB, created: int = LATER, **more: object
) -> Candidate:
    values = {"stream": STREAM, "rows": 100, "level": 1, **more}
    ulid = ulid_of(number, created)
    return Candidate(ulid=ulid, min_time=start, max_time=end, bytes=size, **values)  # type: ignore[arg-type]


def hourly(count: int, *, first: int = 0, **more: object) -> list[Candidate]:
    return [block(first + hour, hour * HOUR, (hour + 1) * HOUR, **more) for hour in range(count)]  # type: ignore[arg-type]


def only(jobs: tuple[PlannedJob, ...]) -> PlannedJob:
    [job] = jobs
    return job


def ulids(job: PlannedJob) -> list[int]:
    return [int(one.ulid[10:]) for one in job.inputs]


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    blocks = []
    for number in range(draw(st.integers(0, 40))):
        start = draw(st.integers(-2 * DAY, 40 * DAY))
        blocks.append(
            block(
                number,
                start,
                start + draw(st.sampled_from([1, HOUR, 3 * HOUR, DAY, 20 * DAY])),
                size=draw(st.sampled_from([0, 1, MIB, 5 * MIB, 40 * MIB, 900 * MIB])),
                created=draw(st.sampled_from([0, 39 * DAY, LATER])),
                level=draw(st.integers(1, 3)),
                stream=draw(st.sampled_from([STREAM, EU])),
                timed=draw(st.booleans()),
                no_compact=draw(st.integers(0, 9)) == 0,
                sort_by=draw(st.sampled_from([("k",), ("k", "t")])),
            )
        )
    return blocks


SETTINGS = st.builds(
    PlanSettings,
    tier_blocks=st.integers(2, 8),
    max_block_bytes=st.sampled_from([50 * MIB, 1000 * MIB, 64 << 30]),
    retention_ms=st.one_of(st.none(), st.just(30 * DAY)),
)
NOW = st.sampled_from([0, 20 * DAY, 41 * DAY, LATER])


def applied(
    blocks: list[Candidate], jobs: tuple[PlannedJob, ...], first: int, now: int = LATER
) -> list[Candidate]:
    """The blocks after the jobs: each job's inputs are one block."""
    gone = {one.ulid for job in jobs for one in job.inputs}
    merged = [
        replace(
            job.inputs[0],
            ulid=ulid_of(first + place, now),
            min_time=job.min_time,
            max_time=job.max_time,
            rows=job.rows,
            bytes=job.bytes,
            level=job.level,
        )
        for place, job in enumerate(jobs)
    ]
    return [one for one in blocks if one.ulid not in gone] + merged


@given(candidates(), SETTINGS, NOW)
def test_jobs_share_no_block_mix_no_streams_and_obey_marks_and_sizes(
    blocks: list[Candidate], settings: PlanSettings, now: int
) -> None:
    jobs = plan(blocks, settings, now)
    inputs = [one.ulid for job in jobs for one in job.inputs]
    assert len(inputs) == len(set(inputs))
    for job in jobs:
        assert len(job.inputs) >= 2
        assert {(one.stream, one.sort_by) for one in job.inputs} == {
            (job.stream, job.inputs[0].sort_by)
        }
        assert not any(one.no_compact for one in job.inputs)
        assert job.bytes <= settings.max_block_bytes
        assert [one.ulid for one in job.inputs] == sorted(one.ulid for one in job.inputs)
        assert job.details


@given(candidates(), SETTINGS, NOW, st.randoms())
def test_a_plan_does_not_depend_on_the_order_of_the_blocks(
    blocks: list[Candidate], settings: PlanSettings, now: int, rng: object
) -> None:
    shuffled = list(blocks)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(blocks, settings, now) == plan(shuffled, settings, now)


@given(candidates(), SETTINGS, NOW)
def test_planning_and_merging_in_turn_come_to_an_end_and_keep_every_row(
    blocks: list[Candidate], settings: PlanSettings, now: int
) -> None:
    rows, first = sum(one.rows for one in blocks), 1000
    for _ in range(len(blocks) + 1):
        jobs = plan(blocks, settings, now)
        if not jobs:
            break
        blocks = applied(blocks, jobs, first, now)
        first += 1000
    assert plan(blocks, settings, now) == ()
    assert sum(one.rows for one in blocks) == rows


@given(candidates(), SETTINGS)
def test_a_block_is_never_rewritten_for_less_than_its_share(
    blocks: list[Candidate], settings: PlanSettings
) -> None:
    for job in plan(blocks, settings, LATER):
        largest = max(one.bytes for one in job.inputs)
        waited = any(LATER - one.created_ms >= 2 * HOUR for one in job.inputs)
        if largest > 4 * MIB and job.reason is not Reason.SIZE and not waited:
            assert (job.bytes - largest) * settings.tier_blocks >= largest


def test_a_backlog_of_a_month_is_written_once() -> None:
    blocks = [
        block(number, start := number * 30 * DAY // 1000, start + 1) for number in range(1000)
    ]
    jobs = plan(blocks, PlanSettings(), LATER)
    assert [job.window for job in jobs] == [
        (0, 14 * DAY),
        (14 * DAY, 28 * DAY),
        (28 * DAY, 42 * DAY),
    ]
    assert plan(applied(blocks, jobs, 1000), PlanSettings(), LATER) == ()


def test_while_data_arrives_small_windows_close_first() -> None:
    blocks = hourly(9)
    now = 9 * HOUR
    jobs = plan(blocks, PlanSettings(), now)
    assert [job.window for job in jobs] == [(0, 8 * HOUR)]
    assert plan(hourly(5), PlanSettings(), 5 * HOUR)[0].window == (0, 2 * HOUR)


def test_the_newest_window_stays_open_until_later_data_arrives_or_it_is_old() -> None:
    blocks = [block(0, 0, HOUR), block(1, HOUR, 2 * HOUR)]
    assert plan(blocks, PlanSettings(), now_ms=2 * HOUR) == ()
    assert only(plan(blocks, PlanSettings(), now_ms=4 * HOUR)).window == (0, 2 * HOUR)
    later = block(2, 2 * HOUR, 3 * HOUR)
    assert only(plan([*blocks, later], PlanSettings(), now_ms=2 * HOUR)).window == (0, 2 * HOUR)


def test_many_blocks_in_an_open_window_are_merged_by_size() -> None:
    blocks = [block(number, number, number + 1) for number in range(8)]
    assert plan(blocks[:7], PlanSettings(), now_ms=100) == ()
    job = only(plan(blocks, PlanSettings(), now_ms=100))
    assert (job.reason, len(job.inputs), job.window) == (Reason.SIZE, 8, None)


def test_blocks_without_time_or_of_long_spans_are_merged_by_size() -> None:
    untimed = [block(number, number, number + 1, timed=False) for number in range(8)]
    assert only(plan(untimed, PlanSettings(), LATER)).reason is Reason.SIZE
    months = [block(number, number * 31 * DAY, (number + 1) * 31 * DAY) for number in range(12)]
    assert len(only(plan(months, PlanSettings(), LATER)).inputs) == 12


def test_blocks_at_rest_in_closed_windows_are_not_merged_across_windows() -> None:
    blocks = [block(number, start := number * 14 * DAY, start + DAY) for number in range(20)]
    assert plan(blocks, PlanSettings(), LATER) == ()


def test_sizes_far_apart_are_not_merged_by_size() -> None:
    sizes = [8 * MIB, 80 * MIB, 800 * MIB, 8000 * MIB]
    blocks = [
        block(number, 0, 40 * DAY, size=size)
        for number, size in enumerate(size for size in sizes for _ in range(2))
    ]
    assert plan(blocks, PlanSettings(), LATER) == ()


def test_late_rows_do_not_rewrite_a_large_block_but_join_each_other() -> None:
    large = block(0, 0, 14 * DAY, size=50_000 * MIB)
    late = [block(number, number * HOUR, (number + 1) * HOUR) for number in range(1, 4)]
    assert ulids(only(plan([large, *late], PlanSettings(), LATER))) == [1, 2, 3]
    heavy = block(9, 0, 14 * DAY, size=7_000 * MIB)
    assert ulids(only(plan([large, heavy], PlanSettings(), LATER))) == [0, 9]


def test_a_no_compact_mark_splits_the_blocks_before_it_from_those_after() -> None:
    blocks = hourly(6)
    blocks[2] = replace(blocks[2], no_compact=True)
    assert [ulids(job) for job in plan(blocks, PlanSettings(), LATER)] == [[0, 1], [3, 4, 5]]


def test_a_job_is_at_most_as_large_as_a_block_may_be() -> None:
    blocks = hourly(8, size=30 * MIB)
    jobs = plan(blocks, PlanSettings(max_block_bytes=100 * MIB), LATER)
    assert [ulids(job) for job in jobs] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_overlapping_blocks_come_first_then_the_oldest() -> None:
    calm = [block(0, 0, HOUR), block(1, HOUR, 2 * HOUR)]
    overlapping = [block(2, 20 * DAY, 20 * DAY + HOUR), block(3, 20 * DAY, 20 * DAY + 2 * HOUR)]
    older = [block(4, 14 * DAY, 14 * DAY + HOUR), block(5, 14 * DAY + HOUR, 14 * DAY + 2 * HOUR)]
    jobs = plan([*older, *calm, *overlapping], PlanSettings(ranges_ms=(2 * HOUR,)), LATER)
    assert [(job.reason, ulids(job)) for job in jobs] == [
        (Reason.OVERLAP, [2, 3]),
        (Reason.WINDOW, [0, 1]),
        (Reason.WINDOW, [4, 5]),
    ]


def test_streams_take_turns_so_that_none_waits_for_the_backlog_of_another() -> None:
    busy = [
        block(2 * number + half, number * 14 * DAY, number * 14 * DAY + HOUR)
        for number in range(50)
        for half in range(2)
    ]
    quiet = [block(200 + half, 49 * 14 * DAY, 49 * 14 * DAY + HOUR, stream=EU) for half in range(2)]
    jobs = plan([*busy, *quiet], PlanSettings(), LATER)
    assert len(jobs) == 51
    assert {job.stream for job in jobs[:2]} == {STREAM, EU}
    assert [job.min_time for job in jobs if job.stream == STREAM] == [
        n * 14 * DAY for n in range(50)
    ]


@pytest.mark.parametrize("timed", [True, False])
def test_the_wait_of_the_first_level_ends_after_the_first_range(timed: bool) -> None:
    start = LATER  # of a window that is still open; or of none
    few = [
        block(number, start, start + 9 * HOUR, created=LATER, timed=timed) for number in range(3)
    ]
    assert plan(few, PlanSettings(), LATER + 2 * HOUR - 1) == ()
    job = only(plan(few, PlanSettings(), LATER + 2 * HOUR))
    assert (job.reason, ulids(job)) == (Reason.WAIT, [0, 1, 2])


def test_one_block_alone_waits_for_ever_since_there_is_nothing_to_merge_it_with() -> None:
    assert plan([block(0, 0, 1, created=0, timed=False)], PlanSettings(), LATER) == ()


def test_a_wait_that_ended_rewrites_no_large_block_of_a_higher_level() -> None:
    large = [
        block(number, 0, 1, size=900 * MIB, level=2, timed=False, created=0) for number in range(3)
    ]
    fresh = [block(number, 0, 1, size=900 * MIB, timed=False, created=0) for number in range(3, 5)]
    assert ulids(only(plan([*large, *fresh], PlanSettings(), LATER))) == [3, 4]
    assert plan([*large, fresh[0]], PlanSettings(), LATER) == ()


def trickle(every_ms: int, count: int, **more: object) -> tuple[int, int, int]:
    """One tiny block after the other: the most blocks there ever were, bytes come in, bytes
    rewritten."""
    blocks: list[Candidate] = []
    most, written = 0, 0
    for number in range(count):
        now = LATER + number * every_ms
        blocks.append(block(number, now, now + 1, size=1_000, created=now, **more))
        for turn in range(10):
            jobs = plan(blocks, PlanSettings(), now)
            if not jobs:
                break
            written += sum(job.bytes for job in jobs)
            blocks = applied(blocks, jobs, 100_000 + 100 * number + 10 * turn, now)
        most = max(most, len(blocks))
    return most, 1_000 * count, written


@pytest.mark.parametrize("every_ms", [60_000, HOUR, 3 * HOUR])
def test_a_stream_of_tiny_blocks_stays_few_blocks_at_a_bounded_price(every_ms: int) -> None:
    most, _, written = trickle(every_ms, 600, timed=False)
    assert most <= 8
    # Each two hours, or each tier of blocks, one small block is rewritten.
    rewritings = max(600 * every_ms / (2 * HOUR), 600 / 8)
    assert written <= min(rewritings, 600) * 600_000


def test_a_late_block_beside_a_large_one_joins_it_once_it_has_waited_for_the_windows_length() -> (
    None
):
    large = block(0, 0, 14 * DAY, size=50_000 * MIB, created=LATER, level=2)
    late = block(1, HOUR, 2 * HOUR, created=LATER)
    assert plan([large, late], PlanSettings(), LATER + 14 * DAY - 1) == ()
    assert ulids(only(plan([large, late], PlanSettings(), LATER + 14 * DAY))) == [0, 1]
    assert plan([large, late], PlanSettings(max_block_bytes=50_000 * MIB), LATER + 14 * DAY) == ()


def test_a_job_says_what_it_reads_writes_and_needs() -> None:
    job = only(plan(hourly(4, size=30 * MIB), PlanSettings(memory_bytes=256 * MIB), LATER))
    assert (job.rows, job.bytes, job.level) == (400, 120 * MIB, 2)
    assert job.memory_bytes == 256 * MIB
    assert job.disk_bytes >= job.bytes
    tiny = only(plan(hourly(4, size=10), PlanSettings(), LATER))
    assert tiny.memory_bytes < 256 * MIB


@given(candidates(), SETTINGS)
def test_each_byte_is_rewritten_a_bounded_number_of_times(
    blocks: list[Candidate], settings: PlanSettings
) -> None:
    """A settled backlog costs one rewriting a window, and one a tier."""
    there, written, first = sum(one.bytes for one in blocks), 0, 1000
    while jobs := plan(blocks, settings, LATER):
        written += sum(job.bytes for job in jobs)
        blocks = applied(blocks, jobs, first)
        first += 1000
    assert written <= there * (len(settings.ranges_ms) + 6)


def test_blocks_about_to_expire_are_left_alone() -> None:
    settings = PlanSettings(retention_ms=30 * DAY)
    assert plan(hourly(4), settings, now_ms=30 * DAY + HOUR) == ()
    assert len(plan(hourly(4), settings, now_ms=20 * DAY)) == 1


@pytest.mark.parametrize("count", [4096, 4097])
def test_a_merge_names_at_most_4096_inputs(count: int) -> None:
    blocks = [block(number, number, number + 1, size=1) for number in range(count)]
    jobs = plan(blocks, PlanSettings(), LATER)
    assert [len(job.inputs) for job in jobs] == [4096]

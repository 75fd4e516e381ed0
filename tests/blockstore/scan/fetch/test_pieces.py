"""Pieces cover what is wanted, waste little, and are neither too many nor too large."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.segments import SEGMENT_BYTES
from blockstore.scan.fetch.pieces import GAP_SEGMENTS, MOST_SEGMENTS, pieces, segment_runs

RANGES = st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(0, 900_000)), max_size=20)


@given(RANGES)
def test_the_runs_are_the_segments_of_the_ranges_and_no_others(
    ranges: list[tuple[int, int]],
) -> None:
    expected = {
        number
        for start, length in ranges
        if length
        for number in range(start // SEGMENT_BYTES, (start + length - 1) // SEGMENT_BYTES + 1)
    }
    runs = segment_runs(ranges)
    assert [number for run in runs for number in run] == sorted(expected)
    assert all(one.stop < other.start for one, other in pairwise(runs))


@given(st.sets(st.integers(0, 3_000), max_size=300))
def test_pieces_cover_the_segments_and_fetch_only_small_gaps_more(wanted: set[int]) -> None:
    found = pieces(sorted(wanted))
    covered = [number for piece in found for number in piece]
    assert covered == sorted(set(covered))
    assert wanted <= set(covered)
    assert all(0 < len(piece) <= MOST_SEGMENTS for piece in found)
    for number in set(covered) - wanted:
        near = range(number - GAP_SEGMENTS, number + GAP_SEGMENTS + 1)
        assert wanted.intersection(near)


def test_a_long_run_is_cut_so_that_many_requests_are_in_flight() -> None:
    assert len(pieces(range(4_096))) == 32
    assert len(pieces(range(1_536))) == 16
    assert len(pieces(range(64))) == 1
    assert pieces([]) == []

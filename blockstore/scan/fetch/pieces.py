"""Which pieces of a file to fetch for some ranges of its bytes. Pure.

Rules:
- A piece is a run of whole segments: only those can be checked.
- Neighbors are fetched together where the gap between them costs less than a request.
- A piece is small enough that many are in flight, and large enough that requests cost little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blockstore.format.segments import SEGMENT_BYTES

Range = tuple[int, int]
"""A range of bytes: where it begins, and its length."""

GAP_SEGMENTS = 1
"""So many unwanted segments between two wanted ones are fetched too."""

MOST_SEGMENTS = 128
"""A piece has at most 8 MiB."""

LANES = 16
"""About as many requests are in flight."""

_LEAST_SEGMENTS = 64
"""A piece is not made smaller than 4 MiB to fill the lanes: requests cost CPU time too."""


def segment_runs(ranges: Iterable[Range]) -> list[range]:
    """Return the segments that contain these ranges, as ascending runs with gaps between them."""
    runs: list[range] = []
    for start, length in sorted(ranges):
        if length <= 0:
            continue
        run = range(start // SEGMENT_BYTES, -(-(start + length) // SEGMENT_BYTES))
        if runs and run.start <= runs[-1].stop:
            runs[-1] = range(runs[-1].start, max(runs[-1].stop, run.stop))
        else:
            runs.append(run)
    return runs


def pieces(segments: Iterable[int], *, lanes: int = LANES) -> list[range]:
    """Return the pieces to fetch for these segments, given in ascending order without repeats.

    ``lanes`` is how many requests for this file should be in flight.
    """
    runs = list(_joined(segments))
    total = sum(map(len, runs))
    most = min(MOST_SEGMENTS, max(_LEAST_SEGMENTS, -(-total // lanes)))
    return [
        range(run.start + part * len(run) // parts, run.start + (part + 1) * len(run) // parts)
        for run in runs
        for parts in (-(-len(run) // most),)
        for part in range(parts)
    ]


def _joined(segments: Iterable[int]) -> Iterator[range]:
    run = range(0)
    for number in segments:
        if run and number - run.stop <= GAP_SEGMENTS:
            run = range(run.start, number + 1)
            continue
        if run:
            yield run
        run = range(number, number + 1)
    if run:
        yield run
